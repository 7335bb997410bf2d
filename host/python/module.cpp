// SPDX-License-Identifier: Apache-2.0
// ironcl._core: what the Python files of ironcl/ call. Operands are addresses of tight host memory, whose types and
// shapes the caller has checked; whoever calls holds the arrays. Everything that may wait runs without the GIL. Next
// door: device.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "host/python/device.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ironcl::python {

void add_jax(nb::module_& module);          // jax.cpp
void add_distributed(nb::module_& module);  // distributed.cpp

void log_line(std::string_view line) {
  if (!nb::is_alive()) return;
  try {
    const nb::gil_scoped_acquire gil;
    nb::module_::import_("logging").attr("getLogger")("ironcl").attr("info")("%s", nb::str(line.data(), line.size()));
  } catch (const std::exception&) {  // a log line that cannot be said is no failure of the call that says it
  }
}

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

void* at(Address address) { return reinterpret_cast<void*>(address); }

/// ironcl.Error, or the class of its status.
void raise(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    const nb::object made =
        nb::module_::import_("ironcl._errors")
            .attr("of_status")(ironcl_status_name(error.status()), error.native_code(), error.what());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  }
}

Scale scale_of(ironcl_dtype type, Block block) { return {type, block.first, block.second}; }

/// What an array says of itself by DLPack or the buffer protocol: address, code, bits, device, shape, whether it is
/// tight and row major, whether it may be written.
nb::tuple look(const nb::ndarray<nb::ro>& array) {
  nb::list shape;
  bool tight = true;
  std::int64_t step = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != step) tight = false;
    step *= static_cast<std::int64_t>(array.shape(i));
    shape.insert(0, array.shape(i));
  }
  const nb::dlpack::dtype type = array.dtype();
  return nb::make_tuple(reinterpret_cast<Address>(array.data()), type.code, type.bits, array.device_type(),
                        nb::tuple(shape), tight);
}

std::vector<nb::tuple> devices() {
  std::vector<ironcl::Device> all;
  {
    const nb::gil_scoped_release release;
    all = registry().devices();
  }
  std::vector<nb::tuple> rows;
  for (const ironcl::Device& device : all) {
    const ironcl_device_props& props = device.props();
    rows.push_back(nb::make_tuple(device.uri(), ironcl_device_type_name(props.type), props.name, props.driver,
                                  props.memory_bytes));
  }
  return rows;
}

std::vector<nb::tuple> report() {
  std::vector<nb::tuple> rows;
  for (const ReportEntry& entry : registry().report())
    rows.push_back(nb::make_tuple(entry.path, entry.plugin, entry.status == IRONCL_OK, entry.reason));
  for (const PluginInfo& plugin : registry().plugins())
    if (plugin.enumerate_status != IRONCL_OK)
      rows.push_back(nb::make_tuple(plugin.path, plugin.name, false, plugin.enumerate_reason));
  return rows;
}

nb::tuple layer_row(const Layer& layer) {
  const ironcl_layer_info& info = layer.info();
  return nb::make_tuple(layer.name(), info.n, info.k, info.weight_dtype, info.weight_scale.dtype,
                        std::pair(info.weight_scale.group_rows, info.weight_scale.group_cols), info.activations,
                        layer.problem_text(), info.bytes);
}

void add_core(nb::module_& module) {
  nb::set_leak_warnings(false);  // a handle in a global is no leak: the registry outlives every object
  nb::register_exception_translator(raise);

  module.def("look", look, "array"_a);
  module.def("devices", devices);
  module.def("report", report);

  nb::class_<Device>(module, "Device")
      .def_static("open", &Device::open, "uri"_a, Release())
      .def_prop_ro("uri", [](const Device& d) { return d.device().uri(); })
      .def_prop_ro("name", [](const Device& d) { return d.device().name(); })
      .def(
          "supports",
          [](const Device& d, std::int64_t m, std::int64_t n, std::int64_t k, ironcl_dtype x, ironcl_dtype code,
             ironcl_dtype weight, Block block, ironcl_dtype out, std::uint32_t accuracy) {
            GemmDesc desc{.m = m,
                          .n = n,
                          .k = k,
                          .a_source = x,
                          .a = code,
                          .b = weight,
                          .d = out,
                          .weakest_accuracy = accuracy,
                          .a_scale = {IRONCL_F32, 1, block.second},
                          .b_scale = scale_of(IRONCL_F32, block)};
            const Support answer = d.device().supports(desc);
            return std::pair(static_cast<bool>(answer), answer.text);
          },
          Release());

  nb::class_<Linear>(module, "Linear")
      .def(nb::new_([](std::shared_ptr<Device> device, Address weight, Address scale, std::int64_t n, std::int64_t k,
                       std::uint32_t matrices, ironcl_dtype code, ironcl_dtype scale_type, Block block,
                       std::uint64_t weight_bytes, std::uint64_t scale_bytes, Address bias, ironcl_dtype bias_type,
                       bool weight_only, bool power_of_two, std::uint32_t accuracy, bool gated) {
        const Scale grid = scale_of(scale_type, block);
        GemmDesc desc{.m = 1,
                      .n = n,
                      .k = k,
                      .a = code,
                      .b = code,
                      .bias = bias_type,
                      .weakest_accuracy = accuracy,
                      .grouping = matrices ? IRONCL_GROUPING_CONTIGUOUS : IRONCL_GROUPING_NONE,
                      .matrices = matrices,
                      .a_scale = weight_only ? Scale() : Scale(IRONCL_F32, 1, block.second),
                      .b_scale = grid};
        desc.a_quantizer.scale_rounding = power_of_two ? IRONCL_SCALE_POWER_OF_TWO : IRONCL_SCALE_EXACT;
        const WeightsDesc weights{.n = n,
                                  .k = k,
                                  .matrices = matrices,
                                  .dtype = code,
                                  .scale = grid,
                                  .data = bytes_at(weight, weight_bytes),
                                  .scales = bytes_at(scale, scale_bytes)};
        const nb::gil_scoped_release release;
        return std::make_shared<Linear>(std::move(device), std::move(desc), weights, at(bias), gated);
      }))
      .def(
          "run",
          [](Linear& self, Address x, ironcl_dtype x_type, std::int64_t rows, Address out, ironcl_dtype out_type,
             Address matrix_rows, bool torch, bool gated, Linear* down) {
            self.run({at(x), x_type, rows, at(out), out_type, static_cast<const std::int32_t*>(at(matrix_rows)),
                      torch, gated, down});
          },
          "x"_a, "x_type"_a, "rows"_a, "out"_a, "out_type"_a, "matrix_rows"_a = 0, "torch"_a = false,
          "gated"_a = false, "down"_a.none() = nb::none(), Release())
      .def_prop_ro("n", [](const Linear& self) { return self.n(); })
      .def_prop_ro("k", &Linear::k)
      .def_prop_ro("device", &Linear::device)
      .def_prop_ro("nbytes", &Linear::device_bytes)
      .def_prop_ro("form", [](const Linear& self) { return std::string(self.info().form); })
      .def_prop_ro("sizes",
                   [](const Linear& self) {
                     const auto info = self.info();
                     return std::pair(info.data_bytes, info.scale_bytes);
                   })
      .def(
          "export",
          [](const Linear& self, Address data, std::uint64_t data_bytes, Address scales, std::uint64_t scale_bytes) {
            self.export_to(bytes_at(data, data_bytes), bytes_at(scales, scale_bytes));
          },
          Release());

  module.def(
      "quantize",
      [](const std::shared_ptr<Device>& device, Address x, ironcl_dtype x_type, std::int64_t rows, std::int64_t cols,
         ironcl_dtype code, Block block, bool power_of_two, Address codes, std::uint64_t code_bytes, Address scales,
         std::uint64_t scale_bytes) {
        QuantizeDesc desc{
            .rows = rows, .cols = cols, .x = x_type, .code = code, .scale = scale_of(IRONCL_F32, block)};
        desc.quantizer.scale_rounding = power_of_two ? IRONCL_SCALE_POWER_OF_TWO : IRONCL_SCALE_EXACT;
        quantize(*device, desc, at(x), at(codes), code_bytes, at(scales), scale_bytes);
      },
      Release());

  nb::class_<Checkpoint>(module, "Checkpoint")
      .def(nb::init<const std::string&, Block>(), "path"_a, "block"_a = Block(), Release())
      .def("layers",
           [](const Checkpoint& self) {
             std::vector<nb::tuple> rows;
             for (const Layer& layer : self.layers()) rows.push_back(layer_row(layer));
             return rows;
           })
      .def("expert_layers",
           [](const Checkpoint& self) {
             std::vector<nb::tuple> rows;
             for (const ExpertsInfo& e : self.experts())
               rows.push_back(nb::make_tuple(e.name, e.experts, e.top_k, e.hidden, e.width, e.problem, e.bytes));
             return rows;
           })
      .def(
          "linear",
          [](const Checkpoint& self, const std::string& name, std::shared_ptr<Device> device,
             std::uint32_t accuracy) {
            return std::make_shared<Linear>(std::move(device), self.layer(name), accuracy);
          },
          Release())
      .def(
          "experts",
          [](const Checkpoint& self, const std::string& name, std::shared_ptr<Device> device, std::int64_t tokens,
             ironcl_dtype type, std::uint32_t accuracy) {
            return std::make_shared<Experts>(
                std::move(device), self, name,
                ExpertsChoices{.tokens = tokens, .x = type, .y = type, .weakest_accuracy = accuracy});
          },
          Release());

  nb::class_<Experts>(module, "Experts")
      .def(
          "run",
          [](Experts& self, Address x, std::int64_t tokens, Address ids, Address weights, Address y, bool torch) {
            self.run(at(x), tokens, at(ids), at(weights), at(y), torch);
          },
          Release())
      .def_prop_ro("hidden", [](const Experts& self) { return self.info().hidden; })
      .def_prop_ro("top_k", [](const Experts& self) { return self.info().top_k; })
      .def_prop_ro("tokens", [](const Experts& self) { return self.choices().tokens; })
      .def_prop_ro("device", &Experts::device);

  add_distributed(module);
#ifdef IRONCL_PYTHON_JAX
  add_jax(module);
#endif
}

}  // namespace
}  // namespace ironcl::python

NB_MODULE(_core, module) { ironcl::python::add_core(module); }

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
#include "host/python/log.h"

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
using Address = std::uintptr_t;

const void* at(Address address) { return reinterpret_cast<const void*>(address); }
void* to(Address address) { return reinterpret_cast<void*>(address); }

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

/// A block of Python's: rows and columns, 0 for all.
Scale scale_of(ironcl_dtype type, std::pair<std::uint32_t, std::uint32_t> block) {
  return {type, block.first, block.second};
}

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

}  // namespace
}  // namespace ironcl::python

NB_MODULE(_core, module) {
  using namespace ironcl;
  using ironcl::python::Address;
  using ironcl::python::Release;
  nb::set_leak_warnings(false);  // a handle in a global is no leak: the registry outlives every object
  nb::register_exception_translator(ironcl::python::raise);

  module.def("look", ironcl::python::look, "array"_a);
  module.def("devices", ironcl::python::devices);
  module.def("report", ironcl::python::report);

  nb::class_<python::Device>(module, "Device")
      .def_static("open", &python::Device::open, "uri"_a, Release())
      .def_prop_ro("uri", [](const python::Device& d) { return d.device().uri(); })
      .def_prop_ro("name", [](const python::Device& d) { return d.device().name(); })
      .def(
          "supports",
          [](const python::Device& d, std::int64_t m, std::int64_t n, std::int64_t k, ironcl_dtype x,
             ironcl_dtype code, ironcl_dtype weight, std::pair<std::uint32_t, std::uint32_t> block, ironcl_dtype out,
             std::uint32_t accuracy) {
            GemmDesc desc{.m = m,
                          .n = n,
                          .k = k,
                          .a_source = x,
                          .a = code,
                          .b = weight,
                          .d = out,
                          .weakest_accuracy = accuracy,
                          .a_scale = {IRONCL_F32, 1, block.second},
                          .b_scale = python::scale_of(IRONCL_F32, block)};
            const Support answer = d.device().supports(desc);
            return std::pair(static_cast<bool>(answer), answer.text);
          },
          Release());

  nb::class_<python::Linear>(module, "Linear")
      .def(nb::new_([](std::shared_ptr<python::Device> device, Address weight, Address scale, std::int64_t n,
                       std::int64_t k, std::uint32_t matrices, ironcl_dtype code, ironcl_dtype scale_type,
                       std::pair<std::uint32_t, std::uint32_t> block, std::uint64_t weight_bytes,
                       std::uint64_t scale_bytes, Address bias, ironcl_dtype bias_type, bool weight_only,
                       bool power_of_two, std::uint32_t accuracy, bool gated) {
        const Scale grid = python::scale_of(scale_type, block);
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
                                  .data = {static_cast<const std::byte*>(python::at(weight)), weight_bytes},
                                  .scales = {static_cast<const std::byte*>(python::at(scale)), scale_bytes}};
        const nb::gil_scoped_release release;
        return std::make_shared<python::Linear>(std::move(device), std::move(desc), weights, python::at(bias), gated);
      }))
      .def(
          "run",
          [](python::Linear& self, Address x, ironcl_dtype x_type, std::int64_t rows, Address out,
             ironcl_dtype out_type, Address matrix_rows, bool torch, bool gated, python::Linear* down) {
            self.run({python::at(x), x_type, rows, python::to(out), out_type,
                      static_cast<const std::int32_t*>(python::at(matrix_rows)), torch, gated, down});
          },
          "x"_a, "x_type"_a, "rows"_a, "out"_a, "out_type"_a, "matrix_rows"_a = 0, "torch"_a = false,
          "gated"_a = false, "down"_a.none() = nb::none(), Release())
      .def_prop_ro("n", [](const python::Linear& self) { return self.n(); })
      .def_prop_ro("k", &python::Linear::k)
      .def_prop_ro("device", &python::Linear::device)
      .def_prop_ro("nbytes", &python::Linear::device_bytes)
      .def_prop_ro("form", [](const python::Linear& self) { return std::string(self.info().form); })
      .def_prop_ro("sizes",
                   [](const python::Linear& self) {
                     const auto info = self.info();
                     return std::pair(info.data_bytes, info.scale_bytes);
                   })
      .def(
          "export",
          [](const python::Linear& self, Address data, std::uint64_t data_bytes, Address scales,
             std::uint64_t scale_bytes) {
            self.export_to({static_cast<std::byte*>(python::to(data)), data_bytes},
                           {static_cast<std::byte*>(python::to(scales)), scale_bytes});
          },
          Release());

  module.def(
      "quantize",
      [](const std::shared_ptr<python::Device>& device, Address x, ironcl_dtype x_type, std::int64_t rows,
         std::int64_t cols, ironcl_dtype code, std::pair<std::uint32_t, std::uint32_t> block, bool power_of_two,
         Address codes, std::uint64_t code_bytes, Address scales, std::uint64_t scale_bytes) {
        QuantizeDesc desc{
            .rows = rows, .cols = cols, .x = x_type, .code = code, .scale = python::scale_of(IRONCL_F32, block)};
        desc.quantizer.scale_rounding = power_of_two ? IRONCL_SCALE_POWER_OF_TWO : IRONCL_SCALE_EXACT;
        python::quantize(*device, desc, python::at(x), python::to(codes), code_bytes, python::to(scales),
                         scale_bytes);
      },
      Release());

  nb::class_<Checkpoint>(module, "Checkpoint")
      .def(nb::init<const std::string&, std::pair<std::uint32_t, std::uint32_t>>(), "path"_a,
           "block"_a = std::pair(0, 0), Release())
      .def("layers",
           [](const Checkpoint& self) {
             std::vector<nb::tuple> rows;
             for (const Layer& layer : self.layers()) rows.push_back(python::layer_row(layer));
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
          [](const Checkpoint& self, const std::string& name, std::shared_ptr<python::Device> device,
             std::uint32_t accuracy) {
            return std::make_shared<python::Linear>(std::move(device), self.layer(name), accuracy);
          },
          Release())
      .def(
          "experts",
          [](const Checkpoint& self, const std::string& name, std::shared_ptr<python::Device> device,
             std::int64_t tokens, ironcl_dtype type, std::uint32_t accuracy) {
            return std::make_shared<python::Experts>(
                std::move(device), self, name,
                ExpertsChoices{.tokens = tokens, .x = type, .y = type, .weakest_accuracy = accuracy});
          },
          Release());

  nb::class_<python::Experts>(module, "Experts")
      .def(
          "run",
          [](python::Experts& self, Address x, std::int64_t tokens, Address ids, Address weights, Address y,
             bool torch) {
            self.run(python::at(x), tokens, python::at(ids), python::at(weights), python::to(y), torch);
          },
          Release())
      .def_prop_ro("hidden", [](const python::Experts& self) { return self.info().hidden; })
      .def_prop_ro("top_k", [](const python::Experts& self) { return self.info().top_k; })
      .def_prop_ro("tokens", [](const python::Experts& self) { return self.choices().tokens; })
      .def_prop_ro("device", &python::Experts::device);

  python::add_distributed(module);
#ifdef IRONCL_PYTHON_JAX
  python::add_jax(module);
#endif
}

// SPDX-License-Identifier: Apache-2.0
// The FFI target of ironcl.jax: XLA's CPU calls a prepared layer, on a thread of its own and without the GIL. Built
// where jaxlib's headers are. Next door: device.h.
#include <nanobind/nanobind.h>
#include <xla/ffi/api/ffi.h>

#include "host/python/device.h"

namespace nb = nanobind;
namespace ffi = xla::ffi;

namespace ironcl::python {
namespace {

/// Layers by the numbers that compiled programs hold; a program does not keep its layers alive.
struct Layers {
  std::mutex mutex;
  std::map<std::int64_t, std::weak_ptr<Linear>> by_number;
};
Layers& layers() {
  static auto* const layers = new Layers();
  return *layers;
}

std::int64_t number_of(Linear& layer) {
  static std::int64_t last = 0;
  const std::lock_guard lock(layers().mutex);
  layers().by_number[++last] = layer.weak_from_this();
  return last;
}

std::shared_ptr<Linear> layer_of(std::int64_t number) {
  const std::lock_guard lock(layers().mutex);
  const auto found = layers().by_number.find(number);
  return found == layers().by_number.end() ? nullptr : found->second.lock();
}

ironcl_dtype type_of(ffi::DataType type) {
  return type == ffi::DataType::F32 ? IRONCL_F32 : type == ffi::DataType::F16 ? IRONCL_F16 : IRONCL_BF16;
}

ffi::Error linear(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y, std::int64_t number) {
  try {
    const std::shared_ptr<Linear> layer = layer_of(number);
    if (!layer) return ffi::Error(ffi::ErrorCode::kFailedPrecondition, "the ironcl.Linear of this program is gone");
    const auto rows = static_cast<std::int64_t>(x.element_count()) / layer->k();
    layer->run({x.untyped_data(), type_of(x.element_type()), rows, y->untyped_data(), type_of(y->element_type())});
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error(ffi::ErrorCode::kInternal, error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(kLinear, linear,
                       ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>().Attr<std::int64_t>("layer"));

}  // namespace

void add_jax(nb::module_& module) {
  module.def("jax_target", [] { return nb::capsule(reinterpret_cast<void*>(kLinear), "xla._CUSTOM_CALL_TARGET"); });
  module.def("jax_number", number_of);
}

}  // namespace ironcl::python

// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: plans, weights, and one call of a plan. Next door: problem.hpp, queue.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device.hpp"

namespace ironcl {

/// A plan: everything of a problem that is compiled or looked up. One thread at a time.
class Gemm : public detail::Ref<ironcl_op, &ironcl_plugin::op_destroy> {
 public:
  Gemm() = default;
  Gemm(const Device& device, const GemmDesc& desc) : Ref(device.owner(), &device.api(), nullptr) {
    detail::check(api_->op_create, device.handle(), detail::CGemmDesc(desc).get(), &handle_);
  }
  ironcl_op_info info() const {
    auto info = detail::sized<ironcl_op_info>();
    detail::check(api_->op_info, handle_, &info);
    return info;
  }
};

/// B in host memory; every field as in ironcl_weights_desc.
struct WeightsDesc {
  std::int64_t n = 0, k = 0;
  std::int64_t ld = 0;
  std::uint32_t matrices = 0;
  ironcl_dtype dtype = IRONCL_F8_E4M3FN;
  Scale scale{IRONCL_F32, 128, 128};
  std::span<const std::byte> data{};
  std::span<const std::byte> scales{};
  std::span<const float> global_scales{};  ///< one a matrix, where scale.global_dtype is F32
};

/// B, prepared for a device; immutable. Host memory may go once the constructor has returned.
class Weights : public detail::Ref<ironcl_weights, &ironcl_plugin::weights_destroy> {
 public:
  Weights() = default;
  /// `plan`: whose form to prepare; null: one that every plan of the device takes.
  Weights(const Device& device, const WeightsDesc& desc, const Gemm* plan = nullptr)
      : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_weights_desc>();
    c.dtype = desc.dtype;
    c.n = desc.n;
    c.k = desc.k;
    c.ld = desc.ld;
    c.matrices = desc.matrices;
    c.scale = desc.scale;
    c.data = desc.data.data();
    c.scales = desc.scales.data();
    c.data_bytes = desc.data.size();
    c.scale_bytes = desc.scales.size();
    c.global_scales = desc.global_scales.empty() ? nullptr : desc.global_scales.data();
    c.plan = plan ? plan->handle() : nullptr;
    detail::check(api_->weights_prepare, device.handle(), &c, &handle_);
  }
  /// The bytes it was made from, tight, bit for bit.
  void export_to(std::span<std::byte> data, std::span<std::byte> scales) const {
    detail::check(api_->weights_export, handle_, data.data(), std::uint64_t{data.size()}, scales.data(),
                  std::uint64_t{scales.size()});
  }
  ironcl_weights_info info() const {
    auto info = detail::sized<ironcl_weights_info>();
    detail::check(api_->weights_info, handle_, &info);
    return info;
  }
  operator ironcl_weights() const noexcept { return handle_; }
};

/// One call of a plan; every field as in ironcl_gemm_args. Weights, buffers and events convert.
struct GemmArgs {
  std::int64_t m = 0;
  ironcl_weights weights = nullptr;
  ironcl_span a{}, a_scale{}, d{}, d_scale{}, bias{}, matrix_rows{}, workspace{}, a_quantized{}, a_quantized_scale{};
  ironcl_span a_global{}, d_global{};
  std::int64_t a_rows = 0;  ///< of a plan that gathers; with a_index
  ironcl_span a_index{};
  std::vector<ironcl_event> wait{};
};

}  // namespace ironcl

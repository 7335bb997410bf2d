// SPDX-License-Identifier: Apache-2.0
// Weights on a device: codes in a kernel's form, a scale for each column, and the way back bit for bit.
#pragma once

#include "backends/opencl/form.h"
#include "backends/opencl/objects.h"

namespace ironcl::opencl {

/// One matrix, or those of a grouped problem. Immutable: the form in which a weight lies is made when it is prepared,
/// never by a call.
class Weights final : public backend::Weights {
 public:
  /// Throws out_of_device_memory where the form does not fit in a buffer.
  Weights(ContextPtr context, const backend::WeightsDesc& desc, WeightFormPtr form);
  std::uint64_t device_bytes() const noexcept override;
  std::string form() const override { return form_->name(); }
  std::uint64_t data_bytes() const noexcept override {
    return numerics::bytes_of(dtype_, static_cast<std::uint64_t>(matrices_ * n_ * k_));
  }
  std::uint64_t scale_bytes() const noexcept override { return original_scales_.size(); }
  void export_to(std::byte* data, std::byte* scales) override;

  /// The weight in `form`. Throws invalid_argument, saying how to prepare it, where it does not lie so.
  const DeviceWeights& in(const WeightForm& form) const;

 private:
  void fill(const std::uint8_t* codes, std::int64_t ld);
  /// As they lie on the device.
  std::vector<std::uint8_t> column_scales(std::int64_t matrix, const std::uint8_t* codes, std::int64_t ld) const;

  ContextPtr context_;
  backend::DType dtype_;
  std::int64_t n_, k_, matrices_;
  backend::ScaleDesc scale_;
  std::vector<std::byte> original_scales_;  ///< Tight, as given.
  std::vector<float> global_scales_;        ///< One per matrix, or none.
  WeightFormPtr form_;
  WeightExtent extent_;            ///< Extent of one matrix; matrices lie one after another.
  std::uint64_t scale_bytes_ = 0;  ///< Bytes of one matrix's scales on the device.
  DeviceWeights memory_;
};

}  // namespace ironcl::opencl

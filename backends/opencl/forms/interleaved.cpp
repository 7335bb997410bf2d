// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "backends/opencl/forms/forms.h"

namespace ironcl::opencl {
namespace {

class Interleaved final : public WeightForm {
 public:
  Interleaved(WeightFormPtr form, std::int64_t half, std::int64_t run, numerics::DType type)
      : form_(std::move(form)), half_(half), run_(run), type_(type) {}

  std::string name() const override { return form_->name() + "_gate" + std::to_string(run_); }
  WeightExtent extent(std::int64_t n, std::int64_t k, std::int64_t scale_groups) const override {
    return form_->extent(n, k, scale_groups);
  }

  void pack(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
            std::uint8_t* packed) const override {
    const std::int64_t bytes = numerics::bytes_of(type_, k);
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(n * bytes));
    for (std::int64_t row = 0; row < n; ++row)
      std::memcpy(rows.data() + place(row) * bytes, codes + numerics::bytes_of(type_, row * ld),
                  static_cast<std::size_t>(bytes));
    form_->pack(n, k, rows.data(), k, packed);
  }

  void unpack(std::int64_t n, std::int64_t k, const std::uint8_t* packed, std::uint8_t* codes) const override {
    const std::int64_t bytes = numerics::bytes_of(type_, k);
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(n * bytes));
    form_->unpack(n, k, packed, rows.data());
    for (std::int64_t row = 0; row < n; ++row)
      std::memcpy(codes + row * bytes, rows.data() + place(row) * bytes, static_cast<std::size_t>(bytes));
  }

  std::int64_t scale_at(const WeightExtent& extent, std::int64_t n, std::int64_t group) const override {
    return form_->scale_at(extent, place(n), group);
  }
  bool marks_nan_codes() const override { return form_->marks_nan_codes(); }
  bool keeps_scales() const override { return form_->keeps_scales(); }

 private:
  /// Where row `row` lies.
  std::int64_t place(std::int64_t row) const {
    const std::int64_t of_half = row % half_;
    return of_half / run_ * 2 * run_ + row / half_ * run_ + of_half % run_;
  }

  WeightFormPtr form_;
  std::int64_t half_, run_;
  numerics::DType type_;
};

}  // namespace

WeightFormPtr interleaved_form(WeightFormPtr form, std::int64_t half, std::int64_t run, numerics::DType type) {
  return std::make_shared<Interleaved>(std::move(form), half, run, type);
}

}  // namespace ironcl::opencl

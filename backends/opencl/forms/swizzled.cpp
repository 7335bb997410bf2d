// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/opencl/forms/forms.h"

namespace ironcl::opencl {
namespace {

using numerics::Size;

constexpr std::int64_t kSlotColumns = 64, kBlock = 128, kSlot = kSlotColumns * kBlock, kPiece = 16;
constexpr std::int64_t kColumnUnit = 128, kUnitOfK = 256;

/// The line of column `column` of a slot.
std::int64_t line_of(std::int64_t column) {
  const std::int64_t t = column / 4 % 4, a = column / 2 % 2, e = column % 2;
  return column / 16 * 16 + 8 * a + 2 * t + e;
}

/// Where the 16 codes from (n, k) on begin, k a multiple of 16.
std::int64_t piece_at(std::int64_t n, std::int64_t k, std::int64_t k_pad) {
  const std::int64_t slot = n / kSlotColumns * (k_pad / kBlock) + k / kBlock, line = line_of(n % kSlotColumns);
  return slot * kSlot + line * kBlock + ((k % kBlock / kPiece) ^ (line & 7)) * kPiece;
}

class Swizzled final : public WeightForm {
 public:
  std::string name() const override { return "swizzled_n64_k128_pad128x256"; }

  WeightExtent extent(std::int64_t n, std::int64_t k, std::int64_t scale_groups) const override {
    const Size n_pad = Size(n).padded_to(kColumnUnit), k_pad = Size(k).padded_to(kUnitOfK);
    return {n_pad.value(), k_pad.value(), n_pad * k_pad, n_pad * scale_groups};
  }

  void pack(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
            std::uint8_t* packed) const override {
    const WeightExtent padded = extent(n, k, 0);
    for (std::int64_t row = 0; row < padded.n_pad; ++row) {
      for (std::int64_t c = 0; c < padded.k_pad; c += kPiece) {
        std::uint8_t* const to = packed + piece_at(row, c, padded.k_pad);
        const std::int64_t count = row < n ? std::clamp<std::int64_t>(k - c, 0, kPiece) : 0;
        if (count > 0) std::memcpy(to, codes + row * ld + c, static_cast<std::size_t>(count));
        if (count < kPiece) std::memset(to + count, 0, static_cast<std::size_t>(kPiece - count));
      }
    }
  }

  void unpack(std::int64_t n, std::int64_t k, const std::uint8_t* packed, std::uint8_t* codes) const override {
    const std::int64_t k_pad = extent(n, k, 0).k_pad;
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t c = 0; c < k; c += kPiece) {
        std::memcpy(codes + row * k + c, packed + piece_at(row, c, k_pad),
                    static_cast<std::size_t>(std::min(kPiece, k - c)));
      }
    }
  }

  std::int64_t scale_at(const WeightExtent& extent, std::int64_t n, std::int64_t group) const override {
    const std::int64_t groups = extent.scales.value() / extent.n_pad;
    return (n / kColumnUnit * groups + group) * kColumnUnit + n % kColumnUnit;
  }

  bool marks_nan_codes() const override { return false; }  // A scale serves 128 columns; decoding keeps NaN.
};

}  // namespace

WeightFormPtr swizzled_form() {
  static const WeightFormPtr form = std::make_shared<Swizzled>();
  return form;
}

}  // namespace ironcl::opencl

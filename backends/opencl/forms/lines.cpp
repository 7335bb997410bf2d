// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/opencl/forms/forms.h"

namespace ironcl::opencl {
namespace {

using numerics::Size;

constexpr std::int64_t kColumns = 8, kBlock = 128;

/// The first of the two bytes, two apart, that have the four codes from (n, k) on, k a multiple of 4: k = 16 i + 4 t
/// of a K block is of work-item t, in the word of its steps i and i + 1. The first byte has the first and the third
/// code, the other one the second and the fourth; the earlier code is the upper half.
std::int64_t place(std::int64_t n, std::int64_t k, std::int64_t k_pad) {
  const std::int64_t line = (n / kColumns * (k_pad / kBlock) + k / kBlock) * kColumns + n % kColumns;
  const std::int64_t i = k % kBlock / 16, t = k % 16 / 4;
  return line * (kBlock / 2) + (t * 4 + i / 2) * 4 + 1 - i % 2;
}

class Lines final : public WeightForm {
 public:
  std::string name() const override { return "lines_n8_k128_pad16x128_e2m1"; }

  WeightExtent extent(std::int64_t n, std::int64_t k, std::int64_t scale_groups) const override {
    const Size n_pad = Size(n).padded_to(16), k_pad = Size(k).padded_to(kBlock);
    return {n_pad.value(), k_pad.value(), n_pad * (k_pad.value() / 2), n_pad * Size(scale_groups).padded_to(8)};
  }

  void pack(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
            std::uint8_t* packed) const override {
    const WeightExtent padded = extent(n, k, 0);
    std::fill_n(packed, padded.code_bytes.value(), std::uint8_t{0});
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t c = 0; c < k; c += 4) {
        const std::uint8_t* const from = codes + (row * ld + c) / 2;
        const std::uint8_t first = from[0], second = c + 2 < k ? from[1] : std::uint8_t{0};
        std::uint8_t* const to = packed + place(row, c, padded.k_pad);
        to[0] = static_cast<std::uint8_t>(first << 4 | (second & 0xf));
        to[2] = static_cast<std::uint8_t>((first & 0xf0) | second >> 4);
      }
    }
  }

  void unpack(std::int64_t n, std::int64_t k, const std::uint8_t* packed, std::uint8_t* codes) const override {
    const std::int64_t k_pad = extent(n, k, 0).k_pad;
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t c = 0; c < k; c += 4) {
        const std::uint8_t* const from = packed + place(row, c, k_pad);
        std::uint8_t* const to = codes + (row * k + c) / 2;
        to[0] = static_cast<std::uint8_t>(from[0] >> 4 | (from[2] & 0xf0));
        if (c + 2 < k) to[1] = static_cast<std::uint8_t>((from[0] & 0xf) | from[2] << 4);
      }
    }
  }

  std::int64_t scale_at(const WeightExtent& extent, std::int64_t n, std::int64_t group) const override {
    return n * (extent.scales.value() / extent.n_pad) + group;
  }

  bool keeps_scales() const override { return true; }
};

}  // namespace

WeightFormPtr lines_form() {
  static const WeightFormPtr form = std::make_shared<Lines>();
  return form;
}

}  // namespace ironcl::opencl

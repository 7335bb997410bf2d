// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/opencl/forms/forms.h"

namespace ironcl::opencl {
namespace {

using numerics::Size;

class Blocked final : public WeightForm {
 public:
  Blocked(std::int64_t n_block, std::int64_t k_run, std::int64_t k_unit, numerics::DType type)
      : n_block_(n_block),
        k_run_(k_run),
        k_unit_(std::max(k_unit, k_run)),
        named_(numerics::bits_of(type) == 8 ? numerics::DType::none : type),
        size_(std::max<std::int64_t>(1, numerics::size_of(named_))),
        codes_per_byte_(named_ == numerics::DType::none ? 1
                                                        : std::max<std::int64_t>(1, 8 / numerics::bits_of(named_))) {}

  std::string name() const override {
    return (n_block_ == 0 ? std::string("columns") : "panel_n" + std::to_string(n_block_)) + "_k" +
           std::to_string(k_run_) + "_pad" + std::to_string(k_unit_) +
           (named_ == numerics::DType::none ? "" : "_" + std::string(numerics::name_of(named_)));
  }

  WeightExtent extent(std::int64_t n, std::int64_t k, std::int64_t scale_groups) const override {
    const Size n_pad = n_block_ == 0 ? Size(n) : Size(n).padded_to(n_block_), k_pad = Size(k).padded_to(k_unit_);
    const Size elements = n_pad * k_pad;
    const Size bytes =
        codes_per_byte_ > 1 ? Size(numerics::ceil_div(elements.value(), codes_per_byte_)) : elements * size_;
    return {n_pad.value(), k_pad.value(), bytes, n_pad * scale_groups};
  }

  void pack(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
            std::uint8_t* packed) const override {
    if (codes_per_byte_ == 2) {
      pack_halves(n, k, codes, ld, packed);
    } else if (size_ == 4) {
      pack_elements<4>(n, k, codes, ld, packed);
    } else if (size_ == 2) {
      pack_elements<2>(n, k, codes, ld, packed);
    } else {
      pack_elements<1>(n, k, codes, ld, packed);
    }
  }

  void unpack(std::int64_t n, std::int64_t k, const std::uint8_t* packed, std::uint8_t* codes) const override {
    const std::int64_t block = n_block_ == 0 ? n : n_block_, run = k_run_;
    const std::int64_t k_pad = extent(n, k, 0).k_pad;
    if (codes_per_byte_ == 2) {
      std::memset(codes, 0, static_cast<std::size_t>(numerics::ceil_div(n * k, codes_per_byte_)));
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t c = 0; c < k; ++c) put_half(codes, row * k + c, half(packed, place(row, c, block, k_pad)));
      }
      return;
    }
    for (std::int64_t row = 0; row < n; ++row) {
      const std::uint8_t* const from = packed + row / block * block * k_pad * size_;
      for (std::int64_t c = 0; c < k; ++c) {
        std::memcpy(codes + (row * k + c) * size_, from + ((c / run * block + row % block) * run + c % run) * size_,
                    static_cast<std::size_t>(size_));
      }
    }
  }

 private:
  /// Which of the packed elements (row, c) is.
  std::int64_t place(std::int64_t row, std::int64_t c, std::int64_t block, std::int64_t k_pad) const {
    return ((row / block * (k_pad / k_run_) + c / k_run_) * block + row % block) * k_run_ + c % k_run_;
  }
  static std::uint8_t half(const std::uint8_t* bytes, std::int64_t at) {
    return (bytes[at / 2] >> (4 * (at % 2))) & 0xf;
  }
  /// Into a half that is zero.
  static void put_half(std::uint8_t* bytes, std::int64_t at, std::uint8_t code) {
    bytes[at / 2] = static_cast<std::uint8_t>(bytes[at / 2] | code << (4 * (at % 2)));
  }

  void pack_halves(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
                   std::uint8_t* packed) const {
    const WeightExtent padded = extent(n, k, 0);
    const std::int64_t block = n_block_ == 0 ? n : n_block_;
    std::memset(packed, 0, static_cast<std::size_t>(padded.code_bytes.value()));
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t c = 0; c < k; ++c)
        put_half(packed, place(row, c, block, padded.k_pad), half(codes, row * ld + c));
    }
  }

  template <std::int64_t kSize>
  void pack_elements(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
                     std::uint8_t* packed) const {
    const WeightExtent padded = extent(n, k, 0);
    const std::int64_t block = n_block_ == 0 ? n : n_block_, run = k_run_;
    const std::int64_t k_pad = padded.k_pad;
    // Codes of a column taken at a time: one cache line, or the whole runs that fit in one.
    const std::int64_t step = std::max(run, 64 / run * run);
    for (std::int64_t first = 0; first < padded.n_pad; first += block) {
      std::uint8_t* const out = packed + first * k_pad * kSize;
      for (std::int64_t k0 = 0; k0 < k_pad; k0 += step) {
        const std::int64_t k1 = std::min(k0 + step, k_pad);
        for (std::int64_t j = 0; j < block; ++j) {
          const bool inside = first + j < n;
          const std::uint8_t* const row = codes + (first + j) * ld * kSize;
          if (run == 1) {
            for (std::int64_t c = k0; c < k1; ++c) {
              std::uint8_t* const to = out + (c * block + j) * kSize;
              for (std::int64_t i = 0; i < kSize; ++i) to[i] = inside && c < k ? row[c * kSize + i] : 0;
            }
          } else {
            for (std::int64_t c = k0; c < k1; c += run) {
              std::uint8_t* const to = out + (c / run * block + j) * run * kSize;
              const std::int64_t count = inside ? std::clamp<std::int64_t>(k - c, 0, run) : 0;
              if (count > 0) std::memcpy(to, row + c * kSize, static_cast<std::size_t>(count * kSize));
              if (count < run) std::memset(to + count * kSize, 0, static_cast<std::size_t>((run - count) * kSize));
            }
          }
        }
      }
    }
  }

  std::int64_t n_block_, k_run_, k_unit_;
  numerics::DType named_;        ///< Of weights that are not of one byte a code.
  std::int64_t size_;            ///< Bytes of an element.
  std::int64_t codes_per_byte_;  ///< Elements of a byte.
};

}  // namespace

WeightFormPtr blocked_form(std::int64_t n_block, std::int64_t k_run, std::int64_t k_unit, numerics::DType type) {
  return std::make_shared<Blocked>(n_block, k_run, k_unit, type);
}

}  // namespace ironcl::opencl

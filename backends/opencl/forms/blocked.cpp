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
                                                        : std::max<std::int64_t>(1, 8 / numerics::bits_of(named_))),
        run_(k_run / codes_per_byte_) {}

  std::string name() const override {
    return (n_block_ == 0 ? std::string("columns") : "panel_n" + std::to_string(n_block_)) + "_k" +
           std::to_string(k_run_) + "_pad" + std::to_string(k_unit_) +
           (named_ == numerics::DType::none ? "" : "_" + std::string(numerics::name_of(named_)));
  }

  WeightExtent extent(std::int64_t n, std::int64_t k, std::int64_t scale_groups) const override {
    const Size n_pad = n_block_ == 0 ? Size(n) : Size(n).padded_to(n_block_), k_pad = Size(k).padded_to(k_unit_);
    return {n_pad.value(), k_pad.value(), n_pad * (k_pad.value() / codes_per_byte_) * size_, n_pad * scale_groups};
  }

  void pack(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
            std::uint8_t* packed) const override {
    // Runs of four-bit codes are whole bytes, here and there.
    const std::int64_t held = k / codes_per_byte_, held_ld = ld / codes_per_byte_;
    if (size_ == 4) {
      pack_elements<4>(n, held, codes, held_ld, packed);
    } else if (size_ == 2) {
      pack_elements<2>(n, held, codes, held_ld, packed);
    } else {
      pack_elements<1>(n, held, codes, held_ld, packed);
    }
  }

  void unpack(std::int64_t n, std::int64_t k, const std::uint8_t* packed, std::uint8_t* codes) const override {
    const std::int64_t block = n_block_ == 0 ? n : n_block_, run = run_, held = k / codes_per_byte_;
    const std::int64_t held_pad = held_k(held);
    for (std::int64_t row = 0; row < n; ++row) {
      const std::uint8_t* const from = packed + row / block * block * held_pad * size_;
      for (std::int64_t c = 0; c < held; ++c) {
        std::memcpy(codes + (row * held + c) * size_,
                    from + ((c / run * block + row % block) * run + c % run) * size_,
                    static_cast<std::size_t>(size_));
      }
    }
  }

  std::int64_t scale_at(const WeightExtent& extent, std::int64_t n, std::int64_t group) const override {
    if (n_block_ == 0) return WeightForm::scale_at(extent, n, group);
    // Those of a panel side by side: read from end to end, as its codes are, not one line from each page.
    const std::int64_t groups = extent.scales.value() / extent.n_pad;
    return (n / n_block_ * groups + group) * n_block_ + n % n_block_;
  }

  bool keeps_scales() const override { return codes_per_byte_ > 1; }

 private:
  /// Of so many elements of a column, bytes of four-bit codes, those that lie in memory.
  std::int64_t held_k(std::int64_t held) const {
    return numerics::Size(held).padded_to(k_unit_ / codes_per_byte_).value();
  }

  template <std::int64_t kSize>
  void pack_elements(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
                     std::uint8_t* packed) const {
    const std::int64_t n_pad = n_block_ == 0 ? n : Size(n).padded_to(n_block_).value(), k_pad = held_k(k);
    const std::int64_t block = n_block_ == 0 ? n : n_block_, run = run_;
    // Codes of a column taken at a time: one cache line, or the whole runs that fit in one.
    const std::int64_t step = std::max(run, 64 / run * run);
    for (std::int64_t first = 0; first < n_pad; first += block) {
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
  std::int64_t run_;             ///< k_run_ in elements of memory.
};

}  // namespace

WeightFormPtr blocked_form(std::int64_t n_block, std::int64_t k_run, std::int64_t k_unit, numerics::DType type) {
  return std::make_shared<Blocked>(n_block, k_run, k_unit, type);
}

}  // namespace ironcl::opencl

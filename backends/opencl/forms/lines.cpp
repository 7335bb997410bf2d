// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/opencl/forms/forms.h"

namespace ironcl::opencl {
namespace {

using numerics::Size;

constexpr std::int64_t kColumns = 16, kBlock = 128, kRun = 16;

/// Where bit `bit` of byte `pair` of a run of 16 codes lies in the 64 bits that the run becomes: those of two words,
/// as PAIRS_OF_WORDS of cl/gemm_mma_stream.cl takes them apart. A pair of codes is sought at the places of two bf16:
/// the sign in bit 15, exponent and mantissa in 6 to 8, the second code 16 bits higher.
constexpr int place(int pair, int bit) {
  const int wanted = bit / 4 * 16 + (bit % 4 == 3 ? 15 : 6 + bit % 4);
  constexpr std::array<int, 8> kRotated{0, 10, 4, 0, 10, 4, 6, 12};  // To the left, to get there.
  const int at = (wanted + 32 - kRotated[static_cast<std::size_t>(pair)]) % 32;
  if (pair < 6) return pair / 3 * 32 + at;
  // The last two lie in what the others leave of two words, the second word's part two bits higher.
  return (0x06030603u >> at & 1) != 0 ? at : 32 + at - 2;
}

/// For each byte of a run, and each value of it, its bits at their places.
const std::array<std::array<std::uint64_t, 256>, 8>& spread() {
  static const auto table = [] {
    std::array<std::array<std::uint64_t, 256>, 8> bits{};
    for (std::size_t pair = 0; pair < 8; ++pair)
      for (std::size_t byte = 0; byte < 256; ++byte)
        for (int bit = 0; bit < 8; ++bit)
          bits[pair][byte] |= std::uint64_t{byte >> bit & 1} << place(static_cast<int>(pair), bit);
    return bits;
  }();
  return table;
}

class Lines final : public WeightForm {
 public:
  std::string name() const override { return "lines_n16_k128_e2m1"; }

  WeightExtent extent(std::int64_t n, std::int64_t k, std::int64_t scale_groups) const override {
    const Size n_pad = Size(n).padded_to(kColumns), k_pad = Size(k).padded_to(kBlock);
    const std::int64_t group = scale_groups > numerics::ceil_div(k, 32) ? 16 : 32;
    return {n_pad.value(), k_pad.value(), n_pad * (k_pad.value() / 2), n_pad * (k_pad.value() / group)};
  }

  void pack(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
            std::uint8_t* packed) const override {
    const WeightExtent padded = extent(n, k, 0);
    std::fill_n(packed, padded.code_bytes.value(), std::uint8_t{0});
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t first = 0; first < k; first += kRun) {
        const std::uint8_t* const from = codes + (row * ld + first) / 2;
        const std::int64_t bytes = std::min(kRun, k - first + 1) / 2;
        std::uint64_t run = 0;
        for (std::int64_t i = 0; i < bytes; ++i) run |= spread()[static_cast<std::size_t>(i)][from[i]];
        std::memcpy(packed + run_at(row, first, padded.k_pad), &run, sizeof run);
      }
    }
  }

  void unpack(std::int64_t n, std::int64_t k, const std::uint8_t* packed, std::uint8_t* codes) const override {
    const std::int64_t k_pad = extent(n, k, 0).k_pad;
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t byte = 0; byte < k / 2; ++byte) {
        std::uint64_t run;
        std::memcpy(&run, packed + run_at(row, 2 * byte, k_pad), sizeof run);
        unsigned out = 0;
        for (int bit = 0; bit < 8; ++bit)
          out |= static_cast<unsigned>(run >> place(static_cast<int>(byte % 8), bit) & 1) << bit;
        codes[row * (k / 2) + byte] = static_cast<std::uint8_t>(out);
      }
    }
  }

  std::int64_t scale_at(const WeightExtent& extent, std::int64_t n, std::int64_t group) const override {
    const std::int64_t per_lane = extent.scales.value() * 32 / (extent.n_pad * extent.k_pad);
    return (lane_at(n, group / per_lane * 32, extent.k_pad) * per_lane + group % per_lane) * 2 + n % kColumns / 8;
  }

  bool keeps_scales() const override { return true; }

 private:
  /// Which work-item, of those of all groups of columns and K blocks, has k of a column: 32 neighbours of it.
  static std::int64_t lane_at(std::int64_t n, std::int64_t k, std::int64_t k_pad) {
    return (n / kColumns * (k_pad / kBlock) + k / kBlock) * 32 + n % 8 * 4 + k % kBlock / 32;
  }
  static std::int64_t run_at(std::int64_t n, std::int64_t k, std::int64_t k_pad) {
    const std::int64_t lane = lane_at(n, k, k_pad);
    return lane / 32 * 1024 + n % kColumns / 8 * 512 + lane % 32 * 16 + k % 32 / kRun * 8;
  }
};

}  // namespace

WeightFormPtr lines_form() {
  static const WeightFormPtr form = std::make_shared<Lines>();
  return form;
}

}  // namespace ironcl::opencl

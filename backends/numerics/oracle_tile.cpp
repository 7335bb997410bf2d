// SPDX-License-Identifier: Apache-2.0
// The tile with the widest vectors that the processor has, chosen at run time without ifuncs (sanitizers forbid
// them).
#include "backends/numerics/oracle_tile.h"

#include <cstring>

namespace ironcl::numerics::detail {
namespace {

using Lanes = double __attribute__((vector_size(kTileCols * sizeof(double))));

[[gnu::always_inline]] inline void tile_body(const double* a, const double* b, std::int64_t depth, double* out) {
  Lanes sum[kTileRows] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes b_row;
    std::memcpy(&b_row, b + k * kTileCols, sizeof b_row);
    for (std::int64_t i = 0; i < kTileRows; ++i) sum[i] += a[k * kTileRows + i] * b_row;
  }
  std::memcpy(out, sum, sizeof sum);
}

// Sizes are compared as the bits of numbers that are not negative, whose order is that of integers: compilers make
// one instruction of an integer subtraction of all lanes, but eight of a comparison of doubles.
using Bits = std::uint64_t __attribute__((vector_size(kTileCols * sizeof(std::uint64_t))));

[[gnu::always_inline]] inline void load(Lanes& lanes, const double* from) { std::memcpy(&lanes, from, sizeof lanes); }
[[gnu::always_inline]] inline void bits_of(Bits& bits, const Lanes& x) { std::memcpy(&bits, &x, sizeof bits); }
[[gnu::always_inline]] inline void raise(Bits& largest, const Bits& size) {
  largest ^= (largest ^ size) & -((largest - size) >> 63);
}
[[gnu::always_inline]] inline void number_of(Lanes& x, const Bits& bits) { std::memcpy(&x, &bits, sizeof x); }
// To the size of x, and what x may be off by.
[[gnu::always_inline]] inline void raise_to_size(Bits& largest, const Lanes& x, const Lanes& off) {
  Bits size;
  Lanes of_x;
  bits_of(size, x);
  number_of(of_x, size & ~(std::uint64_t{1} << 63));
  bits_of(size, of_x + off);
  raise(largest, size);
}

// docs/numerics.md, class tensor14. Of each instruction of an order: X, the largest of its products, of its sum and
// of the sums before and after it with what is lost by then; how many products are so small beside X that they may be
// cut, and two cuts more.
[[gnu::always_inline]] inline void cut_body(const double* a, const double* b, const double* a_raised,
                                            const double* b_raised, std::int64_t depth, double* out) {
  // 2^-13 and 2^-6, with room for what the instruction itself makes of the sum after it: at most 34 * 2^-13 of X.
  constexpr double kCut = 0x1.08p-13, kMayBeCut = 0x1.08p-6;
  const std::int64_t runs = (depth + kRun - 1) / kRun;
  Lanes sums[kRuns][kTileRows] = {}, b_row;
  Bits largest[kRuns][kTileRows] = {}, sizes[kRuns * kRun][kTileRows];
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t i = 0; i < kTileRows; ++i) {
      load(b_row, b + k * kTileCols);
      sums[k / kRun][i] += a[k * kTileRows + i] * b_row;
      load(b_row, b_raised + k * kTileCols);
      bits_of(sizes[k][i], a_raised[k * kTileRows + i] * b_row);
      raise(largest[k / kRun][i], sizes[k][i]);
    }
  }
  Lanes most[kTileRows] = {};
  for (const auto& order : kOrdersOfRuns) {
    for (std::int64_t i = 0; i < kTileRows; ++i) {
      Lanes lost = {}, before = {};
      for (std::int64_t first = 0; first < kRuns; first += kRunsAtOnce) {
        Lanes sum = {}, x;
        Bits top = {}, may_be_cut, terms = {};
        for (std::int64_t at = first; at < first + kRunsAtOnce; ++at) {
          const std::int64_t run = order[static_cast<std::size_t>(at)];
          if (run >= runs) continue;
          sum += sums[run][i];
          raise(top, largest[run][i]);
        }
        raise_to_size(top, sum, Lanes{});
        raise_to_size(top, before, lost);
        before += sum;
        raise_to_size(top, before, lost);
        number_of(x, top);
        bits_of(may_be_cut, kMayBeCut * x);
        for (std::int64_t at = first; at < first + kRunsAtOnce; ++at) {
          const std::int64_t run = order[static_cast<std::size_t>(at)];
          // Those below, but for zeros.
          for (std::int64_t k = run * kRun; k < depth && k < (run + 1) * kRun; ++k)
            terms += ((sizes[k][i] - may_be_cut) >> 63) - ((sizes[k][i] - 1) >> 63);
        }
        lost += (__builtin_convertvector(terms, Lanes) + 2) * (kCut * x);
      }
      Bits so_far;
      bits_of(so_far, most[i]);
      raise_to_size(so_far, lost, Lanes{});
      number_of(most[i], so_far);
    }
  }
  std::memcpy(out, most, sizeof most);
}

/// `body`, which is inlined, compiled for the vectors of several processors.
template <auto body>
struct Widest;
template <class... Args, void (*body)(Args...)>
struct Widest<body> {
#if defined(__x86_64__)
  [[gnu::target("avx512f")]] static void avx512(Args... args) { body(args...); }
  [[gnu::target("avx2,fma")]] static void avx2(Args... args) { body(args...); }
#endif
  static void portable(Args... args) { body(args...); }

  static void run(Args... args) {
    static void (*const chosen)(Args...) = [] {
#if defined(__x86_64__)
      if (__builtin_cpu_supports("avx512f")) return avx512;
      if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2;
#endif
      return portable;
    }();
    chosen(args...);
  }
};

}  // namespace

void tile_product(const double* a, const double* b, std::int64_t depth, double* out) noexcept {
  Widest<tile_body>::run(a, b, depth, out);
}

void tile_cut(const double* a, const double* b, const double* a_raised, const double* b_raised, std::int64_t depth,
              double* out) noexcept {
  Widest<cut_body>::run(a, b, a_raised, b_raised, depth, out);
}

}  // namespace ironcl::numerics::detail

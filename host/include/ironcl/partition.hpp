// SPDX-License-Identifier: Apache-2.0
// ranks.hpp, part: which rank holds which rows or columns of a matrix, exact slices of B, and the sum of partial
// results in rank order. Plain functions and values, without messages or devices. Next door: transport.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "operations.hpp"

namespace ironcl::ranks {

/// Texts and numbers as one text.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::string all;
  const auto add = [&all](const auto& part) {
    if constexpr (requires { std::to_string(part); })
      all += std::to_string(part);
    else
      all += part;
  };
  (add(parts), ...);
  return all;
}

/// Throws Error INVALID_ARGUMENT with that text.
template <class... Parts>
[[noreturn]] void invalid(const Parts&... parts) {
  throw Error(IRONCL_INVALID_ARGUMENT, 0, text_of(parts...));
}

/// Elements begin to end - 1 of an axis.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Bytes of `count` elements of a type; a byte holds two codes of e2m1.
inline std::size_t bytes_of_elements(ironcl_dtype type, std::int64_t count) {
  const auto elements = static_cast<std::size_t>(count);
  switch (type) {
    case IRONCL_F32:
    case IRONCL_S32:
      return elements * 4;
    case IRONCL_F16:
    case IRONCL_BF16:
      return elements * 2;
    case IRONCL_F4_E2M1:
      return (elements + 1) / 2;
    default:
      return elements;
  }
}

/// An axis divided between ranks: a range per rank, the same one for ranks that share a unit.
struct Partition {
  std::string axis;        ///< "n": rows of B, columns of D. "k": columns of B. "m": rows of D. "experts".
  std::int64_t size = 0;   ///< Elements of the axis.
  std::int64_t block = 1;  ///< Elements per scale along it.
  std::vector<Range> ranges{};

  /// Divides whole units of `unit` elements as evenly as possible, larger shares first: 12 units over 8 ranks are 2,
  /// 2, 2, 2, 1, 1, 1, 1. Ranks left over have empty ranges or, with `replicate`, share units: rank r of P has unit
  /// floor(r * units / P), as key-value heads are shared. The last unit may be partial.
  static Partition even(std::string axis, std::int64_t size, int ranks, std::int64_t unit = 1, std::int64_t block = 1,
                        bool replicate = false) {
    if (size < 0 || ranks < 1 || unit < 1)
      invalid("a partition of ", size, " over ", ranks, " ranks in units of ", unit,
              ": sizes are at least 0, ranks and units at least 1");
    Partition made{std::move(axis), size, std::max<std::int64_t>(block, 1)};
    const std::int64_t units = (size + unit - 1) / unit, each = units / ranks, more = units % ranks;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::int64_t first = rank * each + std::min(rank, more), count = each + (rank < more ? 1 : 0);
      if (replicate && units < ranks) {
        first = rank * units / ranks;
        count = units == 0 ? 0 : 1;
      }
      made.ranges.push_back({std::min(first * unit, size), std::min((first + count) * unit, size)});
    }
    return made;
  }

  /// Ranks whose range begins inside a block, and which thus read a scale that another rank reads too.
  std::vector<int> ragged() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < ranges.size(); ++rank)
      if (ranges[rank].size() != 0 && ranges[rank].begin % block != 0) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

  /// Number of ranks that hold some of it.
  int active() const {
    return static_cast<int>(std::ranges::count_if(ranges, [](Range one) { return one.size() != 0; }));
  }

  /// "n 1536 = 0..767 | 768..1535, blocks of 128"; "; ragged: 1, 3" where ranks begin inside a block.
  std::string text() const {
    std::string all = text_of(axis, " ", size, " =");
    for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
      const Range one = ranges[rank];
      all += rank == 0 ? " " : " | ";
      all += one.size() == 0 ? "none" : text_of(one.begin, "..", one.end - 1);
    }
    if (block > 1) all += text_of(", blocks of ", block);
    for (const char* before = "; ragged: "; const int rank : ragged())
      all += text_of(std::exchange(before, ", "), rank);
    return all;
  }
};

/// A part of B with its own scales.
struct Slice {
  std::int64_t n = 0, k = 0;
  ironcl_dtype dtype = IRONCL_F8_E4M3FN;
  Scale scale{};
  std::vector<std::byte> codes, scales;
  std::vector<float> globals;
  std::uint64_t bytes_read = 0;  ///< Codes and distinct scales that were copied from B.

  /// A description that borrows this slice.
  WeightsDesc desc() const {
    return {
        .n = n, .k = k, .dtype = dtype, .scale = scale, .data = codes, .scales = scales, .global_scales = globals};
  }
};

/// Cuts the row ranges `rows`, one after another, and the columns `cols` out of B, and reads nothing else. Nothing is
/// requantised: where a range begins inside a block, or ends in one before another range, blocks shrink to the
/// greatest common divisor of those places, and scales are repeated. `front` columns of zeros come first, so that
/// columns begin where a block does, and `back` in place of B's next ones come last. Throws Error INVALID_ARGUMENT
/// for a range outside of B, or one that cuts a byte of two codes.
inline Slice slice(const WeightsDesc& b, const std::vector<Range>& rows, Range cols, std::int64_t front = 0,
                   std::int64_t back = 0) {
  Slice part;
  part.k = cols.size() == 0 ? 0 : front + cols.size() + back;
  part.dtype = b.dtype;
  part.scale = b.scale;
  part.scale.ld = 0;
  part.scale.row_origin = part.scale.col_origin = 0;
  part.globals.assign(b.global_scales.begin(), b.global_scales.end());
  const auto outside = [](Range range, std::int64_t size) {
    return range.begin < 0 || range.size() < 0 || range.end > size;
  };
  std::vector<std::int64_t> from;  // row of B, by row of the slice
  for (const Range& range : rows) {
    if (outside(range, b.n) || outside(cols, b.k) ||
        (b.dtype == IRONCL_F4_E2M1 && (cols.begin % 2 != 0 || cols.size() % 2 != 0)))
      invalid("rows ", range.begin, " to ", range.end, " and columns ", cols.begin, " to ", cols.end,
              " are outside of B [", b.n, ", ", b.k, "], or cut a pair of e2m1 columns");
    for (std::int64_t row = range.begin; row < range.end; ++row) from.push_back(row);
  }
  part.n = static_cast<std::int64_t>(from.size());
  if (part.n == 0 || part.k == 0) return part;

  const std::int64_t ld = b.ld == 0 ? b.k : b.ld;
  const auto copy = [&part](std::vector<std::byte>& to, std::span<const std::byte> all, std::size_t at,
                            std::size_t bytes) {
    if (at + bytes > all.size()) invalid("B has fewer bytes than its description says");
    to.insert(to.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
              all.begin() + static_cast<std::ptrdiff_t>(at + bytes));
  };
  part.codes.reserve(static_cast<std::size_t>(part.n) * bytes_of_elements(b.dtype, part.k));
  for (const std::int64_t row : from) {
    part.codes.resize(part.codes.size() + bytes_of_elements(b.dtype, front));
    copy(part.codes, b.data, bytes_of_elements(b.dtype, row * ld + cols.begin),
         bytes_of_elements(b.dtype, cols.size()));
    part.codes.resize(part.codes.size() + bytes_of_elements(b.dtype, back));
  }
  part.bytes_read = static_cast<std::uint64_t>(part.n) * bytes_of_elements(b.dtype, cols.size());
  if (b.scale.dtype == IRONCL_DTYPE_NONE) return part;

  const auto narrow = [](std::uint32_t& group, std::int64_t place) {
    group = static_cast<std::uint32_t>(std::gcd<std::int64_t>(group, place));
  };
  for (std::size_t i = 0; i < rows.size() && b.scale.rows != 0; ++i) {
    narrow(part.scale.rows, b.scale.row_origin + rows[i].begin);
    if (i + 1 < rows.size()) narrow(part.scale.rows, rows[i].size());
  }
  if (b.scale.cols != 0) narrow(part.scale.cols, b.scale.col_origin + cols.begin - front);
  const auto block = [](std::int64_t place, std::uint32_t origin, std::uint32_t group) {
    return group == 0 ? 0 : (origin + place) / group;
  };
  const std::int64_t per_row = block(b.k - 1, b.scale.col_origin, b.scale.cols) + 1;
  const std::int64_t row_step = part.scale.rows == 0 ? part.n : part.scale.rows;
  const std::int64_t col_step = part.scale.cols == 0 ? part.k : part.scale.cols;
  const std::size_t width = bytes_of_elements(b.scale.dtype, 1);
  std::int64_t distinct = 0;
  for (std::int64_t row = 0, last_row = -1; row < part.n; row += row_step) {
    const std::int64_t scale_row = block(from[static_cast<std::size_t>(row)], b.scale.row_origin, b.scale.rows);
    for (std::int64_t col = 0, last_col = -1; col < part.k; col += col_step) {
      const std::int64_t scale_col = block(cols.begin - front + col, b.scale.col_origin, b.scale.cols);
      copy(part.scales, b.scales, static_cast<std::size_t>(scale_row * per_row + scale_col) * width, width);
      distinct += scale_row != last_row && scale_col != last_col ? 1 : 0;
      last_col = scale_col;
    }
    last_row = scale_row;
  }
  part.bytes_read += static_cast<std::uint64_t>(distinct) * width;
  return part;
}

/// Converts f32 to the bits of bf16 or f16, to nearest even; overflow gives infinity, NaN a quiet NaN.
inline std::uint16_t to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline std::uint16_t to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u | (size >> 13 & 0x3ffu));
  if (size >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and more
  if (size < 0x38800000u)  // below 2^-14, in steps of 2^-24: exact before it is rounded
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(std::fabs(value) * 0x1p24f)));
  return static_cast<std::uint16_t>(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}

/// Computes `count` sums ((p0 + p1) + p2) + ..., each addition in f32 and in this order on every rank, and rounds
/// once to `type` (f32, f16, bf16) at `to`. Ranks without a part of k must be left out of `partials`: adding 0 would
/// turn -0 into 0.
inline void sum_in_order(const std::vector<const std::byte*>& partials, std::size_t count, ironcl_dtype type,
                         std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0, next = 0;
    std::memcpy(&sum, partials[0] + i * sizeof sum, sizeof sum);
    for (std::size_t part = 1; part < partials.size(); ++part) {
      std::memcpy(&next, partials[part] + i * sizeof next, sizeof next);
      sum += next;
    }
    if (type == IRONCL_F32) {
      std::memcpy(to + i * sizeof sum, &sum, sizeof sum);
      continue;
    }
    const std::uint16_t bits = type == IRONCL_BF16 ? to_bf16(sum) : to_f16(sum);
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace ironcl::ranks

// SPDX-License-Identifier: Apache-2.0
// Element types of the project: names, sizes and limits. Next door: casts.h (values in and out of them).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ironcl::numerics {

/// An element type. The values are those of IRONCL_* in ironcl/plugin.h (the adapter asserts it); what a backend does
/// not compute with, supports() refuses.
enum class DType : std::uint32_t {
  none = 0,
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  e4m3fn = 4,  ///< OCP OFP8 e4m3: bias 7, largest 448, no infinity, NaN 0x7f and 0xff.
  e5m2 = 5,    ///< OCP OFP8 e5m2: bias 15, largest finite 57344, infinities and NaNs as IEEE.
  e8m0 = 6,    ///< OCP MX scale: 2^(code - 127), 0xff is NaN; scales only.
  i8 = 7,      ///< Symmetric: -127 to 127.
  s32 = 8,
  f64 = 9,    ///< Files and oracles only.
  e2m1 = 10,  ///< OCP MX fp4: bias 1, largest 6, neither infinity nor NaN; two codes a byte, the first in its lower
              ///< half.
};

/// How many there are, none included.
inline constexpr std::uint32_t kDTypes = 11;

/// Bits of one element; 0 for none. Elements of fewer than eight share bytes, the first in the lowest bits.
std::uint32_t bits_of(DType type) noexcept;

/// Bytes of one element, for types of whole bytes; of the byte that elements share below that; 0 for none.
std::uint32_t size_of(DType type) noexcept;

/// Bytes of `count` elements in a row, the last one begun counted whole. T: an integer type, or Size.
template <class T>
T bytes_of(DType type, T count) {
  const std::uint32_t bits = bits_of(type);
  if (bits != 0 && bits < 8) return (count + static_cast<T>(8 / bits - 1)) / static_cast<T>(8 / bits);
  return count * static_cast<T>(size_of(type));
}

/// The short name used everywhere (options, JSON, problem lines): "f32", "e4m3fn", ...
std::string_view name_of(DType type) noexcept;

/// The name in safetensors files: "F32", "F8_E4M3", ...; empty for none.
std::string_view file_name_of(DType type) noexcept;

/// The type with that name; also accepts "e4m3" for e4m3fn. Empty where there is none.
std::optional<DType> parse_dtype(std::string_view name) noexcept;

/// Largest finite value: 448 for e4m3fn, 127 for i8, 65504 for f16, ...; 0 for none.
double largest(DType type) noexcept;

/// Half the distance from 1 to the next value, relative: 2^-24 for f32, 2^-11 f16, 2^-8 bf16, 2^-4 e4m3fn, 2^-3 e5m2,
/// 2^-53 f64. 0 for integers and none.
double unit_roundoff(DType type) noexcept;

/// Smallest positive value, subnormals included; 1 for integers.
double smallest_subnormal(DType type) noexcept;

/// From this magnitude on, rounding to nearest even gives an overflow: the largest finite value and half a step more.
/// Infinity where nothing overflows.
double overflow_threshold(DType type) noexcept;

/// True for the types that quantised operands come in: e4m3fn, e5m2, i8, e2m1.
bool is_quantized(DType type) noexcept;

/// True for f32, f16, bf16.
bool is_float(DType type) noexcept;

/// True for i8 and s32, which go with their like only.
bool is_integer(DType type) noexcept;

/// True for the types that scales come in: f32, f16, bf16, e8m0, e4m3fn.
bool is_scale(DType type) noexcept;

}  // namespace ironcl::numerics

// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the narrow formats, one value at a time and by arrays.
//
// Rounding is to nearest even, subnormals included. The plain casts follow ml_dtypes (float8.h, b793a6e): overflow of
// e4m3fn past 464 and infinity give NaN, e5m2 and f16 overflow to infinity, bf16 as f32. The saturating form gives
// the largest finite value with the sign; NaN stays NaN. Golden table: tests/data/casts.safetensors.
#pragma once

#include <span>

#include "backends/numerics/formats.h"

namespace ironcl::numerics {

enum class Overflow {
  plain,     ///< ml_dtypes: NaN for e4m3fn, infinity where the format has one.
  saturate,  ///< Largest finite value with the sign, also for infinities; NaN stays NaN.
};

float decode_e4m3fn(std::uint8_t code) noexcept;
float decode_e5m2(std::uint8_t code) noexcept;
float decode_e8m0(std::uint8_t code) noexcept;
/// Decodes the lower four bits.
float decode_e2m1(std::uint8_t code) noexcept;
float decode_f16(std::uint16_t bits) noexcept;
float decode_bf16(std::uint16_t bits) noexcept;

std::uint8_t encode_e4m3fn(float value, Overflow overflow = Overflow::plain) noexcept;
std::uint8_t encode_e5m2(float value, Overflow overflow = Overflow::plain) noexcept;
/// The power of two nearest above or equal (the ue8m0 rule's store); NaN, negative and zero give 0xff, 0xff and 0.
std::uint8_t encode_e8m0(float value) noexcept;
/// Four bits. There is no infinity and no NaN: both forms saturate, and NaN gives 0, as quantising to i8 does.
std::uint8_t encode_e2m1(float value, Overflow overflow = Overflow::saturate) noexcept;
std::uint16_t encode_f16(float value, Overflow overflow = Overflow::plain) noexcept;
std::uint16_t encode_bf16(float value, Overflow overflow = Overflow::plain) noexcept;

/// One element of any type but none at `data + index` elements, as f64 (exact for every type).
double load_as_f64(DType type, const void* data, std::int64_t index) noexcept;

/// `count` elements of `type` from `src` to f32. Exact for all but f64 and s32.
void decode(DType type, const void* src, std::span<float> dst) noexcept;
/// The same to f64; exact for every type.
void decode(DType type, const void* src, std::span<double> dst) noexcept;
/// The same from element `first` of `src` on, which need not begin a byte.
void decode(DType type, const void* src, std::int64_t first, std::span<double> dst) noexcept;
/// f32 to `type` (f32, f16, bf16, e4m3fn, e5m2, e8m0, e2m1); `dst` has bytes_of(type, src.size()) bytes, whose bits
/// past the last element become 0.
void encode(DType type, std::span<const float> src, void* dst, Overflow overflow = Overflow::plain) noexcept;

}  // namespace ironcl::numerics

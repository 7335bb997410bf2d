// SPDX-License-Identifier: Apache-2.0
// quantizer.cl: scale and codes of one group, bit for bit those of backends/numerics/quantize.h. Shared by all that quantises: rows of codes
// (quantize.cl, activate.cl, code_pairs.cl), tiles of values (quantize_in_tile.cl) and a group of a row (quantize_group.cl).
// Set by the host:
// SOURCE        1        1 2 3        type of X: f32, f16, bf16
// CODE          4        4 5 7        type of the codes: e4m3fn, e5m2, i8
// POWER_OF_TWO  0        0 1          scales rounded up to a power of two
// FMA_DIVIDE    0        0 1          the device's multiply-add was seen to give the quotients below
// EXACT_DIVIDE  0        0 1          the device's division was seen to round correctly; 0 divides in integers
// FLOOR_BITS    0                     of kernels that multiply too: the bits of the floor of magnitudes; others have it as an argument
#include "fp8.cl"

#include "magnitudes.cl"

#define LARGEST LARGEST_OF(CODE)
#define NAN_CODE NAN_CODE_OF(CODE)

// |a| / |b| of finite bits, rounded to nearest even, subnormals included: long division of the significands.
static inline uint divide_bits(uint a, uint b) {
  if (a == 0u) return 0u;
  if (b == 0u) return 0x7f800000u;
  int exponent_a = (int)(a >> 23), exponent_b = (int)(b >> 23);
  uint significand_a = a & 0x7fffffu, significand_b = b & 0x7fffffu;
  if (exponent_a == 0) {
    const int up = (int)clz(significand_a) - 8;
    significand_a <<= up;
    exponent_a = 1 - up;
  } else {
    significand_a |= 0x800000u;
  }
  if (exponent_b == 0) {
    const int up = (int)clz(significand_b) - 8;
    significand_b <<= up;
    exponent_b = 1 - up;
  } else {
    significand_b |= 0x800000u;
  }
  int exponent = exponent_a - exponent_b + 127;
  if (significand_a < significand_b) {
    significand_a <<= 1;
    --exponent;
  }
  if (exponent >= 255) return 0x7f800000u;
  const ulong dividend = (ulong)significand_a << 26;
  ulong quotient = dividend / significand_b;  // In [2^26, 2^27): 24 bits, two more and a sticky one.
  if (quotient * significand_b != dividend) quotient |= 1u;
  uint bits = (uint)quotient;
  if (exponent <= 0) {
    const int down = 1 - exponent;
    const uint lost = down > 27 ? bits : bits & ((1u << down) - 1u);
    bits = (down > 27 ? 0u : bits >> down) | (lost != 0u ? 1u : 0u);
  }
  uint rounded = bits >> 3;
  const uint rest = bits & 7u;
  if (rest > 4u || (rest == 4u && (rounded & 1u) != 0u)) ++rounded;
  return exponent <= 0 ? rounded : rounded + ((uint)(exponent - 1) << 23);
}

static inline float divide_exactly(float x, float scale) {
#if EXACT_DIVIDE
  return x / scale;
#else
  const uint bits = as_uint(x);
  return as_float(divide_bits(bits & 0x7fffffffu, as_uint(scale)) | (bits & 0x80000000u));
#endif
}

/// The scale of a group of that largest magnitude, for codes up to `largest`; power_of_two, a literal, rounds it up to one.
static inline float scale_to(uint amax, uint floor_bits, float largest, const int power_of_two) {
  if (amax >= 0x7f800000u) return as_float(F32_NAN_BITS);
  uint scale = as_uint(divide_exactly(as_float(max(amax, floor_bits)), largest));
  if (power_of_two != 0) {
    if (scale >= 0x00800000u) {
      scale = (scale + 0x007fffffu) & 0x7f800000u;
    } else if (scale != 0u && (scale & (scale - 1u)) != 0u) {
      scale = 1u << (32 - clz(scale));
    } else if (scale == 0u) {
      scale = 1u;
    }
  }
  return as_float(scale);
}
#define scale_of_bits(amax, floor_bits) scale_to(amax, floor_bits, LARGEST, POWER_OF_TWO)

/// What the code of x under a scale is rounded from.
static inline float any_quotient(float x, float scale) {
  if (as_uint(scale) != 0u) return divide_exactly(x, scale);
  const uint bits = as_uint(x);  // Zero stays zero; the rest saturates.
  return (bits & 0x7fffffffu) == 0u ? x : as_float((bits & 0x80000000u) | 0x7f800000u);
}
#define code_of(x, scale) ((uchar)ENCODE(CODE)(any_quotient(x, scale)))

/// The same under a scale that was given, whatever it is.
static inline float quotient_by_given(float x, float scale) {
  const uint sign = (as_uint(x) ^ as_uint(scale)) & 0x80000000u, bits = as_uint(x) & 0x7fffffffu, size = as_uint(scale) & 0x7fffffffu;
  if (bits > 0x7f800000u || size > 0x7f800000u || (bits == 0x7f800000u && size == bits)) return as_float(F32_NAN_BITS);
  if (bits == 0x7f800000u) return as_float(bits | sign);
  if (size == 0x7f800000u) return as_float(sign);
  return any_quotient(as_float(bits | sign), as_float(size));
}

// A scale as it is stored: f32, or e8m0, whose least is 2^-127.
#define LEAST_E8M0 0x00400000u
#define STORED_SCALE_1(scale) (scale)
#define STORED_SCALE_6(scale) as_float(max(as_uint(scale), LEAST_E8M0))
#define STORED_SCALE(TYPE, scale) JOIN(STORED_SCALE_, TYPE)(scale)
#define PUT_SCALE_1(scales, at, scale) ((__global float*)(scales))[at] = (scale)
#define PUT_SCALE_6(scales, at, scale) (scales)[at] = (uchar)(as_uint(scale) <= LEAST_E8M0 ? 0u : as_uint(scale) >> 23)
#define PUT_SCALE(TYPE, scales, at, scale) JOIN(PUT_SCALE_, TYPE)(scales, at, scale)

// x / scale, correctly rounded, where in_reach(scale); reciprocal is 1 / scale, correctly rounded. Two steps of Newton's with
// the remainder from a fused multiply-add, as P. Markstein describes for division without a divider (IBM Journal of Research
// and Development 34, 1990): the first gives a neighbour of the quotient, the second the quotient. The remainder is exact
// while it is no denormal; in reach only quotients under 2^-20 could have such a one, and their codes are zeros. probe.cl
// compares with division before a device is trusted with it. The sign is x's: steps from -0 end at +0.
#if FMA_DIVIDE
#define QUOTIENT(F, U, AS_F, AS_U)                                                  \
  const F guess = x * (F)(reciprocal);                                              \
  const F near = fma(fma(-guess, (F)(scale), x), (F)(reciprocal), guess);           \
  const F right = fma(fma(-near, (F)(scale), x), (F)(reciprocal), near);            \
  return AS_F((AS_U(right) & (U)(0x7fffffffu)) | (AS_U(x) & (U)(0x80000000u)));
static inline bool in_reach(float scale) { return as_uint(scale) - 0x21800000u <= 0x3c000000u; }  // 2^-60 to 2^60
#elif EXACT_DIVIDE
#define QUOTIENT(F, U, AS_F, AS_U) return x / (F)(scale);
static inline bool in_reach(float scale) { return as_uint(scale) - 1u < 0x7f7fffffu; }  // Positive and finite.
#else
#define QUOTIENT(F, U, AS_F, AS_U) return x;  // Nobody asks.
static inline bool in_reach(float scale) { return false; }
#endif
static inline float quotient(float x, float scale, float reciprocal) { QUOTIENT(float, uint, as_float, as_uint) }
static inline float4 quotient_4(float4 x, float scale, float reciprocal) { QUOTIENT(float4, uint4, as_float4, as_uint4) }
static inline float16 quotient_16(float16 x, float scale, float reciprocal) {
  QUOTIENT(float16, uint16, as_float16, as_uint16)
}

// SPDX-License-Identifier: Apache-2.0
// fp8.cl: values in and out of the narrow formats, for one element (decode_x) and sixteen (decode_x_16).
// Everything is done on the bits, or with f32 operations that meet no denormal: right also where a device flushes them.
// Element types are numbered as in ironcl/plugin.h: 1 f32, 2 f16, 3 bf16, 4 e4m3fn, 5 e5m2, 6 e8m0, 7 i8.
#pragma OPENCL FP_CONTRACT OFF

#define TYPE_F32 1
#define TYPE_F16 2
#define TYPE_BF16 3
#define TYPE_E4M3 4
#define TYPE_E5M2 5
#define TYPE_E8M0 6
#define TYPE_I8 7

#define F32_NAN_BITS 0x7fc00000u

// MUL_ADD(a, b, c): fused where the hardware has it. Products of fp8 values are exact in f32, so both forms agree.
#ifndef USE_FMA
#define USE_FMA 1
#endif
#if USE_FMA
#define MUL_ADD(a, b, c) fma(a, b, c)
#else
#define MUL_ADD(a, b, c) ((a) * (b) + (c))
#endif

#define DEFINE_FORMATS(NAME, F, U, AS_F, AS_U, AS_I, CONVERT_I, CONVERT_F)                                           \
  /* e4m3fn without its NaN codes. The bits moved to f32's place are right for normal codes; twice that less 2^-6 is \
     right for subnormal ones; the smaller of the two is always the right one. */                                    \
  static inline F NAME(decode_e4m3_finite)(U code) {                                                                 \
    const F normal = AS_F(((code & (U)(0x7fu)) << 20) + (U)(0x3c000000u));                                           \
    const F subnormal = normal + normal - (F)(0x1p-6f);                                                              \
    const F magnitude = normal < subnormal ? normal : subnormal;                                                     \
    return AS_F(AS_U(magnitude) | ((code & (U)(0x80u)) << 24));                                                      \
  }                                                                                                                  \
  static inline F NAME(decode_e4m3)(U code) {                                                                        \
    const F finite = NAME(decode_e4m3_finite)(code);                                                                 \
    return (code & (U)(0x7fu)) == (U)(0x7fu) ? AS_F((U)(F32_NAN_BITS)) : finite;                                     \
  }                                                                                                                  \
  static inline F NAME(decode_f16)(U bits) {                                                                         \
    const U moved = (bits & (U)(0x7fffu)) << 13;                                                                     \
    const F subnormal = AS_F(moved + (U)(0x38800000u)) - AS_F((U)(0x38800000u));                                     \
    const U normal = moved + (moved >= (U)(0x0f800000u) ? (U)(0x70000000u) : (U)(0x38000000u));                      \
    const U magnitude = moved < (U)(0x00800000u) ? AS_U(subnormal) : normal;                                         \
    return AS_F(magnitude | ((bits & (U)(0x8000u)) << 16));                                                          \
  }                                                                                                                  \
  static inline F NAME(decode_e5m2)(U code) { return NAME(decode_f16)(code << 8); }                                  \
  static inline F NAME(decode_i8)(U code) { return CONVERT_F(AS_I(code << 24) >> 24); }                              \
  static inline F NAME(decode_bf16)(U bits) { return AS_F(bits << 16); }                                             \
  /* f32 to the 16-bit types: nearest even, overflow to infinity, NaN kept. */                                       \
  static inline U NAME(encode_f16)(F value) {                                                                        \
    const U bits = AS_U(value), magnitude = bits & (U)(0x7fffffffu);                                                 \
    const U shifted = (magnitude - (U)(0x38000000u) + (U)(0xfffu) + ((magnitude >> 13) & (U)(1u))) >> 13;            \
    const U normal = shifted < (U)(0x7c00u) ? shifted : (U)(0x7c00u);                                                \
    const U subnormal = AS_U(AS_F(magnitude) + (F)(0.5f)) - (U)(0x3f000000u);                                        \
    const U finite = magnitude < (U)(0x38800000u) ? subnormal : normal;                                              \
    return (magnitude > (U)(0x7f800000u) ? (U)(0x7e00u) : finite) | ((bits >> 16) & (U)(0x8000u));                   \
  }                                                                                                                  \
  static inline U NAME(encode_bf16)(F value) {                                                                       \
    const U bits = AS_U(value), magnitude = bits & (U)(0x7fffffffu);                                                 \
    const U rounded = (magnitude + (U)(0x7fffu) + ((magnitude >> 16) & (U)(1u))) >> 16;                              \
    return (magnitude > (U)(0x7f800000u) ? (U)(0x7fc0u) : rounded) | ((bits >> 16) & (U)(0x8000u));                  \
  }                                                                                                                  \
  /* f32 to codes: nearest even, saturated, NaN gives the type's NaN (i8: 0). */                                     \
  static inline U NAME(encode_e4m3)(F value) {                                                                       \
    const U bits = AS_U(value), magnitude = bits & (U)(0x7fffffffu);                                                 \
    const U shifted = ((magnitude + (U)(0x7ffffu) + ((magnitude >> 20) & (U)(1u))) >> 20) - (U)(0x3c0u);             \
    const U normal = shifted < (U)(0x7eu) ? shifted : (U)(0x7eu);                                                    \
    const U subnormal = AS_U(AS_F(magnitude) + (F)(16384.0f)) - (U)(0x46800000u);                                    \
    const U finite = (magnitude < (U)(0x3c800000u) ? subnormal : normal) | ((bits >> 24) & (U)(0x80u));              \
    return magnitude > (U)(0x7f800000u) ? (U)(0x7fu) : finite;                                                       \
  }                                                                                                                  \
  static inline U NAME(encode_e5m2)(F value) {                                                                       \
    const U bits = AS_U(value), magnitude = bits & (U)(0x7fffffffu);                                                 \
    const U shifted = ((magnitude + (U)(0xfffffu) + ((magnitude >> 21) & (U)(1u))) >> 21) - (U)(0x1c0u);             \
    const U normal = shifted < (U)(0x7bu) ? shifted : (U)(0x7bu);                                                    \
    const U subnormal = AS_U(AS_F(magnitude) + (F)(128.0f)) - (U)(0x43000000u);                                      \
    const U finite = (magnitude < (U)(0x38800000u) ? subnormal : normal) | ((bits >> 24) & (U)(0x80u));              \
    return magnitude > (U)(0x7f800000u) ? (U)(0x7eu) : finite;                                                       \
  }                                                                                                                  \
  static inline U NAME(encode_i8)(F value) {                                                                         \
    const F low = value > (F)(-127.0f) ? value : (F)(-127.0f);                                                       \
    const F clamped = low < (F)(127.0f) ? low : (F)(127.0f);                                                         \
    const U code = AS_U(CONVERT_I(clamped)) & (U)(0xffu);                                                            \
    return (AS_U(value) & (U)(0x7fffffffu)) > (U)(0x7f800000u) ? (U)(0u) : code;                                     \
  }

#define ONE(name) name
#define SIXTEEN(name) name##_16
DEFINE_FORMATS(ONE, float, uint, as_float, as_uint, as_int, convert_int_rte, convert_float)
DEFINE_FORMATS(SIXTEEN, float16, uint16, as_float16, as_uint16, as_int16, convert_int16_rte, convert_float16)

// decode_TYPE by number; TYPE must be a literal.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define DECODE_2 decode_f16
#define DECODE_3 decode_bf16
#define DECODE_4 decode_e4m3
#define DECODE_5 decode_e5m2
#define DECODE_7 decode_i8
#define ENCODE_4 encode_e4m3
#define ENCODE_5 encode_e5m2
#define ENCODE_7 encode_i8
// As DECODE, where NaN codes need no care (weights: a NaN code has made its scale NaN when the weights were packed).
#define DECODE_FINITE_4 decode_e4m3_finite
#define DECODE_FINITE_5 decode_e5m2
#define DECODE_FINITE_7 decode_i8
// The same for vectors of sixteen.
#define DECODE16_2 decode_f16_16
#define DECODE16_3 decode_bf16_16
#define DECODE16_4 decode_e4m3_16
#define DECODE16_5 decode_e5m2_16
#define DECODE16_7 decode_i8_16
#define ENCODE16_4 encode_e4m3_16
#define ENCODE16_5 encode_e5m2_16
#define ENCODE16_7 encode_i8_16

// The value of the nearest code (ties to even) for sixteen finite values: decode(encode(value)) in a third of the operations.
// Adding and taking away 2^(exponent + 23 - mantissa bits) rounds a magnitude to the format's step.
static inline float16 round_magnitude_16(float16 magnitude, uint smallest_normal, uint up, float largest) {
  const uint16 bits = as_uint16(magnitude);
  const uint16 normal = bits > (uint16)(smallest_normal) ? bits : (uint16)(smallest_normal);
  const float16 step = as_float16((normal & (uint16)(0x7f800000u)) + (uint16)(up << 23));
  const float16 rounded = (magnitude + step) - step;
  return rounded < (float16)(largest) ? rounded : (float16)(largest);
}
#define DEFINE_ROUND(NAME, SMALLEST_NORMAL, UP, LARGEST_VALUE)                                                    \
  static inline float16 NAME(float16 value) {                                                                  \
    const uint16 bits = as_uint16(value);                                                                      \
    const float16 magnitude = round_magnitude_16(as_float16(bits & (uint16)(0x7fffffffu)), SMALLEST_NORMAL, UP, \
                                                 LARGEST_VALUE);                                               \
    return as_float16(as_uint16(magnitude) | (bits & (uint16)(0x80000000u)));                                  \
  }
DEFINE_ROUND(ROUND16_4, 0x3c800000u, 20u, 448.0f)
DEFINE_ROUND(ROUND16_5, 0x38800000u, 21u, 57344.0f)
static inline float16 ROUND16_7(float16 value) { return decode_i8_16(encode_i8_16(value)); }

// Weights, sixteen codes at once: the value is DECODE_WEIGHTS_T(codes) * WEIGHT_UNIT_T, the unit being a power of two that
// is applied to a group's sum instead of every weight. With HALF_VECTORS (the compiler converts vectors of 16-bit floats,
// seen by probe.cl) codes are moved to the place of such a float: exact, also for subnormal codes, and no denormal f32.
#ifdef HALF_VECTORS
typedef __fp16 half_vector __attribute__((ext_vector_type(16)));
static inline float16 convert_halfs(ushort16 bits) {
  union {
    ushort16 bits;
    half_vector values;
  } both;
  both.bits = bits;
  return __builtin_convertvector(both.values, float16);
}
#define DECODE_WEIGHTS_4(codes) \
  convert_halfs(as_ushort16(convert_short16(as_char16(codes)) << (short16)(7)) & (ushort16)(0xbf80))
#define DECODE_WEIGHTS_5(codes) convert_halfs(convert_ushort16(codes) << (ushort16)(8))
#define WEIGHT_UNIT_4 256.0f
#else
#define DECODE_WEIGHTS_4(codes) decode_e4m3_finite_16(convert_uint16(codes))
#define DECODE_WEIGHTS_5(codes) decode_e5m2_16(convert_uint16(codes))
#define WEIGHT_UNIT_4 1.0f
#endif
#define DECODE_WEIGHTS_7(codes) convert_float16(as_char16(codes))
#define DECODE_WEIGHTS_1(values) (values)
#define DECODE_WEIGHTS_2(values) decode_f16_16(convert_uint16(values))
#define DECODE_WEIGHTS_3(values) decode_bf16_16(convert_uint16(values))
#define WEIGHT_UNIT_1 1.0f
#define WEIGHT_UNIT_2 1.0f
#define WEIGHT_UNIT_3 1.0f
#define WEIGHT_UNIT_5 1.0f
#define WEIGHT_UNIT_7 1.0f

/// Element `index` of an array of type `type` (a literal) as f32.
static inline float load_element(int type, __global const uchar* data, ulong index) {
  switch (type) {
    case TYPE_F32:
      return ((__global const float*)data)[index];
    case TYPE_F16:
      return decode_f16((uint)((__global const ushort*)data)[index]);
    case TYPE_BF16:
      return decode_bf16((uint)((__global const ushort*)data)[index]);
    case TYPE_E4M3:
      return decode_e4m3((uint)data[index]);
    case TYPE_E5M2:
      return decode_e5m2((uint)data[index]);
    case TYPE_E8M0: {
      const uint code = data[index];
      return as_float(code == 255u ? F32_NAN_BITS : code == 0u ? 0x00400000u : code << 23);
    }
    case TYPE_I8:
      return decode_i8((uint)data[index]);
    default:
      return 0.0f;
  }
}

/// Sixteen elements from `index` on as f32: floats of type 1, 2 or 3.
static inline float16 load_floats16(int type, __global const uchar* data, ulong index) {
  if (type == TYPE_F32) return vload16(0, (__global const float*)data + index);
  const uint16 bits = convert_uint16(vload16(0, (__global const ushort*)data + index));
  return type == TYPE_F16 ? decode_f16_16(bits) : decode_bf16_16(bits);
}

/// Stores one element of type f32, f16 or bf16.
static inline void store_element(int type, __global uchar* data, ulong index, float value) {
  switch (type) {
    case TYPE_F32:
      ((__global float*)data)[index] = value;
      break;
    case TYPE_F16:
      ((__global ushort*)data)[index] = (ushort)encode_f16(value);
      break;
    default:
      ((__global ushort*)data)[index] = (ushort)encode_bf16(value);
      break;
  }
}

// PoCL makes sixteen stores of vstore16, since an element's alignment is all that it may count on; where the compiler is clang (which
// CACHE_BUILTINS says) a vector of that alignment is one store.
#ifdef CACHE_BUILTINS
typedef ushort16 __attribute__((aligned(2))) ushort16_anywhere;
#define STORE_16_SHORTS(to, x) *(__global ushort16_anywhere*)(to) = (x)
#else
#define STORE_16_SHORTS(to, x) vstore16(x, 0, to)
#endif

/// The same for sixteen.
static inline void store_elements16(int type, __global uchar* data, ulong index, float16 value) {
  if (type == TYPE_F32) {
    vstore16(value, 0, (__global float*)data + index);
  } else {
    const uint16 bits = type == TYPE_F16 ? encode_f16_16(value) : encode_bf16_16(value);
    STORE_16_SHORTS((__global ushort*)data + index, convert_ushort16(bits));
  }
}

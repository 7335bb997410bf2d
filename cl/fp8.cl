// SPDX-License-Identifier: Apache-2.0
// fp8.cl: values in and out of the narrow formats, for one element (decode_x), four and sixteen (decode_x_4, decode_x_16), and the one table of
// element types: a type is a row of it (ELEMENT_n) and the functions that the row names.
// Everything is done on the bits, or with f32 operations that meet no denormal: right also where a device flushes them.
// Element types are numbered as in numerics/formats.h.
#pragma OPENCL FP_CONTRACT OFF

#define TYPE_F32 1
#define TYPE_F16 2
#define TYPE_BF16 3
#define TYPE_E4M3 4
#define TYPE_E5M2 5
#define TYPE_E8M0 6
#define TYPE_I8 7
#define TYPE_E2M1 10

#define F32_NAN_BITS 0x7fc00000u

// Of kernels that work on vectors: the compiler keeps those of 512 bits whole, where it takes the attribute (MIN_VECTOR_WIDTH).
#ifdef MIN_VECTOR_WIDTH
#define WIDE_VECTORS __attribute__((min_vector_width(512)))
#else
#define WIDE_VECTORS
#endif

// MUL_ADD(a, b, c): fused where the hardware has it. Products of fp8 values are exact in f32, so both forms agree.
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
  /* The same two ways as e4m3fn: four bits, no NaN. */                                                                \
  static inline F NAME(decode_e2m1)(U code) {                                                                        \
    const F normal = AS_F(((code & (U)(0x7u)) << 22) + (U)(0x3f000000u));                                            \
    const F subnormal = normal + normal - (F)(1.0f);                                                                 \
    const F magnitude = normal < subnormal ? normal : subnormal;                                                     \
    return AS_F(AS_U(magnitude) | ((code & (U)(0x8u)) << 28));                                                       \
  }                                                                                                                  \
  static inline F NAME(decode_e8m0)(U code) {                                                                        \
    const U normal = code == (U)(0u) ? (U)(0x00400000u) : code << 23;                                                \
    return AS_F(code == (U)(255u) ? (U)(F32_NAN_BITS) : normal);                                                     \
  }                                                                                                                  \
  static inline F NAME(decode_i8)(U code) { return CONVERT_F(AS_I(code << 24) >> 24); }                              \
  static inline F NAME(decode_bf16)(U bits) { return AS_F(bits << 16); }                                             \
  static inline F NAME(decode_f32)(U bits) { return AS_F(bits); }                                                    \
  static inline U NAME(encode_f32)(F value) { return AS_U(value); }                                                  \
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
#define FOUR(name) name##_4
#define SIXTEEN(name) name##_16
DEFINE_FORMATS(ONE, float, uint, as_float, as_uint, as_int, convert_int_rte, convert_float)
DEFINE_FORMATS(FOUR, float4, uint4, as_float4, as_uint4, as_int4, convert_int4_rte, convert_float4)
DEFINE_FORMATS(SIXTEEN, float16, uint16, as_float16, as_uint16, as_int16, convert_int16_rte, convert_float16)

// The table. Columns of a row:
// name      of the type's functions: decode_NAME, and encode_NAME where something is stored in it; with _16 for sixteen
// bits      of an element; two of four bits share a byte, the first in its lower half
// finite    decode_FINITE is decode_NAME where NaN codes need no care (weights: a NaN code has made its scale NaN when the weights
//           were packed)
// largest   finite value, and the code of NaN, where values are quantised to the type
// weights   sixteen codes of packed weights as values in units of `unit` (below); of four bits VALUES_OF_WORDS
// clang-format off
//                           name  bits  finite       largest   NaN    weights        unit
#define ELEMENT_1(TAKE) TAKE(f32,  32,  f32,         0.0f,     0,     WEIGHTS_F32,   1.0f)
#define ELEMENT_2(TAKE) TAKE(f16,  16,  f16,         0.0f,     0,     WEIGHTS_F16,   1.0f)
#define ELEMENT_3(TAKE) TAKE(bf16, 16,  bf16,        0.0f,     0,     WEIGHTS_BF16,  1.0f)
#define ELEMENT_4(TAKE) TAKE(e4m3, 8,   e4m3_finite, 448.0f,   0x7f,  WEIGHTS_E4M3,  UNIT_E4M3)
#define ELEMENT_5(TAKE) TAKE(e5m2, 8,   e5m2,        57344.0f, 0x7e,  WEIGHTS_E5M2,  1.0f)
#define ELEMENT_6(TAKE) TAKE(e8m0, 8,   e8m0,        0.0f,     0xff,  NO_WEIGHTS,    1.0f)
#define ELEMENT_7(TAKE) TAKE(i8,   8,   i8,          127.0f,   0,     WEIGHTS_I8,    1.0f)
#define ELEMENT_10(TAKE) TAKE(e2m1, 4,  e2m1,        6.0f,     0,     NO_WEIGHTS,    1.0f)
// clang-format on

// What a row says of a type; TYPE is a number or a macro that is one.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ELEMENT(TYPE, TAKE) JOIN(ELEMENT_, TYPE)(TAKE)
#define TAKE_NAME(name, bits, finite, largest, nan_code, weights, unit) name
#define TAKE_BITS(name, bits, finite, largest, nan_code, weights, unit) bits
#define TAKE_FINITE(name, bits, finite, largest, nan_code, weights, unit) finite
#define TAKE_LARGEST(name, bits, finite, largest, nan_code, weights, unit) largest
#define TAKE_NAN_CODE(name, bits, finite, largest, nan_code, weights, unit) nan_code
#define TAKE_WEIGHTS(name, bits, finite, largest, nan_code, weights, unit) weights
#define TAKE_UNIT(name, bits, finite, largest, nan_code, weights, unit) unit
#define BITS_OF(TYPE) ELEMENT(TYPE, TAKE_BITS)
#define LARGEST_OF(TYPE) ELEMENT(TYPE, TAKE_LARGEST)
#define NAN_CODE_OF(TYPE) ELEMENT(TYPE, TAKE_NAN_CODE)
#define DECODE(TYPE) JOIN(decode_, ELEMENT(TYPE, TAKE_NAME))
#define DECODE_4(TYPE) JOIN(DECODE(TYPE), _4)
#define DECODE_16(TYPE) JOIN(DECODE(TYPE), _16)
#define DECODE_FINITE(TYPE) JOIN(decode_, ELEMENT(TYPE, TAKE_FINITE))
#define ENCODE(TYPE) JOIN(encode_, ELEMENT(TYPE, TAKE_NAME))
#define ENCODE_4(TYPE) JOIN(ENCODE(TYPE), _4)
#define ENCODE_16(TYPE) JOIN(ENCODE(TYPE), _16)
#define ROUND_16(TYPE) JOIN(JOIN(round_, ELEMENT(TYPE, TAKE_NAME)), _16)
#define DECODE_WEIGHTS(TYPE) ELEMENT(TYPE, TAKE_WEIGHTS)
#define WEIGHT_UNIT(TYPE) ELEMENT(TYPE, TAKE_UNIT)

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
DEFINE_ROUND(round_e4m3_16, 0x3c800000u, 20u, 448.0f)
DEFINE_ROUND(round_e5m2_16, 0x38800000u, 21u, 57344.0f)
static inline float16 round_i8_16(float16 value) { return decode_i8_16(encode_i8_16(value)); }

// Weights, sixteen codes at once: the value is DECODE_WEIGHTS(TYPE)(codes) * WEIGHT_UNIT(TYPE), the unit being a power of two that
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
#define WEIGHTS_E4M3(codes) \
  convert_halfs(as_ushort16(convert_short16(as_char16(codes)) << (short16)(7)) & (ushort16)(0xbf80))
#define WEIGHTS_E5M2(codes) convert_halfs(convert_ushort16(codes) << (ushort16)(8))
#define UNIT_E4M3 256.0f
#else
#define WEIGHTS_E4M3(codes) decode_e4m3_finite_16(convert_uint16(codes))
#define WEIGHTS_E5M2(codes) decode_e5m2_16(convert_uint16(codes))
#define UNIT_E4M3 1.0f
#endif
#define WEIGHTS_I8(codes) convert_float16(as_char16(codes))
#define WEIGHTS_F32(values) as_float16(values)
/// Codes of four bits, those from bit 4 * i on of sixteen words, as values: an instruction looks all sixteen up where the processor has it.
#ifdef __AVX512F__
static inline __attribute__((always_inline)) float16 values_of_words(uint16 words, int i) {
  const float16 values = (float16)(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  return __builtin_ia32_permvarsf512(values, as_int16(words >> (uint16)((uint)(4 * i))));
}
#else
static inline float16 values_of_words(uint16 words, int i) { return decode_e2m1_16(words >> (uint16)((uint)(4 * i))); }
#endif
/// Sixteen values of A as kernels that decode such words by pairs have them: k and k + 4 of each eight are neighbours.
#define PAIRS_APART_16(values) values.s041526378c9daebf
#define WEIGHTS_F16(values) decode_f16_16(convert_uint16(values))
#define WEIGHTS_BF16(values) decode_bf16_16(convert_uint16(values))

// Elements by their bits, as they lie in memory: HELD of them, `index` counted in elements.
typedef uchar held_4;  // Two.
typedef uchar held_8;
typedef ushort held_16;
typedef uint held_32;
#define HELD(TYPE) JOIN(held_, BITS_OF(TYPE))
/// Of B, how many of those hold `count`.
#define HOLDERS(count) ((count) / (BITS_OF(B_TYPE) < 8 ? 8 / BITS_OF(B_TYPE) : 1))

#define load_held_8(at) vload16(0, at)
#define load_held_16(at) vload16(0, at)
#define load_held_32(at) vload16(0, at)
/// Sixteen from a pointer to HELD(TYPE) on.
#define LOAD_HELD(TYPE) JOIN(load_held_, BITS_OF(TYPE))

static inline uint load_bits_4(__global const uchar* data, ulong index) {
  return ((uint)data[index >> 1] >> (((uint)index & 1u) << 2)) & 0xfu;
}
static inline uint load_bits_8(__global const uchar* data, ulong index) { return (uint)data[index]; }
static inline uint load_bits_16(__global const uchar* data, ulong index) {
  return (uint)((__global const ushort*)data)[index];
}
static inline uint load_bits_32(__global const uchar* data, ulong index) { return ((__global const uint*)data)[index]; }

/// Element `index` of an array of type TYPE as f32.
#define load_element(TYPE, data, index) DECODE(TYPE)(JOIN(load_bits_, BITS_OF(TYPE))(data, index))

/// Sixteen elements of whole bytes from `index` on as f32.
#define load_floats16(TYPE, data, index) \
  DECODE_16(TYPE)(convert_uint16(LOAD_HELD(TYPE)((__global const HELD(TYPE)*)(data) + (index))))

/// Four elements of 16 or 32 bits from `index` on as f32, read at once: they must lie at a multiple of their size, so must those that
/// store_elements4 stores.
#define four_16 ushort4
#define four_32 uint4
#define load_floats4(TYPE, data, index) \
  DECODE_4(TYPE)(convert_uint4(*(__global const JOIN(four_, BITS_OF(TYPE))*)((__global const HELD(TYPE)*)(data) + (index))))

/// Where rows begin, in elements: four columns from a multiple of four on are one access if this is a multiple of four.
#define PLACES(TYPE, data, at, ld) ((ulong)(data) / sizeof(HELD(TYPE)) | (at) | (ld))
/// Four elements from `index` on, of which `count` are there; the others are zeros. together: they are one access.
#define load_up_to_4(TYPE, data, index, count, together)                                                                 \
  ((together) && (count) >= 4 ? load_floats4(TYPE, data, index)                                                          \
                              : (float4)(LOAD_IF_(TYPE, data, index, count, 0), LOAD_IF_(TYPE, data, index, count, 1), \
                                         LOAD_IF_(TYPE, data, index, count, 2), LOAD_IF_(TYPE, data, index, count, 3)))
#define LOAD_IF_(TYPE, data, index, count, i) ((i) < (count) ? load_element(TYPE, data, (index) + (i)) : 0.0f)

// PoCL makes sixteen stores of vstore16, since an element's alignment is all that it may count on; where the compiler is clang (which
// CACHE_BUILTINS says) a vector of that alignment is one store.
#ifdef CACHE_BUILTINS
typedef ushort16 __attribute__((aligned(2))) ushort16_anywhere;
#define STORE_16_SHORTS(to, x) *(__global ushort16_anywhere*)(to) = (x)
#else
#define STORE_16_SHORTS(to, x) vstore16(x, 0, to)
#endif

static inline void store_bits_8(__global uchar* data, ulong index, uint bits) { data[index] = (uchar)bits; }
static inline void store_bits_16(__global uchar* data, ulong index, uint bits) {
  ((__global ushort*)data)[index] = (ushort)bits;
}
static inline void store_bits_32(__global uchar* data, ulong index, uint bits) { ((__global uint*)data)[index] = bits; }
static inline void store_held_8(__global uchar* data, ulong index, uint16 bits) {
  vstore16(convert_uchar16(bits), 0, data + index);
}
static inline void store_held_16(__global uchar* data, ulong index, uint16 bits) {
  STORE_16_SHORTS((__global ushort*)data + index, convert_ushort16(bits));
}
static inline void store_held_32(__global uchar* data, ulong index, uint16 bits) {
  vstore16(as_float16(bits), 0, (__global float*)data + index);
}

static inline void store_four_16(__global uchar* data, ulong index, uint4 bits) {
  *(__global ushort4*)((__global ushort*)data + index) = convert_ushort4(bits);
}
static inline void store_four_32(__global uchar* data, ulong index, uint4 bits) { *(__global uint4*)((__global uint*)data + index) = bits; }

/// Stores one element of whole bytes, four and sixteen.
#define store_element(TYPE, data, index, value) JOIN(store_bits_, BITS_OF(TYPE))(data, index, ENCODE(TYPE)(value))
#define store_elements4(TYPE, data, index, value) JOIN(store_four_, BITS_OF(TYPE))(data, index, ENCODE_4(TYPE)(value))
#define store_elements16(TYPE, data, index, value) JOIN(store_held_, BITS_OF(TYPE))(data, index, ENCODE_16(TYPE)(value))

// SPDX-License-Identifier: Apache-2.0
// code_words.cl: the four codes of a 32-bit word, or of 16 bits, as f32, in few instructions: for kernels that decode in scalar registers.
// The value is WORD_T(word) * UNIT_OF_T, the unit being a power of two that is applied to a group's sum. TOKENS_T is WORD_T for
// activations, whose NaN codes become NaN; weights need no such care (tile.cl, sb).
// e4m3 and e5m2: codes are moved to the places of 16-bit floats (half_words.cl), and one instruction makes f32 of each. No denormal f32 is
// met on the way.
// i8: the code with its sign bit turned, below the exponent of 2^23, is code + 2^23 + 128.
// Four products of i8 at once: dot_4x8packed_ss_int of OpenCL C 3.0, where BYTE_DOTS says that the device has it.
// Set by the host:
// BYTE_DOTS  not set  1  dot products of packed bytes were seen to be right
// HALF_BITS  0  0 1 2  how bits of 16-bit floats become f32: not at all (then fp8.cl decodes each code), by cl_khr_fp16, by vload_half
#include "fp8.cl"
#include "half_words.cl"

#ifndef HALF_BITS
#define HALF_BITS 0
#endif
#ifdef BYTE_DOTS
// Compilers declare it in OpenCL C 3.0 only, and kernels are built as the version that a device takes by itself, but all have it.
int __attribute__((overloadable)) dot_4x8packed_ss_int(uint x, uint y);
#endif

#if HALF_BITS == 1
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
static inline float2 floats_of_halfs(uint pair) { return convert_float2(as_half2(pair)); }
#elif HALF_BITS == 2
static inline float2 floats_of_halfs(uint pair) { return vload_half2(0, (const __private half*)&pair); }
#endif

#if HALF_BITS != 0
/// `even` and `odd`: the halfs of codes 0 and 2, and of codes 1 and 3.
static inline float4 floats_of_words(uint even, uint odd) {
  const float2 e = floats_of_halfs(even), o = floats_of_halfs(odd);
  return (float4)(e.x, o.x, e.y, o.y);
}
static inline float4 word_e4m3(uint word) { return floats_of_words(even_halfs_e4m3(word), odd_halfs_e4m3(word)); }
/// The same, NaN where a code is.
static inline float4 tokens_e4m3(uint word) {
  uint even, odd;
  HALFS_4(even, odd, word);
  return floats_of_words(even, odd);
}
static inline float4 word_e5m2(uint word) {
  uint even, odd;
  HALFS_5(even, odd, word);
  return floats_of_words(even, odd);
}
static inline float4 word_e2m1(uint word) {
  uint even, odd;
  HALFS_10(even, odd, word);
  return floats_of_words(even, odd);
}
#define UNIT_OF_4 256.0f
#define UNIT_OF_10 HALF_UNIT_10
#else
#define FOUR(decode, word) \
  (float4)(decode((word) & 0xffu), decode(((word) >> 8) & 0xffu), decode(((word) >> 16) & 0xffu), decode((word) >> 24))
static inline float4 word_e4m3(uint word) { return FOUR(decode_e4m3_finite, word); }
/// The same, NaN where a code is.
static inline float4 tokens_e4m3(uint word) { return FOUR(decode_e4m3, word); }
static inline float4 word_e5m2(uint word) { return FOUR(decode_e5m2, word); }
static inline float4 word_e2m1(uint word) {
  return (float4)(decode_e2m1(word), decode_e2m1(word >> 4), decode_e2m1(word >> 8), decode_e2m1(word >> 12));
}
#define UNIT_OF_4 1.0f
#define UNIT_OF_10 1.0f
#endif
#define UNIT_OF_1 1.0f
#define UNIT_OF_2 1.0f
#define UNIT_OF_3 1.0f
#define UNIT_OF_5 1.0f
#define UNIT_OF_7 1.0f

// FLOATS_T: a word of two 16-bit floats, the first in its lower half.
#if HALF_BITS != 0
#define FLOATS_2(pair) floats_of_halfs(pair)
#else
#define FLOATS_2(pair) (float2)(decode_f16((pair) & 0xffffu), decode_f16((pair) >> 16))
#endif
#define FLOATS_3(pair) (float2)(as_float((pair) << 16), as_float((pair) & 0xffff0000u))

static inline float4 word_i8(uint word) {
  const uint turned = word ^ 0x80808080u;
  return (float4)(as_float(0x4b000000u | (turned & 0xffu)), as_float(0x4b000000u | ((turned >> 8) & 0xffu)),
                  as_float(0x4b000000u | ((turned >> 16) & 0xffu)), as_float(0x4b000000u | (turned >> 24))) -
         (float4)(8388736.0f);
}

#define WORD_4 word_e4m3
#define WORD_5 word_e5m2
#define WORD_7 word_i8
#define WORD_10 word_e2m1
#define TOKENS_4 tokens_e4m3
#define TOKENS_5 word_e5m2
#define TOKENS_7 word_i8

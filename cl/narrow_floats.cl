// SPDX-License-Identifier: Apache-2.0
// narrow_floats.cl: codes as 16-bit floats, two to a word, for the matrix products that multiply those (gemm_dpas.cl, gemm_wave.cl). Next
// door: code_words.cl (codes as f32).
// BF16_OF: as bf16, which holds every e4m3 and e5m2 code exactly and none as a denormal, in the units of code_words.cl.
// F16_OF: e4m3 codes as f16, in units of 1: the least is 2^-9, no denormal either, which some matrix units take for zero. (The least of e5m2,
// 2^-16, is one.) In half the operations, for two codes are moved to their places and multiplied by 2^8 at once; the first is exact for
// denormals, and the second where multiplications of f16 keep them, which a variant's trial shows.
// Where HALF_BITS is not 1 the same is done by f32 operations, a code at a time.
#include "code_words.cl"

/// Four values that bf16 holds, as two words: their upper halves.
static inline uint2 bf16_pairs(float4 values) { return as_uint2(as_ushort8(values).s1357); }
/// The sixteen codes of four words as eight words; word_of: WORD_T or TOKENS_T of code_words.cl.
#define BF16_OF(word_of, codes) \
  (uint8)(bf16_pairs(word_of((codes).x)), bf16_pairs(word_of((codes).y)), bf16_pairs(word_of((codes).z)), bf16_pairs(word_of((codes).w)))

#if HALF_BITS == 1
static inline uint times_256(uint halfs) { return as_uint(as_half2(halfs) * (half2)((half)256.0f)); }
#else
static inline uint times_256(uint halfs) {
  return encode_f16(decode_f16(halfs & 0xffffu) * 256.0f) | (encode_f16(decode_f16(halfs >> 16) * 256.0f) << 16);
}
#endif
/// Codes 0, 2, 1 and 3 of a word of weights, in this order, which is for operands that are both made so.
static inline uint2 f16_word_e4m3(uint word) {
  return (uint2)(times_256(even_halfs_e4m3(word)), times_256(odd_halfs_e4m3(word)));
}
/// The same of activations, NaN where a code is.
static inline uint2 f16_tokens_e4m3(uint word) {
  uint even, odd;
  HALFS_4(even, odd, word);
  return (uint2)(times_256(even), times_256(odd));
}
/// The sixteen codes of four words as eight words; word_of: one of these two.
#define F16_OF(word_of, codes) (uint8)(word_of((codes).x), word_of((codes).y), word_of((codes).z), word_of((codes).w))

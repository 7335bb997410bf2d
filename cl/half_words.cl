// SPDX-License-Identifier: Apache-2.0
// half_words.cl: the four codes of a 32-bit word at the places of 16-bit floats, by integer operations alone, as few as can be: two codes at
// a time, codes 0 and 2 (even) and codes 1 and 3 (odd). e4m3: the value times 2^-8, exactly, also of a subnormal code. e5m2 is the upper
// byte of such a float. Next door: code_words.cl (codes as f32), narrow_floats.cl (for matrix products), ptx.cl (the same by conversions,
// where a device has them).
// Set by the including file: BITS_BY_LOP3, the bits of two words become one by NVIDIA's instruction, where its compiler takes two.

// Of e4m3 codes that are no NaN.
static inline uint even_halfs_e4m3(uint word) { return ((word << 8) & 0x80008000u) | ((word << 7) & 0x3f803f80u); }
static inline uint odd_halfs_e4m3(uint word) { return (word & 0x80008000u) | ((word >> 1) & 0x3f803f80u); }

/// Magnitudes of e4m3 codes; the highest bit of a NaN's byte is set: 127 + 1 carries into it, and moved with the others it makes the
/// exponent all ones.
static inline uint magnitudes_e4m3(uint word) {
  const uint magnitudes = word & 0x7f7f7f7fu;
#ifdef BITS_BY_LOP3
  uint moved;
  asm("lop3.b32 %0,%1,%2,0x80808080,0xe4;" : "=r"(moved) : "r"(magnitudes + 0x01010101u), "r"(word));
  return moved;
#else
  return magnitudes | ((magnitudes + 0x01010101u) & 0x80808080u);
#endif
}

// HALFS_T(even, odd, word): values of type T, NaN too, in units of HALF_UNIT_T.
#define HALFS_4(even, odd, word)                                            \
  do {                                                                      \
    const uint moved_ = magnitudes_e4m3(word);                              \
    even = (((word) << 8) & 0x80008000u) | ((moved_ << 7) & 0x7f807f80u);   \
    odd = ((word)&0x80008000u) | ((moved_ >> 1) & 0x7f807f80u);             \
  } while (0)
#define HALFS_5(even, odd, word)        \
  do {                                  \
    even = ((word) << 8) & 0xff00ff00u; \
    odd = (word)&0xff00ff00u;           \
  } while (0)
// Of four bits: the codes of the lower half of a word, less than 2^16.
static inline uint codes_apart(uint word) { return word | (word << 8); }
#define HALFS_10(even, odd, word)                                            \
  do {                                                                       \
    const uint apart_ = codes_apart(word);                                   \
    even = ((apart_ << 12) & 0x80008000u) | ((apart_ << 9) & 0x0e000e00u);   \
    odd = ((apart_ << 8) & 0x80008000u) | ((apart_ << 5) & 0x0e000e00u);     \
  } while (0)
#define HALF_UNIT_10 16384.0f
#define HALF_UNIT_4 256.0f
#define HALF_UNIT_5 1.0f
#define HALF_UNIT_7 1.0f

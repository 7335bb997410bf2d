// SPDX-License-Identifier: Apache-2.0
// wide_bytes.cl: vectors of 64 bytes as x86 has them, and the two orders in which codes of a panel become columns of pairs. Shared by the
// kernels on tiles (amx.cl) and on dot products (dot_products.cl), and codes of four bits as pairs of bf16; the compiler must be clang.
// Set by the including file, for those: KIND, B_TYPE.
typedef uchar uchar64 __attribute__((ext_vector_type(64)));

// The bytes of `a` and `b` in turn, within each 16 bytes, as one instruction of the processor does it (VPUNPCKLBW, VPUNPCKHBW): the lower or
// the upper eight of both.
#define BYTES_OF_(l, h) \
  l + h, 64 + l + h, l + h + 1, 65 + l + h, l + h + 2, 66 + l + h, l + h + 3, 67 + l + h, l + h + 4, 68 + l + h, l + h + 5, \
      69 + l + h, l + h + 6, 70 + l + h, l + h + 7, 71 + l + h
#define IN_EACH_LANE_(X, h) X(0, h), X(16, h), X(32, h), X(48, h)
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, IN_EACH_LANE_(BYTES_OF_, 0))
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, IN_EACH_LANE_(BYTES_OF_, 8))

// An index (VPERMB) that brings the codes of 32 columns and two k, one k after the other, into pairs of both: eight of columns 4 * i to
// 4 * i + 3, then eight of columns 16 + 4 * i on, for each of the four 16 bytes, i. Interleaving then gives rows whose columns are in order:
// the first 16, and the others.
#define PAIR_(c) c, 32 + c
#define FOUR_PAIRS_(c) PAIR_(c), PAIR_(c + 1), PAIR_(c + 2), PAIR_(c + 3)
#define PAIRS_OF_K                                                                                                                        \
  {FOUR_PAIRS_(0), FOUR_PAIRS_(16), FOUR_PAIRS_(4), FOUR_PAIRS_(20), FOUR_PAIRS_(8), FOUR_PAIRS_(24), FOUR_PAIRS_(12), FOUR_PAIRS_(28)}

#ifdef KIND
#if KIND == 1 && BITS_OF(B_TYPE) < 8
/// bf16 of the codes, twice: what chooses is the five lowest bits of 16, of which a code is four.
typedef ushort ushort32 __attribute__((ext_vector_type(32)));
typedef ushort32 code_table;

static inline code_table make_code_table(void) {
  ushort halves[32] __attribute__((aligned(64)));
  for (uint i = 0; i < 32; ++i) halves[i] = (ushort)(as_uint(DECODE(B_TYPE)(i & 15u)) >> 16);
  return *(ushort32*)halves;
}

/// Of words of eight codes, one for each column, the pair of the codes 0 and 4 (VPERMW).
static inline __attribute__((always_inline)) uint16 decode_pairs(uint16 words, const code_table* table) {
  uint16 pairs;
  __asm__("vpermw %2, %1, %0" : "=v"(pairs) : "v"(words), "v"(*table));
  return pairs;
}
#endif
#endif

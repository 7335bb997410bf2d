// SPDX-License-Identifier: Apache-2.0
// dot_products.cl: the dot products of bf16 and of bytes that x86 has on vectors of 512 bits (AVX512-BF16, VNNI), and what feeds them. Only
// for devices where a trial gave the right numbers: the compiler takes x86 assembly with such vectors.
// The compiler may take the processor for an older one (PoCL 3.1: a skylake-avx512); its assembler knows the names all the same.
// An element of 32 bits of each operand is multiplied and added to the sum of its lane:
// KIND 1: two bf16, k and k + 1: sum += odd * odd, then sum += even * even, each rounded to nearest even, denormals as zeros (VDPBF16PS).
// KIND 2: four bytes, k to k + 3, unsigned (A + 128) by signed (B), s32 sums, exact (VPDPBUSD).
// Set by the including file: KIND. Set by the host: DOT_PRODUCTS, without which the file is empty.
#ifdef DOT_PRODUCTS
#include "wide_bytes.cl"

#if KIND == 2
#define ELEMENT_BYTES 1
typedef int16 dot_sums;
#define SUMS_AS_FLOATS(sums) convert_float16(sums)
#define EACH_PLUS_128 0x80808080u  // Four codes as s8 and, with their highest bits inverted, as u8: 128 more.
#else
#define ELEMENT_BYTES 2
typedef float16 dot_sums;
#define SUMS_AS_FLOATS(sums) (sums)
#endif
#define K_OF_ROW (4 / ELEMENT_BYTES)  // k of an element of 32 bits.

/// sums + the products of sixteen columns of B and what `a` has in every lane.
static inline __attribute__((always_inline)) dot_sums dot_product(dot_sums sums, uint16 b, uint16 a) {
#if KIND == 2
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(a ^ (uint16)(EACH_PLUS_128)), "v"(b));
#else
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(b), "v"(a));
#endif
  return sums;
}

/// The same with the element at `a` in every lane. Of bf16 the instruction itself reads it: fewer registers are in flight, and the core looks
/// further ahead.
static inline __attribute__((always_inline)) dot_sums dot_product_at(dot_sums sums, uint16 b, __global const uint* a) {
#if KIND == 2
  return dot_product(sums, b, (uint16)(*a));
#else
  __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(b), "m"(*a));
  return sums;
#endif
}

/// Byte index % 128 of `low` and `high` side by side, for each index (VPERMT2B).
static inline __attribute__((always_inline)) uchar64 permute_bytes(uchar64 low, uchar64 high, uchar64 index) {
  __asm__("vpermt2b %2, %1, %0" : "+v"(low) : "v"(index), "v"(high));
  return low;
}

#if KIND == 2
// Two vectors side by side: of four columns from c on the bytes c and 32 + c of the one, then of the other.
#define ONE_BY_ONE_(c) c, 32 + c, 64 + c, 96 + c
#define COLUMNS_(c)                                                                                                                       \
  ONE_BY_ONE_(c), ONE_BY_ONE_(c + 1), ONE_BY_ONE_(c + 2), ONE_BY_ONE_(c + 3), ONE_BY_ONE_(c + 4), ONE_BY_ONE_(c + 5), ONE_BY_ONE_(c + 6), \
      ONE_BY_ONE_(c + 7), ONE_BY_ONE_(c + 8), ONE_BY_ONE_(c + 9), ONE_BY_ONE_(c + 10), ONE_BY_ONE_(c + 11), ONE_BY_ONE_(c + 12),          \
      ONE_BY_ONE_(c + 13), ONE_BY_ONE_(c + 14), ONE_BY_ONE_(c + 15)
#endif

#if KIND == 1 && BITS_OF(B_TYPE) >= 8
/// bf16 of the codes 0 to 127, low and high bytes apart; codes from 128 on are those with the sign.
typedef struct {
  uchar64 low[2], high[2];
  uchar64 pairs;  // The order of codes.
} code_table;

static inline code_table make_code_table(void) {
  uchar low[128] __attribute__((aligned(64))), high[128] __attribute__((aligned(64)));
  const uint16 first = (uint16)(0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u, 13u, 14u, 15u);
  for (int i = 0; i < 128; i += 16) {
    const uint16 bits = as_uint16(JOIN(DECODE_FINITE(B_TYPE), _16)(first + (uint16)((uint)i)));
    *(uchar16*)(low + i) = convert_uchar16((bits >> (uint16)(16)) & (uint16)(0xffu));
    *(uchar16*)(high + i) = convert_uchar16(bits >> (uint16)(24));
  }
  const code_table table = {{((uchar64*)low)[0], ((uchar64*)low)[1]},
                            {((uchar64*)high)[0], ((uchar64*)high)[1]},
                            PAIRS_OF_K};
  return table;
}
#elif KIND == 2
typedef int code_table;
static inline code_table make_code_table(void) { return 0; }
#endif

#if BITS_OF(B_TYPE) >= 8
/// The 32 columns of a panel at K_OF_ROW k: the first 16 and the others.
typedef struct {
  uint16 low, high;
} decoded_row;

// Products keep the ports busy that permutations by an index of three operands need; one of two operands and those in turn go beside them.
static inline __attribute__((always_inline)) decoded_row decode_columns(__global const uchar* codes, const code_table* table) {
#if KIND == 2
  const uchar64 left = *(__global const uchar64*)codes, right = *(__global const uchar64*)(codes + 64);
  const uchar64 at0 = {COLUMNS_(0)}, at1 = {COLUMNS_(16)};
  const uchar64 low = permute_bytes(left, right, at0), high = permute_bytes(left, right, at1);
#else
  uchar64 pairs;
  __asm__("vpermb %2, %1, %0" : "=v"(pairs) : "v"(table->pairs), "m"(*(__global const uchar64*)codes));
  const uchar64 lows = permute_bytes(table->low[0], table->low[1], pairs);
  const uchar64 highs = permute_bytes(table->high[0], table->high[1], pairs) | (pairs & (uchar64)(0x80));
  const uchar64 low = INTERLEAVE_LOW(lows, highs), high = INTERLEAVE_HIGH(lows, highs);
#endif
  const decoded_row row = {__builtin_astype(low, uint16), __builtin_astype(high, uint16)};
  return row;
}

/// The same into a slot. KIND 2: `offsets` grows by 128 times the sum of the four codes of each column, which is what products with A + 128
/// have too much.
static inline __attribute__((always_inline)) void decode_row(__local uint* to, __global const uchar* codes,
                                                             const code_table* table, dot_sums* offsets) {
  const decoded_row row = decode_columns(codes, table);
  ((__local uint16*)to)[0] = row.low;
  ((__local uint16*)to)[1] = row.high;
#if KIND == 2
  offsets[0] = dot_product(offsets[0], row.low, (uint16)(0));
  offsets[1] = dot_product(offsets[1], row.high, (uint16)(0));
#endif
}
#endif
#endif

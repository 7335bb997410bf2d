// SPDX-License-Identifier: Apache-2.0
// dot_products.cl: the dot products of bf16 and of bytes that x86 has on vectors of 512 bits (AVX512-BF16, VNNI), and what feeds them. Only
// for devices where a trial gave the right numbers: the compiler takes x86 assembly with such vectors.
// The compiler may take the processor for an older one (PoCL 3.1: a skylake-avx512); its assembler knows the names all the same.
// An element of 32 bits of each operand is multiplied and added to the sum of its lane:
// KIND 1: two bf16, k and k + 1: sum += odd * odd, then sum += even * even, each rounded to nearest even, denormals as zeros (VDPBF16PS).
// KIND 2: four bytes, k to k + 3, unsigned (A + 128) by signed (B), s32 sums, exact (VPDPBUSD).
// Set by the including file: KIND. Set by the host: DOT_PRODUCTS, without which the file is empty.
#ifdef DOT_PRODUCTS
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

typedef uchar uchar64 __attribute__((ext_vector_type(64)));

/// Byte index % 128 of `low` and `high` side by side, for each index (VPERMI2B).
static inline __attribute__((always_inline)) uchar64 permute_bytes(uchar64 low, uchar64 high, uchar64 index) {
  __asm__("vpermi2b %2, %1, %0" : "+v"(index) : "v"(low), "v"(high));
  return index;
}

// From two vectors of 64 bytes to elements of 32 bits: of column c (of the first or second 16 of a panel of 32) the bytes c and 32 + c of
// the one, then, or in between, of the other.
#define COLUMN_(X, c) X(c), X(c + 1), X(c + 2), X(c + 3)
#define COLUMNS_(X, c) COLUMN_(X, c), COLUMN_(X, c + 4), COLUMN_(X, c + 8), COLUMN_(X, c + 12)
#define LOW_AND_HIGH_(c) c, 64 + c, 32 + c, 96 + c
#define ONE_BY_ONE_(c) c, 32 + c, 64 + c, 96 + c

#if KIND == 1
/// bf16 of the codes 0 to 127, low and high bytes apart; codes from 128 on are those with the sign.
typedef struct {
  uchar64 low[2], high[2];
} code_table;

static inline code_table make_code_table(void) {
  uchar low[128] __attribute__((aligned(64))), high[128] __attribute__((aligned(64)));
  const uint16 first = (uint16)(0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u, 13u, 14u, 15u);
  for (int i = 0; i < 128; i += 16) {
    const uint16 bits = as_uint16(JOIN(DECODE_FINITE(B_TYPE), _16)(first + (uint16)((uint)i)));
    *(uchar16*)(low + i) = convert_uchar16((bits >> (uint16)(16)) & (uint16)(0xffu));
    *(uchar16*)(high + i) = convert_uchar16(bits >> (uint16)(24));
  }
  const code_table table = {{((uchar64*)low)[0], ((uchar64*)low)[1]}, {((uchar64*)high)[0], ((uchar64*)high)[1]}};
  return table;
}
#else
typedef int code_table;
static inline code_table make_code_table(void) { return 0; }
#endif

/// The 32 columns of a panel at K_OF_ROW k: the first 16 and the others.
typedef struct {
  uint16 low, high;
} decoded_row;

static inline __attribute__((always_inline)) decoded_row decode_columns(__global const uchar* codes, code_table table) {
  const uchar64 first = *(__global const uchar64*)codes;
#if KIND == 2
  const uchar64 left = first, right = *(__global const uchar64*)(codes + 64);
  const uchar64 at0 = {COLUMNS_(ONE_BY_ONE_, 0)}, at1 = {COLUMNS_(ONE_BY_ONE_, 16)};
#else
  const uchar64 left = permute_bytes(table.low[0], table.low[1], first);
  const uchar64 right = permute_bytes(table.high[0], table.high[1], first) | (first & (uchar64)(0x80));
  const uchar64 at0 = {COLUMNS_(LOW_AND_HIGH_, 0)}, at1 = {COLUMNS_(LOW_AND_HIGH_, 16)};
#endif
  const decoded_row row = {__builtin_astype(permute_bytes(left, right, at0), uint16),
                           __builtin_astype(permute_bytes(left, right, at1), uint16)};
  return row;
}

/// The same into a slot. KIND 2: `offsets` grows by 128 times the sum of the four codes of each column, which is what products with A + 128
/// have too much.
static inline __attribute__((always_inline)) void decode_row(__local uint* to, __global const uchar* codes, code_table table,
                                                             __local dot_sums* offsets) {
  const decoded_row row = decode_columns(codes, table);
  ((__local uint16*)to)[0] = row.low;
  ((__local uint16*)to)[1] = row.high;
#if KIND == 2
  offsets[0] = dot_product(offsets[0], row.low, (uint16)(0));
  offsets[1] = dot_product(offsets[1], row.high, (uint16)(0));
#endif
}
#endif

// SPDX-License-Identifier: Apache-2.0
// chunks.cl: what the kernels with many work-items a work-group read at once (gemm_tiled.cl, gemm_skinny.cl): a chunk, 16 k of one row
// of A or of one column of B. Next door: code_words.cl (a word's four values), split_k.cl (whose k they are).
// A: row major, rows padded with zeros to a multiple of 16; codes or floats, of gemm_tiled f32.
// B: the 16 codes or, of gemm_skinny, floats of column n and k from 16 * c on are at (c * n_pad + n) * 16, counted in elements.
// Set by the host: those of tile.cl and code_words.cl.
#include "code_words.cl"
#include "tile.cl"

#define WORD_A JOIN(TOKENS_, A_TYPE)
#define WORD_B JOIN(WORD_, B_TYPE)
#define UNIT (JOIN(UNIT_OF_, A_TYPE) * JOIN(UNIT_OF_, B_TYPE))

// A chunk as it is loaded, by type: f32, pairs of 16-bit floats, or words of codes. FOUR_A(chunk, q), FOUR_B(chunk): four values, of A from
// k = 4 * q of the chunk on, q a literal; of B the first ones, and NEXT_FOUR(chunk) has those after them first.
#define IS_PAIRS(TYPE) ((TYPE) == TYPE_F16 || (TYPE) == TYPE_BF16)
#define PICK(q, a, b, c, d) ((q) == 0 ? (a) : (q) == 1 ? (b) : (q) == 2 ? (c) : (d))
#define FOUR_FLOATS(chunk, q) PICK(q, (chunk).s0123, (chunk).s4567, (chunk).s89ab, (chunk).scdef)
#define TWO_PAIRS(chunk, q) PICK(q, (chunk).s01, (chunk).s23, (chunk).s45, (chunk).s67)
#define FLOATS_OF_PAIRS(TYPE, pairs) (float4)(JOIN(FLOATS_, TYPE)((pairs).x), JOIN(FLOATS_, TYPE)((pairs).y))
#if A_TYPE == TYPE_F32
typedef float16 chunk_a;
#define FOUR_A(chunk, q) FOUR_FLOATS(chunk, q)
#define CHUNK_A(at) vload16(0, (__global const float*)a + (at))
#elif IS_PAIRS(A_TYPE)
typedef uint8 chunk_a;
#define FOUR_A(chunk, q) FLOATS_OF_PAIRS(A_TYPE, TWO_PAIRS(chunk, q))
#define CHUNK_A(at) vload8(0, (__global const uint*)((__global const ushort*)a + (at)))
#else
typedef uint4 chunk_a;
#define FOUR_A(chunk, q) WORD_A(PICK(q, (chunk).x, (chunk).y, (chunk).z, (chunk).w))
#define CHUNK_A(at) (*(__global const uint4*)(a + (at)))
#endif
#if B_TYPE == TYPE_F32
typedef float16 chunk_b;
#define FOUR_B(chunk) (chunk).s0123
#define NEXT_FOUR(chunk) (chunk).s456789abcdef0123
#elif IS_PAIRS(B_TYPE)
typedef uint8 chunk_b;
#define FOUR_B(chunk) FLOATS_OF_PAIRS(B_TYPE, (chunk).s01)
#define NEXT_FOUR(chunk) (chunk).s23456701
#elif BITS_OF(B_TYPE) == 4
typedef uint2 chunk_b;
#define FOUR_B(chunk) WORD_B((chunk).x & 0xffffu)
#define NEXT_FOUR(chunk) (((chunk) >> 16) | (chunk).yx << 16)
#else
typedef uint4 chunk_b;
#define FOUR_B(chunk) WORD_B((chunk).x)
#define NEXT_FOUR(chunk) (chunk).yzwx
#endif

// SPDX-License-Identifier: Apache-2.0
// chunks.cl: what the kernels with many work-items a work-group read at once (gemm_tiled.cl, gemm_skinny.cl): a chunk, 16 k of one row
// of A or of one column of B, four words of codes. Next door: code_words.cl (a word's four values), split_k.cl (whose k they are).
// A: row major, rows padded with zeros to a multiple of 16; codes, or f32 where A_TYPE is 1.
// B: the 16 codes of column n and k from 16 * c on are at (c * n_pad + n) * 16, counted in codes.
// Set by the host: those of tile.cl and code_words.cl.
#include "code_words.cl"
#include "tile.cl"

#define WORD_A JOIN(TOKENS_, A_TYPE)
#define WORD_B JOIN(WORD_, B_TYPE)
#define UNIT (JOIN(UNIT_OF_, A_TYPE) * JOIN(UNIT_OF_, B_TYPE))

// FOUR_A(chunk, q): four values of A, from k = 4 * q of the chunk on; q is a literal.
#if A_TYPE == TYPE_F32
typedef float16 chunk_a;
#define FOUR_A(chunk, q) ((q) == 0 ? chunk.s0123 : (q) == 1 ? chunk.s4567 : (q) == 2 ? chunk.s89ab : chunk.scdef)
#else
typedef uint4 chunk_a;
#define FOUR_A(chunk, q) WORD_A((q) == 0 ? chunk.x : (q) == 1 ? chunk.y : (q) == 2 ? chunk.z : chunk.w)
#endif

// FOUR_B(chunk): its first four weights; NEXT_FOUR(chunk): the chunk that begins with those after them.
#if BITS_OF(B_TYPE) == 4
typedef uint2 chunk_b;
#define FOUR_B(chunk) WORD_B((chunk).x & 0xffffu)
#define NEXT_FOUR(chunk) (((chunk) >> 16) | (chunk).yx << 16)
#else
typedef uint4 chunk_b;
#define FOUR_B(chunk) WORD_B((chunk).x)
#define NEXT_FOUR(chunk) (chunk).yzwx
#endif

// SPDX-License-Identifier: Apache-2.0
// mma_by_hand.cl: what gemm_mma_stream.cl and gemm_mma_tiled.cl take from ptx.cl, in plain OpenCL C: loads, words that change hands in a
// warp, and the product of a warp. Work-items show one another their words in local memory. That is what tests run on devices without such instructions, so
// that fragments, decoding and scales are seen right anywhere; no plan takes it.
// All warps of a work-group do the same here, because barriers stand in between: a warp that is out of K blocks multiplies the last one
// again and adds nothing.
// Set by the including file: WARPS.
// Source of fragments: the PTX manual on mma.m16n8k16 with f16 operands.
#include "fp8.cl"
#include "half_words.cl"

#define UNROLL
#define LOAD16(r, p) vstore4(vload4(0, (__global const uint*)(p)), 0, r)
#define LOAD8(r, p) vstore2(vload2(0, (__global const uint*)(p)), 0, r)
#define LOAD16_STREAM(r, p) LOAD16(r, p)
#define LOAD16_STREAM_IN_ORDER(r, p) LOAD16(r, p)
#define LOAD4(a, p) a = *(__global const uint*)(p)
#define LOAD2(a, p) a = *(__global const ushort*)(p)
#define LOAD_F(a, p) a = *(p)

// Local memory that a device's instructions fill and read behind the compiler's back.
#define LOCAL_PLACE __local uchar*
#define LOCAL16(r, p) vstore4(vload4(0, (__local const uint*)(p)), 0, r)
#define SYNC_WARP() barrier(CLK_LOCAL_MEM_FENCE)
#define LOCAL_ADDRESS(p) (p)
#define COPY16_ASYNC(dst, src) vstore4(vload4(0, (__global const uint*)(src)), 0, (__local uint*)(dst))
#define COPIES_COMMIT()
#define COPIES_WAIT(n)
#define LOCAL_WORD_(FROM, place) (*(__local const uint*)((FROM) + (place) + 4 * (lane & 3)))
#define LOAD_CODES(r, FROM, PIECE) \
  for (uint of_eight_ = 0; of_eight_ < 4; ++of_eight_) \
    (r)[of_eight_] = LOCAL_WORD_(FROM, PLACE(8 * of_eight_ + (lane >> 2), (uint)(PIECE)))
#define LOAD_HALFS(r0, r1, r2, r3, FROM, PIECE)                          \
  do {                                                                   \
    r0 = LOCAL_WORD_(FROM, HALFS_PLACE(lane >> 2, (uint)(PIECE)));             \
    r1 = LOCAL_WORD_(FROM, HALFS_PLACE(8 + (lane >> 2), (uint)(PIECE)));       \
    r2 = LOCAL_WORD_(FROM, HALFS_PLACE(lane >> 2, (uint)(PIECE) + 1));         \
    r3 = LOCAL_WORD_(FROM, HALFS_PLACE(8 + (lane >> 2), (uint)(PIECE) + 1));   \
  } while (0)
#define STORE_LOCAL16(p, a, b, c, d) vstore4((uint4)(a, b, c, d), 0, (__local uint*)(p))
#define LOAD16_IN_ORDER(r, p) LOAD16(r, p)
#define STORE_F4(p, a, b, c, d) vstore4((float4)(a, b, c, d), 0, p)
#define STORE8(p, a, b) vstore2((uint2)(a, b), 0, (__global uint*)(p))
#if D_TYPE == TYPE_BF16
#define TO_PAIR(d, lo, hi) d = encode_bf16(lo) | (uint)encode_bf16(hi) << 16
#else
#define TO_PAIR(d, lo, hi) d = encode_f16(lo) | (uint)encode_f16(hi) << 16
#endif

#define DECODE4_4(even, odd, v) HALFS_4(even, odd, v)
#define DECODE4_5(even, odd, v) HALFS_5(even, odd, v)
#define HALF_OF_I8(v, i) encode_f16(decode_i8(((v) >> (8 * (i))) & 0xffu))
#define DECODE4_7(lo, hi, v)                          \
  do {                                                \
    lo = HALF_OF_I8(v, 0) | HALF_OF_I8(v, 1) << 16;   \
    hi = HALF_OF_I8(v, 2) | HALF_OF_I8(v, 3) << 16;   \
  } while (0)
#define SUM_OF_UNITS(sum) ((sum) * (JOIN(HALF_UNIT_, A_TYPE) * JOIN(HALF_UNIT_, B_TYPE)))

// Words of the work-group's work-items, the six of a product one after another.
#define SHOWN_ITEMS (32 * WARPS)
#define SHOWN_PARAMETER , __local uint* shown
#define SHOWN_ARGUMENT , shown
#define WARP_SCRATCH __local uint shown[6 * SHOWN_ITEMS];
#define SHOWN_FROM(out, in, lane_)                                                      \
  do {                                                                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                                       \
    shown[get_local_id(0)] = (in);                                                      \
    barrier(CLK_LOCAL_MEM_FENCE);                                                       \
    out = shown[((uint)get_local_id(0) & ~31u) + (lane_)];                              \
  } while (0)
#define SHUFFLE(out, in, lane_) SHOWN_FROM(out, in, lane_)
#define SHUFFLE_XOR(out, in, mask) SHOWN_FROM(out, in, ((uint)get_local_id(0) & 31u) ^ (uint)(mask))

#if MMA_OF_BF16
#define HALF_VALUE decode_bf16
#else
#define HALF_VALUE decode_f16
#endif
static inline float two_products(uint a, uint b, float sum) {
  sum = MUL_ADD(HALF_VALUE(a & 0xffffu), HALF_VALUE(b & 0xffffu), sum);
  return MUL_ADD(HALF_VALUE(a >> 16), HALF_VALUE(b >> 16), sum);
}
static inline uint product_of_bf16(uint x, uint y) { return encode_bf16(decode_bf16(x) * decode_bf16(y)); }
#define MUL_PAIRS(out, x, y) out = product_of_bf16((x) & 0xffffu, (y) & 0xffffu) | product_of_bf16((x) >> 16, (y) >> 16) << 16

/// Sum e of a work-item is of row g + 8 (e / 2) and column 2 t + e % 2, its number in the warp being 4 g + t. Work-item 4 g + t has of A k
/// 2 t and 2 t + 1 of row g, then of row g + 8, then the same of k + 8; of B k 2 t and 2 t + 1 of column g, then those of k + 8.
static inline void multiply_by_hand(float* sums, __local const uint* of_warp, uint lane) {
  for (uint e = 0; e < 4; ++e) {
    float sum = sums[e];
    for (uint q = 0; q < 4; ++q) {
      __local const uint* a = of_warp + e / 2 * SHOWN_ITEMS + (lane & ~3u) + q;
      __local const uint* b = of_warp + 4 * SHOWN_ITEMS + 4 * (2 * (lane & 3u) + e % 2) + q;
      sum = two_products(a[0], b[0], sum);
      sum = two_products(a[2 * SHOWN_ITEMS], b[SHOWN_ITEMS], sum);
    }
    sums[e] = sum;
  }
}
#define MMA_M16N8K16(c, a0, a1, a2, a3, b0, b1)                                                         \
  do {                                                                                                      \
    const uint words_[6] = {a0, a1, a2, a3, b0, b1};                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                           \
    for (uint w_ = 0; w_ < 6; ++w_) shown[w_ * SHOWN_ITEMS + get_local_id(0)] = words_[w_];                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                           \
    multiply_by_hand(c, shown + ((uint)get_local_id(0) & ~31u), (uint)get_local_id(0) & 31u);               \
  } while (0)

// What differs between warps (gemm_mma_stream.cl says what these are where warps need not be together).
#define COUNT_OF_WARP(blocks, warp) (((blocks) + WARPS - 1) / WARPS)
#define BLOCK_OF_WARP(block) min((uint)(block), blocks - 1)
#define IF_OF_WARP(condition)
#define ADD_OF_WARP(there, scale, part, sum) ((there) ? fma(scale, part, sum) : (sum))
#define WORD_OF_WARP(there, word) ((there) ? (word) : 0u)

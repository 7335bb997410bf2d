// SPDX-License-Identifier: Apache-2.0
// ring.cl: what kernels share whose weights come by bulk copies into a ring of each warp's own (gemm_mma_ring.cl, fused_products.cl): sizes,
// the copy, and what a warp does with a K block. A unit is COLUMNS columns of D; warps take its K blocks in turn, and add their sums up in order.
// Sixteen columns are the first operand of mma.sync, eight rows the second; both are decoded to f16, exactly, and summed in f32.
// Set by the including file, which includes tile.cl and ptx.cl before: TILE_M, COLUMNS, WARPS.
#define T ((TILE_M + 7) / 8)   // Tiles of eight rows.
#define NG (COLUMNS / 8)       // Groups of eight columns: eight lines of B's form, a KiB of a K block.
#define WEIGHTS (NG * 1024u)   // Bytes of a K block of weights, and of codes of A.
#define CODES (TILE_M * 128u)
#define BUFFERS (TILE_M <= 8 ? 2 : 1)  // For the warps' sums: with one, warps wait until they are added up.
#define DECODE_A4 JOIN(DECODE4_, A_TYPE)
#define DECODE_B4 JOIN(DECODE4_, B_TYPE)

// Where a K block of a unit lies in B's form, of `all_blocks` K blocks; and where the scales of a unit are, of `groups_b`.
#define WEIGHTS_IN(b, unit, block, all_blocks) ((b) + (ulong)((unit) * NG / 8) * (all_blocks) * 8192u + (unit) * NG % 8 * 1024u + (block) * 8192ul)
#define SCALES_IN(sb, unit, groups_b) ((sb) + (ulong)((unit) * NG / 16) * (groups_b) * 128u)
#define SCALE_OF(kb) min((kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)

// Of four tiles that one instruction loads, this lane says where line lane % 8 of tile lane / 8 is, in a slot and in codes.
#define PLACE_OF_LINE(line) ((line) * 128u + (((lane >> 3) ^ (line)) << 4))
#define IN_SLOT PLACE_OF_LINE(lane & 7u)
#define IN_CODES PLACE_OF_LINE(min(lane & 7u, TILE_M - 1u))

#define LOAD_SCALES_OF_A(scale_a, scales, kb, t) \
  UNROLL for (int u = 0; u < T; ++u) LOCAL_F2(scale_a[u][0], scale_a[u][1], (scales) + ((kb) * 8 * T + 8 * u + 2 * (t)) * 4);
#define LOAD_CODES_OF_A(x, at)                                                    \
  UNROLL for (int u = 0; u < T; ++u) {                                            \
    LOAD_TILES_(x[u][0], x[u][1], x[u][2], x[u][3], (at) + u * 1024u);            \
    LOAD_TILES_(x[u][4], x[u][5], x[u][6], x[u][7], ((at) ^ 64u) + u * 1024u);    \
  }
#define LOAD_WEIGHTS(w, at)                                                       \
  UNROLL for (int j = 0; j < NG; ++j) {                                           \
    LOAD_TILES_(w[j][0], w[j][1], w[j][2], w[j][3], (at) + j * 1024u);            \
    LOAD_TILES_(w[j][4], w[j][5], w[j][6], w[j][7], ((at) ^ 64u) + j * 1024u);    \
  }
#define EACH_SUM UNROLL for (int j = 0; j < NG / 2; ++j) UNROLL for (int u = 0; u < T; ++u) UNROLL for (int e = 0; e < 4; ++e)
// Adds a K block's products, times their scales, to `sum`; c: room.
#define MULTIPLY_K_BLOCK(sum, c, x, w, scale_a, scale_b)                                       \
  EACH_SUM c[j][u][e] = 0.f;                                                                   \
  UNROLL for (int p = 0; p < 8; ++p) {                                                         \
    uint lo[T], hi[T];                                                                         \
    UNROLL for (int u = 0; u < T; ++u) DECODE_A4(lo[u], hi[u], x[u][p]);                       \
    UNROLL for (int j = 0; j < NG; j += 2) {                                                   \
      uint a0, a1, a2, a3;                                                                     \
      DECODE_B4(a0, a2, w[j][p]);                                                              \
      DECODE_B4(a1, a3, w[j + 1][p]);                                                          \
      UNROLL for (int u = 0; u < T; ++u) MMA_M16N8K16(c[j / 2][u], a0, a1, a2, a3, lo[u], hi[u]); \
    }                                                                                          \
  }                                                                                            \
  EACH_SUM sum[j][u][e] = fma(scale_a[u][e % 2] * (scale_b), c[j][u][e], sum[j][u][e]);
// A warp's sums into local memory. Columns of a row change places, so that work-items of a warp store to different banks.
#define SUM_AT(row, column) [row][((column) ^ ((row) >> 1 & 3) * 8) & (COLUMNS - 1)]
#define LEAVE_SUMS(parts, sum) \
  EACH_SUM if (TILE_M >= 8 || 2 * t + e % 2 < TILE_M) parts SUM_AT(8 * u + 2 * t + e % 2, 16 * j + 8 * (e / 2) + g) = sum[j][u][e];

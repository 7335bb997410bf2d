// SPDX-License-Identifier: Apache-2.0
// gemm_wgmma_few.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for few rows on the tensor cores of compute capability
// 9.0, codes as they are: wgmma adds in about 14 bits, so sums of 128 k are added, scaled, to f32 registers. Class tensor14.
//
// Weights stream once from memory, and what counts is how many of their bytes are on the way and how soon a work-group can take them. A
// work-group has one tile of D and all of its K: parts of K, added up through global memory, cost more than idle multiprocessors do. A and B
// come by bulk copies into a ring of stages, a K block of both each with its scales, and wgmma reads both there; nothing is asked of the L2
// before. Warpgroups of 64 rows each take K blocks in turn, K_GROUPS of them, so that one waits for its products or adds them up while
// another's run; their sums are added in order at the end.
//
//              columns (TILE_N lines of B)
//              +--------+
//   rows   64  |   D    |  even K blocks are warpgroup 0's, odd ones warpgroup 2's (K_GROUPS 2)
//              +--------+
//          64  |        |  and warpgroup 1's and 3's
//              +--------+
// Two more warps feed, with a work-item each: one sends B, the other A and the scales.
//
// Tunable   default  values       meaning
// TILE_M    64       64 128       rows of D per work-group
// TILE_N    64       32 64        columns of D per work-group
// K_GROUPS  2        1 2 4        warpgroups of the same rows, which take K blocks in turn; divides STAGES
// STAGES    8        4 6 8 10 12  K blocks on their way or in use
// Set by the host: those of tile.cl, PTX_SM_90
// A: codes as forms/forms.h lays them out, with their scales. B: forms/forms.h; a scale of B is for whole blocks of 128 columns.
// Local memory, all of it of arrays of the kernel's own (docs/opencl.md): STAGES * ((TILE_M + TILE_N) * 128 + 528 + 16)
// = 135424 B with the defaults.
// Origin: layouts and barriers as the PTX manual describes wgmma, mbarrier and cp.async.bulk; two-level sums after DeepGEMM.
// What epilogue.cl takes of the work-items that are left at the end.
#define TILE_ROW here.first
#define TILE_END here.end
#define TILE_COLUMN (col * TILE_N)
#define TILE_ITEM tid
#define TILE_ITEMS (128 * ROW_GROUPS)
#define TILE_BARRIER() BAR_NAMED(2, TILE_ITEMS)
#include "tile.cl"

#if STAGES % K_GROUPS != 0
#error "K_GROUPS must divide STAGES: a stage is one group's, which then sees every phase of its barriers"
#endif

#if defined(PTX_SM_90)
#include "ptx.cl"

#define ROW_GROUPS (TILE_M / 64)
#define WORKERS (128 * ROW_GROUPS * K_GROUPS)
#define THREADS (WORKERS + 64)
#define BLOCK_BYTES 8192u  // 64 lines, of rows or columns, by 128 k.
#define A_BYTES (TILE_M * 128u)
#define B_BYTES (TILE_N * 128u)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define SCALE_BYTES (512u + 16u)  // Those of 128 rows; that of the columns, in 16 bytes.
#define SUMS (TILE_N / 2)         // Of a work-item: four columns of two rows in each 16 columns.
#if TILE_N == 32
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N32K32_FP8(FP8_TYPES, P, A, B, KEEP)
#else
#define PRODUCT(P, A, B, KEEP) WGMMA_M64N64K32_FP8(FP8_TYPES, P, A, B, KEEP)
#endif
// The scale group of B that K block kb lies in.
#define SCALE_OF(kb) min((uint)(kb) * 128u / (uint)B_SCALE_COLS, groups_b - 1)
#define NEXT_STAGE(BY) do { stage += (BY); if (stage >= STAGES) { stage -= STAGES; parity ^= 1; } } while (0)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void gemm_wgmma_few(GEMM_ARGS)
{
  __local uchar ring_[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  __local uchar ring_scales[STAGES * SCALE_BYTES] __attribute__((aligned(16)));
  __local ulong bars[2 * STAGES];
  GROUP_MAGNITUDES(TILE_M, TILE_N)
  if (m <= 0) return;
  const uint ring = LOCAL_ADDRESS(ring_), scales = LOCAL_ADDRESS(ring_scales), full = LOCAL_ADDRESS(bars), empty = full + 8 * STAGES;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31;
  const uint blocks = ((uint)k + 127u) / 128u, groups_b = ((uint)k - 1) / B_SCALE_COLS + 1;
  const uint col_tiles = ((uint)n + TILE_N - 1) / TILE_N, row = get_group_id(0) / col_tiles, col = get_group_id(0) % col_tiles;
#ifdef GROUPED
  __global const int *scheduled = schedule_memory + schedule_at;
  if (row >= (uint)scheduled[SCHEDULED_TILES]) return;
  const scheduled_tile here = tile_of(scheduled, (int)row);
#else
  if (row * TILE_M >= (uint)m) return;
  const scheduled_tile here = {0, (int)(row * TILE_M), m};
#endif
  OF_MATRIX(here)
  if (tid == 0) {
    for (uint i = 0; i < STAGES; ++i) {
      BAR_INIT(full + 8 * i, 1u);                // who sends B
      BAR_INIT(empty + 8 * i, 4u * ROW_GROUPS);  // the warps whose K block it is
    }
    BAR_INIT_DONE();
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  if (tid >= WORKERS) {
    if (lane != 0) return;
    const ulong column_bytes = (ulong)k_pad * 64u;  // From a block to that of the next 64 columns, and of the next 64 rows of A.
    // Of A only rows that are there, in eights: the others' products are not stored.
    const uint rows = min((uint)(here.end - here.first), (uint)TILE_M), a_bytes = (rows + 7u) / 8u * 1024u;
    uint stage = 0, parity = 1;                     // the first wait on each empty barrier passes at once
    if (warp == WORKERS / 32) {
      __global const uchar *from = b_here + (ulong)(col * TILE_N / 64u) * column_bytes + col * TILE_N % 64u * 128u;
      _Pragma("unroll 1") for (uint kb = 0; kb < blocks; ++kb, from += BLOCK_BYTES) {
        BAR_WAIT(empty + 8 * stage, parity);
        BAR_ARRIVE_EXPECT(full + 8 * stage, a_bytes + B_BYTES + SCALE_BYTES);
        BULK_COPY(ring + stage * STAGE_BYTES + A_BYTES, from, B_BYTES, full + 8 * stage);
        NEXT_STAGE(1);
      }
    } else {
      __global const uchar *from = a + a_at + (ulong)(row * ROW_GROUPS) * column_bytes;
      __global const uchar *row_scales = (__global const uchar *)(sa + sa_at) + (ulong)(row * TILE_M / 128u) * ((uint)k_pad / 128u) * 512u;
      __global const uchar *column_scales = (__global const uchar *)sb_here + (ulong)(col * TILE_N / 128u) * groups_b * 512u;
      _Pragma("unroll 1") for (uint kb = 0; kb < blocks; ++kb, from += BLOCK_BYTES, row_scales += 512) {
        const uint to = ring + stage * STAGE_BYTES, to_scales = scales + stage * SCALE_BYTES;
        BAR_WAIT(empty + 8 * stage, parity);
        BULK_COPY(to, from, min(a_bytes, BLOCK_BYTES), full + 8 * stage);
        if (a_bytes > BLOCK_BYTES) BULK_COPY(to + BLOCK_BYTES, from + column_bytes, a_bytes - BLOCK_BYTES, full + 8 * stage);
        BULK_COPY(to_scales, row_scales, 512u, full + 8 * stage);
        BULK_COPY(to_scales + 512u, column_scales + SCALE_OF(kb) * 512u, 16u, full + 8 * stage);
        NEXT_STAGE(1);
      }
    }
    return;
  }

  const uint row_group = (warp >> 2) % ROW_GROUPS, k_group = (warp >> 2) / ROW_GROUPS;
  // Of 64 rows every other tile has the second half of a block of scales.
  const uint my_scales = scales + (row * ROW_GROUPS % 2u + row_group) * 256u + (warp & 3) * 64u + (lane >> 2) * 8u;
  const ulong descriptor = DESCRIPTOR | (ulong)(ring >> 4), of_rows = row_group * (BLOCK_BYTES >> 4), of_columns = A_BYTES >> 4;
  uint stage = k_group, parity = 0;
  float p[SUMS], sum[SUMS];
  UNROLL for (int i = 0; i < SUMS; ++i) p[i] = sum[i] = 0.f;
  _Pragma("unroll 1") for (uint kb = k_group; kb < blocks; kb += K_GROUPS) {
    float s0, s1, scale_b[2];  // With ACTIVATION those of gates and of ups, which are every second column.
    BAR_WAIT(full + 8 * stage, parity);
    LOCAL_F2(s0, s1, my_scales + stage * SCALE_BYTES);
    LOCAL_F2(scale_b[0], scale_b[1], scales + 512u + stage * SCALE_BYTES);
    const ulong here_ = descriptor + stage * (STAGE_BYTES >> 4), a_ = here_ + of_rows, b_ = here_ + of_columns;
    WGMMA_FENCE();
    PRODUCT(p, a_, b_, 0);
    PRODUCT(p, a_ + 2, b_ + 2, 1);
    PRODUCT(p, a_ + 4, b_ + 4, 1);
    PRODUCT(p, a_ + 6, b_ + 6, 1);
    WGMMA_COMMIT();
    WGMMA_WAIT(0);
    if (lane == 0) BAR_ARRIVE(empty + 8 * stage);
    NEXT_STAGE(K_GROUPS);
    const float x0 = s0 * scale_b[0], x1 = s0 * scale_b[BLOCK_STEP - 1], y0 = s1 * scale_b[0], y1 = s1 * scale_b[BLOCK_STEP - 1];
    // Volatile, as the wait before it is: the compiler does not know what the wait is for.
    UNROLL for (int j = 0; j < SUMS; j += 4)
      asm volatile("fma.rn.f32 %0,%8,%4,%0; fma.rn.f32 %1,%9,%5,%1; fma.rn.f32 %2,%10,%6,%2; fma.rn.f32 %3,%11,%7,%3;"
                   : "+f"(sum[j]), "+f"(sum[j + 1]), "+f"(sum[j + 2]), "+f"(sum[j + 3])
                   : "f"(p[j]), "f"(p[j + 1]), "f"(p[j + 2]), "f"(p[j + 3]), "f"(x0), "f"(x1), "f"(y0), "f"(y1));
  }
#if K_GROUPS > 1
  // All K blocks are used, so the ring is free: the other groups' sums go there, and the first adds them up in order.
  __local float *others = (__local float *)ring_ + (tid & 127u) + 128u * row_group;
  BAR_NAMED(1, WORKERS);
  if (k_group > 0) {
    UNROLL for (uint i = 0; i < SUMS; ++i) others[((k_group - 1) * SUMS + i) * (128u * ROW_GROUPS)] = sum[i];
  }
  BAR_NAMED(1, WORKERS);
  if (k_group > 0) return;
  UNROLL for (uint g = 0; g < K_GROUPS - 1; ++g) UNROLL for (uint i = 0; i < SUMS; ++i) sum[i] += others[(g * SUMS + i) * (128u * ROW_GROUPS)];
#endif

#if defined(D_SCALE_TYPE) || defined(ACTIVATION)
  EACH_PASS {
    START_PASS
    UNROLL for (int j = 0; j < SUMS; j += 8) UNROLL for (int h = 0; h < 4; h += 2)
      PUT_FOUR_TOTALS(row_group * 64 + (warp & 3) * 16 + (lane >> 2) + 4 * h, (lane & 3) * 4 + 2 * j, sum[j + h], sum[j + h + 1], sum[j + h + 4], sum[j + h + 5]);
  }
#else
  const bool wide = ((d_at | ldd) & 3) == 0;
  const uint first_row = (uint)here.first + row_group * 64 + (warp & 3) * 16 + (lane >> 2), first_column = col * TILE_N + (lane & 3) * 4;
  UNROLL for (uint j = 0; j < SUMS / 8; ++j) {
    const uint column = first_column + 16u * j;
    UNROLL for (uint h = 0; h < 2; ++h) {
      const uint d_row = first_row + 8 * h;
      const float x[4] = {sum[8 * j + 2 * h], sum[8 * j + 2 * h + 1], sum[8 * j + 2 * h + 4], sum[8 * j + 2 * h + 5]};
      if (d_row >= (uint)here.end) continue;
      if (AS_COMPUTED && wide && column + 3 < (uint)n) STORE_FOUR((__global d_element *)d + d_at + (ulong)d_row * ldd + column, x);
      else UNROLL for (uint e = 0; e < 4; ++e) if (column + e < (uint)n) store_d(d, d_at, ldd, bias, bias_here, (int)d_row, (int)(column + e), x[e]);
    }
  }
#endif
}
#else
// The kernel needs what PTX_SM_90 promises; without it this file is empty.
#endif

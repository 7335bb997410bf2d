// SPDX-License-Identifier: Apache-2.0
// gemm_mma_tiled.cl: D[m,n] = sum_g sa[m,g] * sb[n,g] * sum_{k in g} A[m,k] * B[n,k] for many rows, in class f32, by mma.sync with f32
// sums: tensor cores from compute capability 8.0 on. Next door: gemm_mma_stream.cl (few rows), gemm_wgmma_f16.cl (many, on 9.0).
//
//                      | weights |     Codes of TILE_K of k come by cp.async into a ring of STAGES stages in local memory, 16 bytes
//               TILE_K |  codes  |     a work-item and copy. Each warp makes WARP_M rows by 32 columns. ldmatrix gives a work-item
//             +------+ +----+----+     four codes of a line, and codes become f16 in registers, exactly. Which k of an instruction
//             |      | |warp|warp|     they are does not matter to a sum, so long as both operands agree: 16 bytes of a line are the
//      TILE_M | rows | +----+----+     k of one instruction. The next 16 k are loaded and decoded while these are multiplied. The sums
//             |      | |warp|warp|     of a K group are scaled and added to totals in registers. With HALF_ROWS codes of rows become
//             +------+ +----+----+     f16 on their way to local memory, once a work-group, not in each warp that multiplies them:
//                                      for devices that decode by integers.
// In local memory the 16-byte pieces of a line change places by the line's number, so that those that ldmatrix reads together, of eight
// lines, are in different banks. Tiles may be made in parts of K (split_k.cl), where there are few.
//
// Tunable    default  values             meaning
// TILE_M     64       64 128             rows of D per work-group
// TILE_N     128      64 128             columns of D per work-group
// WARP_M     64       32 64              rows of a warp; 32 take half of the registers
// TILE_K     64       32 64              k of a stage; a K group may be shorter
// STAGES     3        2 3 4              stages of the ring
// HALF_ROWS  1        0 1                1: rows are f16 in local memory
// SPLIT_K    1        1 2 3 4 6 8 12 16  parts of k, added by gemm_mma_tiled_reduce
// Set by the host: those of split_k.cl, PTX_SM_80, PTX_SM_89 (ptx.cl), and
// MMA_BY_HAND   not set       mma_by_hand.cl in place of such a device: for tests
// A: rows of codes, padded with zeros to a multiple of 128. B: forms/forms.h.
// Local memory: TILE_K * (STAGES * (TILE_N + (1 - HALF_ROWS) * TILE_M) + HALF_ROWS * 4 * TILE_M) B = 40960 B with the defaults.
// Origin: operand layouts as the PTX manual describes mma.m16n8k16 and ldmatrix; a ring of stages as CUTLASS has it for sm_80.
#ifdef PTX_SM_80
#define BITS_BY_LOP3
#endif
#include "half_words.cl"

#define ROWS_TOGETHER 8
#include "split_k.cl"

#define WARP_N 32
#define WARPS_N (TILE_N / WARP_N)
#define WARPS (TILE_M / WARP_M * WARPS_N)

#if defined(PTX_SM_80)
#undef MMA_BY_HAND
#include "ptx.cl"
#define WARP_SCRATCH
#elif defined(MMA_BY_HAND)
#include "mma_by_hand.cl"
#endif
#if defined(PTX_SM_80) || defined(MMA_BY_HAND)
#define THREADS (32 * WARPS)
#define MT (WARP_M / 16)  // Tiles of 16 rows of a warp.
#define NG (WARP_N / 8)   // Groups of eight columns: eight lines of B's form.
#define UNIFORM (B_SCALE_ROWS % 128 == 0 || B_SCALE_ROWS == 0x7fffffff)
#define DECODE_A4 JOIN(DECODE4_, A_TYPE)
#define DECODE_B4 JOIN(DECODE4_, B_TYPE)

// Pieces are 16 bytes. A step brings a stage; a K block has STEPS of them.
#define PIECES (TILE_K / 16)
#define STEPS (128 / TILE_K)
#define B_AT (HALF_ROWS ? 0 : TILE_M * TILE_K)  // In a stage: weights behind the rows' codes, if those are there.
#define STAGE_BYTES (B_AT + TILE_N * TILE_K)
#define HALFS_BYTES (TILE_M * TILE_K * 2)  // A stage of rows as f16, of which there are two.
// A work-item copies a piece of one line in each LINES_AT_ONCE, a multiple of eight, so that its pieces lie alike.
#define LINES_AT_ONCE (THREADS / PIECES)
#define A_TURNS (TILE_M / LINES_AT_ONCE)
#define B_TURNS (TILE_N / LINES_AT_ONCE)
#if TILE_M % LINES_AT_ONCE != 0 || TILE_N % LINES_AT_ONCE != 0
#error "gemm_mma_tiled: TILE_M and TILE_N must be multiples of the lines that are copied at once"
#endif
// Where a piece of a line lies, from the stage's first line on, of codes and of rows as f16, which have twice as many.
#define PLACE(line, piece) ((line) * (uint)TILE_K + (((piece) ^ (TILE_K == 64 ? (line) >> 1 & 3u : (line) >> 2 & 1u)) << 4))
#define HALFS_PLACE(line, piece) ((line) * (2u * TILE_K) + (((piece) ^ (TILE_K == 64 ? (line) & 7u : (line) >> 1 & 3u)) << 4))

// Step s of K block K into the stage that begins at TO.
#define COPY_STEP(K, s, TO)                                                                                                        \
  do {                                                                                                                             \
    if (!HALF_ROWS) UNROLL for (int i_ = 0; i_ < A_TURNS; ++i_)                                                                    \
      COPY16_ASYNC(ring + ((TO) + to_place + i_ * (LINES_AT_ONCE * TILE_K)), pa[i_] + (K) * 128u + (s) * TILE_K);                  \
    UNROLL for (int i_ = 0; i_ < B_TURNS; ++i_)                                                                                    \
      COPY16_ASYNC(ring + ((TO) + B_AT + to_place + i_ * (LINES_AT_ONCE * TILE_K)),                                                \
                   pb + LINES_AT_ONCE * i_ / 64 * strip + LINES_AT_ONCE * i_ % 64 * 128u + (ulong)(K) * 8192u + (in_line ^ (s) * TILE_K)); \
  } while (0)
// Codes of rows of step s of K block K into registers R; and from there as f16 into the stage that begins at TO. Of 16 codes the first
// halfs of their words are a piece and the second halfs the next one.
#define LOAD_ROWS(R, K, s) UNROLL for (int i_ = 0; i_ < A_TURNS; ++i_) LOAD16_IN_ORDER((R) + 4 * i_, pa[i_] + (K) * 128u + (s) * TILE_K);
#define STORE_ROWS(R, TO)                                                                                                 \
  UNROLL for (int i_ = 0; i_ < A_TURNS; ++i_) {                                                                           \
    uint lo_[4], hi_[4];                                                                                                  \
    UNROLL for (int w_ = 0; w_ < 4; ++w_) DECODE_A4(lo_[w_], hi_[w_], (R)[4 * i_ + w_]);                                  \
    STORE_LOCAL16(halfs + ((TO) + to_halfs + i_ * (LINES_AT_ONCE * 2 * TILE_K)), lo_[0], lo_[1], lo_[2], lo_[3]);         \
    STORE_LOCAL16(halfs + ((TO) + (to_halfs ^ 16u) + i_ * (LINES_AT_ONCE * 2 * TILE_K)), hi_[0], hi_[1], hi_[2], hi_[3]); \
  }

// Operands of the 16 k of piece p, rows (of f16 stage s) into set `set`, weights as codes; and what becomes of codes.
#if HALF_ROWS
#define LOAD_A(set, s, p)                                                                                                \
  UNROLL for (int u_ = 0; u_ < MT; ++u_)                                                                                 \
    LOAD_HALFS(lo[set][2 * u_], lo[set][2 * u_ + 1], hi[set][2 * u_], hi[set][2 * u_ + 1],                               \
               halfs + ((s) * HALFS_BYTES + (warp_row + 16 * u_) * (2 * TILE_K)), 2 * (p));
#define DECODE_A(set)
#else
#define LOAD_A(set, s, p) UNROLL for (int i_ = 0; i_ < 2 * MT; i_ += 4) LOAD_CODES(wa + i_, ring + (stage + (warp_row + 8 * i_) * TILE_K), p);
#define DECODE_A(set) UNROLL for (int i_ = 0; i_ < 2 * MT; ++i_) DECODE_A4(lo[set][i_], hi[set][i_], wa[i_]);
#endif
#define LOAD_B(p) UNROLL for (int i_ = 0; i_ < NG; i_ += 4) LOAD_CODES(wb + i_, ring + (stage + B_AT + (warp_column + 8 * i_) * TILE_K), p);
#define DECODE_B(set) UNROLL for (int i_ = 0; i_ < NG; ++i_) DECODE_B4(b0[set][i_], b1[set][i_], wb[i_]);

// Scales of rows and columns of the K group that k FROM lies in; of padding those of the last group.
#define LOAD_SCALES(FROM)                                                                                           \
  do {                                                                                                              \
    const uint from_ = min((uint)(FROM) / GROUP, ((uint)k - 1u) / GROUP) * GROUP, group_b_ = from_ / (uint)B_SCALE_COLS;    \
    UNROLL for (int u_ = 0; u_ < 2 * MT; ++u_) LOAD_F(x[u_], sa + sa_at + scale_rows[u_] * sa_ld + from_ / A_SCALE_COLS); \
    UNROLL for (int j_ = 0; j_ < SCALES_B; ++j_) LOAD_F(y[j_], pc + IN_SCALES(j_) + (ulong)group_b_ * 128u);        \
  } while (0)
// At which k of a K group: later where more of them would have to be kept.
#define SCALES_FROM (GROUP == 128 ? 0 : GROUP - 16)
#if UNIFORM
#define SCALES_B (OF_D(2) == 1 ? 2 : 1)  // Of gates and of ups, which are every second column.
#define IN_SCALES(i) (i)
#define SCALE_B(j, e) y[(e) % SCALES_B]
#else
#define SCALES_B (2 * NG)
#define IN_SCALES(i) (16 * ((i) / 4) + 2 * ((i) / 2 % 2) + (i) % 2)
#define SCALE_B(j, e) y[2 * (j) + (e)]
#endif

// What leaves of a sum: of parts of k the reduction does the rest.
#if SPLIT_K > 1
#define VALUE_OUT(value, row, column) (value)
#else
#define VALUE_OUT EPILOGUE
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void gemm_mma_tiled(GEMM_ARGS)
{
  __local uchar stages[STAGES * STAGE_BYTES] __attribute__((aligned(128)));
#if HALF_ROWS
  __local uchar half_stages[2 * HALFS_BYTES] __attribute__((aligned(128)));
#endif
  GROUP_MAGNITUDES(TILE_M, TILE_N)
  WARP_SCRATCH
  if (m <= 0) return;
  const uint tid = get_local_id(0), warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
  const uint warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
  const uint all_blocks = (uint)k_pad / 128u, blocks = ((uint)k + 127u) / 128u, groups_b = ((uint)k - 1u) / B_SCALE_COLS + 1u;
  const uint line = tid / PIECES, piece = tid % PIECES, to_place = PLACE(line, piece), in_line = (piece ^ (line & 7)) << 4;
  const ulong strip = (ulong)all_blocks * 8192u; // 64 columns
  const LOCAL_PLACE ring = LOCAL_ADDRESS(stages);
#if HALF_ROWS
  const LOCAL_PLACE halfs = LOCAL_ADDRESS(half_stages);
  const uint to_halfs = HALFS_PLACE(line, 2 * piece);
#endif
  const int columns = (n + TILE_N - 1) / TILE_N;
  EACH_UNIT(columns * SPLIT_K) {
    PART_HERE(TILE_N, columns)
    OF_MATRIX(here)
    const uint first_row = (uint)here.first_row, last_row = (uint)here.end_row - 1u, first_column = (uint)first_n;
    const uint first = (uint)part * blocks / SPLIT_K, end = (uint)(part + 1) * blocks / SPLIT_K; // K blocks
    __global const uchar *pb = b_here + (first_column / 64u + line / 64u) * strip + line % 64u * 128u;
    __global const uchar *pa[A_TURNS];
    UNROLL for (int i = 0; i < A_TURNS; ++i)
      pa[i] = a + a_at + (ulong)ROW_OF_A(min(first_row + line + i * LINES_AT_ONCE, last_row)) * lda + piece * 16u;
    uint scale_rows[2 * MT]; // of this work-item's rows
    UNROLL for (int u = 0; u < 2 * MT; ++u)
      scale_rows[u] = (uint)ROW_OF_A(min(first_row + warp_row + 8 * u + g, last_row)) / A_SCALE_ROWS;
    __global const float *pc = sb_here + (ulong)(first_column / 128u) * groups_b * 128u + (UNIFORM ? 0u : first_column % 128u + warp_column + 4 * t);
#ifdef GROUPED
    barrier(CLK_LOCAL_MEM_FENCE); // the unit before has read its stages
#endif
    UNROLL for (int i = 0; i < STAGES; ++i) {
      if (first + i / STEPS < end) COPY_STEP(first + i / STEPS, i % STEPS, i * STAGE_BYTES);
      COPIES_COMMIT();
    }
#if HALF_ROWS
    uint raw[2][4 * A_TURNS]; // of the two steps that come next
    LOAD_ROWS(raw[0], first, 0)
    LOAD_ROWS(raw[1], first, 1)
    STORE_ROWS(raw[0], 0)
    LOAD_ROWS(raw[0], min(first + 2 / STEPS, end - 1), 2 % STEPS)
#endif
    float sum[NG][MT][4], c[NG][MT][4], x[2 * MT], y[SCALES_B];
    UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < MT; ++u) UNROLL for (int i = 0; i < 4; ++i) sum[j][u][i] = 0.f;
    uint stage = 0; // where the one that is read begins
    uint wa[2 * MT], wb[NG], lo[2][2 * MT], hi[2][2 * MT], b0[2][NG], b1[2][NG]; // operands of this instruction's k and of the next
    COPIES_WAIT(STAGES - 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    LOAD_A(0, 0, 0)
    LOAD_B(0)
    DECODE_A(0)
    DECODE_B(0)
    for (uint kb = first; kb < end; ++kb) {
      UNROLL for (int q = 0; q < 8; ++q) { // 16 k of this K block
        const int s = q / PIECES, p = q % PIECES, next = (q + 1) % 2;
#if HALF_ROWS
        if (p == 0) {
          STORE_ROWS(raw[(s + 1) % 2], (s + 1) % 2 * HALFS_BYTES)
          LOAD_ROWS(raw[(s + 1) % 2], min(kb + (s + 3) / STEPS, end - 1), (s + 3) % STEPS)
        }
#endif
        if (p == PIECES - 1) { // this stage was read; what is loaded from here on is of the next one
          COPIES_WAIT(STAGES - 2);
          barrier(CLK_LOCAL_MEM_FENCE);
          if (kb + (s + STAGES) / STEPS < end) COPY_STEP(kb + (s + STAGES) / STEPS, (s + STAGES) % STEPS, stage);
          COPIES_COMMIT();
          stage = stage + STAGE_BYTES == STAGES * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
        }
        if (q * 16 % GROUP == SCALES_FROM) LOAD_SCALES(kb * 128u + q * 16);
        if (q * 16 % GROUP == 0)
          UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < MT; ++u) UNROLL for (int i = 0; i < 4; ++i) c[j][u][i] = 0.f;
        LOAD_A(next, (q + 1) / PIECES % 2, (q + 1) % PIECES)
        LOAD_B((q + 1) % PIECES)
        UNROLL for (int j = 0; j < NG; ++j) {
          UNROLL for (int u = 0; u < MT; ++u)
            MMA_M16N8K16(c[j][u], lo[q % 2][2 * u], lo[q % 2][2 * u + 1], hi[q % 2][2 * u], hi[q % 2][2 * u + 1], b0[q % 2][j], b1[q % 2][j]);
          if (j == NG / 2) {
            DECODE_A(next)
            DECODE_B(next)
          }
        }
        if ((q * 16 + 16) % GROUP == 0)
          UNROLL for (int j = 0; j < NG; ++j) UNROLL for (int u = 0; u < MT; ++u) UNROLL for (int i = 0; i < 4; ++i)
            sum[j][u][i] = fma(x[2 * u + i / 2] * SCALE_B(j, i % 2), SUM_OF_UNITS(c[j][u][i]), sum[j][u][i]);
      }
    }
    // The sums of two groups of eight lines are four columns side by side.
#if SPLIT_K == 1 && (defined(D_SCALE_TYPE) || defined(ACTIVATION))
#define SUM_OUT(i) sum[j + (i) / 2][u / 2][2 * (u % 2) + (i) % 2]
    EACH_PASS {
      START_PASS
      UNROLL for (int j = 0; j < NG; j += 2) UNROLL for (int u = 0; u < 2 * MT; ++u)
        PUT_FOUR_TOTALS((int)(warp_row + 8 * u + g), (int)(warp_column + 8 * j + 4 * t), SUM_OUT(0), SUM_OUT(1), SUM_OUT(2), SUM_OUT(3));
    }
#else
    UNROLL for (int j = 0; j < NG; j += 2) {
      const uint column = first_column + warp_column + 8 * j + 4 * t;
#if SPLIT_K > 1
      const bool wide = (scratch_at & 3) == 0;
#else
      const bool wide = ((d_at | ldd) & 3) == 0 && column + 3 < (uint)n;
#endif
      float bias_of[4] = {0.f, 0.f, 0.f, 0.f};
#if BIAS_TYPE != 0 && SPLIT_K == 1
      UNROLL for (int i = 0; i < 4; ++i) if (column + i < (uint)n) bias_of[i] = load_element(BIAS_TYPE, bias, bias_here + column + i);
#endif
      UNROLL for (int u = 0; u < 2 * MT; ++u) {
        const uint row = first_row + warp_row + 8 * u + g;
        float v[4];
        UNROLL for (int i = 0; i < 4; ++i) v[i] = VALUE_OUT(sum[j + i / 2][u / 2][2 * (u % 2) + i % 2] + bias_of[i], row, column + i);
#if SPLIT_K > 1
        __global float *to = &PARTIAL(part, scratch_rows, here.first_tile * TILE_M + (int)(row - first_row), column);
        if (row <= last_row && wide) STORE_F4(to, v[0], v[1], v[2], v[3]);
        UNROLL for (int i = 0; i < 4; ++i) if (row <= last_row && !wide) to[i] = v[i];
#else
        const ulong to = d_at + (ulong)row * ldd + column;
        if (row <= last_row && wide) STORE_FOUR((__global d_element *)d + to, v);
        UNROLL for (int i = 0; i < 4; ++i) if (row <= last_row && !wide && column + i < (uint)n) store_element(D_TYPE, d, to + i, v[i]);
#endif
      }
    }
#endif
  }
}

#if SPLIT_K > 1
DEFINE_REDUCE(gemm_mma_tiled_reduce)
#endif
#endif  // Without what PTX_SM_80 promises this file is empty.

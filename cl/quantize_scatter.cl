// SPDX-License-Identifier: Apache-2.0
// quantize_scatter.cl: rows of X that a grouped problem gathers, each quantised once and stored wherever a_index asks for it, in the forms of A
// that gemm_wgmma_few_f16 and gemm_wgmma_few read (forms/forms.h). Codes and scales are those of quantize_wgmma.cl, bit for bit, which does the
// rest: a token of eight experts is a row of X, and eight of the problem.
//
// A work-group has eight rows of X, a warp a K block of them, and looks through the whole index for rows of the problem that are among these. It
// stores them in no order: each row of the problem is one work-group's.
// Set by the host: those of quantizer.cl, PTX_SM_90, GROUPED, SCHEDULES, GATHER; and of quantize_wgmma.cl SCHEDULED_ROWS
// F16  0  0 1  the form has values in f16, not codes
// Local memory: 4740 B + AT_ONCE * 4 B = 21124 B, and that of schedule_rows.cl.
#define LANES 128
#define TABLE __local
#include "code_pairs.cl"
#include "schedule_rows.cl"

#if defined(PTX_SM_90)
#include "ptx.cl"

#define COUNTERS 1024  // Of forms/forms.h.
#define ROWS 8
#define PASSES (ROWS / 2)     // A pass is two rows, one in each half of a warp.
#define BLOCKS (LANES / 32)   // K blocks of a work-group.
#define LINE 144u             // Bytes for the 128 codes of a row's K block: neighbouring blocks lie four banks apart.
#define AT_ONCE 4096          // Rows of the problem that are looked through before those which were found are stored.
#define NOWHERE (~0u / ROWS)
#define LOADS 8               // Of the index that a work-item asks for together.

/// Where row `row` of the problem lies in the form; NOWHERE: no matrix has it.
static inline uint packed_row(__local const int* table, int matrices, int row) {
  __local const int* of = table + 8 * matrix_at(table, matrices, OF_ROW, row);
  const int at = row - of[OF_ROW];
  return at >= 0 && at < of[OF_ROWS] ? (uint)(of[OF_TILE] * SCHEDULED_ROWS + at) : NOWHERE;
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void quantize_scatter(PARAMETERS(QUANTIZE_TOKENS_LIST) SCHEDULES_ARGS GATHER_ARGS) {
  __local uchar lines[ROWS * BLOCKS * LINE] __attribute__((aligned(16)));
  __local float scales_here[ROWS * BLOCKS];
  __local uint found[AT_ONCE];
  __local uint count;
  if (m == 0) return;
  const uint tid = (uint)get_local_id(0), warp = tid >> 5, lane = tid & 31, c = lane & 15, group = (uint)get_group_id(0);
  const uint shares = ((uint)blocks + BLOCKS - 1) / BLOCKS, first_block = group % shares * BLOCKS, first = group / shares * ROWS;
  if (group == 0)
    for (uint i = tid; i < COUNTERS; i += LANES) ((__global uint*)(scales + scales_at))[(int)i - COUNTERS] = 0u;
  // Eight neighbouring elements of row 2 * i + lane / 16 are in raw[i]. Asked for before anything is waited for.
  const uint kb = first_block + warp, col = kb * 128u + 8u * c;
  uint raw[PASSES][WORDS];
  ulong rows[PASSES];
  UNROLL for (uint i = 0; i < PASSES; ++i) rows[i] = x_at + (ulong)min(first + 2u * i + (lane >> 4), (uint)a_rows - 1u) * ldx;
  if (((x_at | ldx) & (PER == 1 ? 3 : 7)) == 0 && kb * 128u + 128u <= (uint)k) UNROLL for (int i = 0; i < PASSES; ++i) LOAD_EIGHT(raw[i], x, rows[i], col);
  else UNROLL for (int i = 0; i < PASSES; ++i) LOAD_EIGHT_ANYWHERE(raw[i], x, rows[i], col, k);
  SCHEDULE(tiles, SCHEDULED_ROWS);
  float scale, reciprocal;  // Of row 2 * (lane % PASSES) + lane / 16.
  SCALES_OF_PASSES(raw, floor_bits, scale, reciprocal);
  UNROLL for (uint i = 0; i < PASSES; ++i) {
    uint lo, hi;
    CODES_OF_PASS(lo, hi, raw, i, scale, reciprocal);
    *(__local uint2*)(lines + ((2u * i + (lane >> 4)) * BLOCKS + warp) * LINE + 8u * c) = (uint2)(lo, hi);
  }
  if (c < PASSES) scales_here[(2u * c + (lane >> 4)) * BLOCKS + warp] = kb * 128u < (uint)k ? scale : 0.0f;

  const int all_rows = tiles == 0 ? 0 : masked ? matrices * m : m;
  _Pragma("unroll 1") for (int from = 0; from < all_rows; from += AT_ONCE) {
    if (tid == 0) count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int end = min(all_rows - from, AT_ONCE) + from;
    _Pragma("unroll 1") for (int at = from + (int)tid; at < end; at += LOADS * LANES) {
      uint row_of_x[LOADS];
      UNROLL for (int i = 0; i < LOADS; ++i) row_of_x[i] = (uint)ROW_OF_A(min(at + i * LANES, end - 1)) - first;
      UNROLL for (int i = 0; i < LOADS; ++i)
        if (row_of_x[i] < ROWS && at + i * LANES < end) found[atomic_inc(&count)] = (uint)(at + i * LANES) * ROWS + row_of_x[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    _Pragma("unroll 1") for (uint i = tid; i < count; i += LANES) found[i] = found[i] % ROWS + ROWS * packed_row(table, matrices, (int)(found[i] / ROWS));
    barrier(CLK_LOCAL_MEM_FENCE);
    // A warp has a row at a time, eight work-items of it a K block.
    const uint block = first_block + lane / 8, piece = lane & 7;
    _Pragma("unroll 1") for (uint i = warp; i < count && block < (uint)blocks; i += LANES / 32) {
      const uint packed = found[i] / ROWS, here = found[i] % ROWS * BLOCKS + lane / 8;
      if (packed == NOWHERE) continue;
      __local const uchar* line = lines + here * LINE;
      const ulong unit = (ulong)(packed >> 6) * (uint)blocks + block;
#if F16
      UNROLL for (uint half_block = 0; half_block < 2; ++half_block) {
        __local const ushort* pairs = (__local const ushort*)(line + 64u * half_block) + piece;  // As pack_wgmma.cl has them.
        uint h0, h1, h2, h3;
        JOIN(DECODE4_, CODE)(h0, h1, (uint)pairs[0] | (uint)pairs[8] << 16);
        JOIN(DECODE4_, CODE)(h2, h3, (uint)pairs[16] | (uint)pairs[24] << 16);
        STORE16(out + out_at + unit * 16384u + half_block * 8192u + (packed & 63) * 128u + ((piece ^ (packed & 7)) << 4), h0, h1, h2, h3);
      }
      if (piece == 0) scales[scales_at + unit * 64u + (packed & 63)] = scales_here[here];
#else
      const uint4 codes = *(__local const uint4*)(line + piece * 16u);
      STORE16(out + out_at + unit * 8192u + (packed & 63) * 128u + ((piece ^ (packed & 7)) << 4), codes.x, codes.y, codes.z, codes.w);
      if (piece == 0)
        scales[scales_at + ((ulong)(packed >> 7) * (uint)blocks + block) * 128u + (packed & 112) + 2u * (packed & 7) + (packed >> 3 & 1)] = scales_here[here];
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#endif

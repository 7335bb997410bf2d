// SPDX-License-Identifier: Apache-2.0
// quantize.cl: codes and scales of X [m, k], bit for bit those of backends/numerics/quantize.h.
// One work-group makes one group of the grid: largest magnitude (as bits: no rounding, NaN found), scale, codes.
//
// Tunable       default  values       meaning
// LANES         1        1 32 64 128  work-items a work-group; 1 works on vectors of 16
// Set by the host: those of quantizer.cl.
// Local memory: LANES * 4 B = 4 B with the defaults.
#include "arguments.cl"
#include "quantizer.cl"

#ifndef LANES
#define LANES 1
#endif

// x: element x_at on, rows ldx apart. q: codes from q_at on, rows ldq apart; the columns k to k_fill of each row become
// zero codes. scales: from s_at on, rows lds apart. amax_floor: the bits of the floor.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
#if defined(MIN_VECTOR_WIDTH)
__attribute__((min_vector_width(512)))
#endif
void quantize(PARAMETERS(QUANTIZE_LIST)) {
  const int first_col = (int)get_group_id(0) * group_cols;
  const int first_row = (int)get_group_id(1) * group_rows;
  if (first_row >= m || first_col >= k) return;
  const int rows = min(group_rows, m - first_row);
  const int cols = min(group_cols, k - first_col);
  const bool last = first_col + cols == k;
#if LANES == 1
  uint16 wide = (uint16)(0u);
  for (int row = 0; row < rows; ++row) {
    const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
    wide = larger_bits(wide, x, at, cols);
  }
  const uint amax = largest_bits(wide);
#else
  __local uint partial[LANES];
  uint amax = 0u;
  const int lane = (int)get_local_id(0);
  for (int row = 0; row < rows; ++row) {
    const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
    for (int col = lane; col < cols; col += LANES) {
      amax = max(amax, as_uint(load_element(SOURCE, x, at + (ulong)col)) & 0x7fffffffu);
    }
  }
  partial[lane] = amax;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    if (lane < half_lanes) partial[lane] = max(partial[lane], partial[lane + half_lanes]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  amax = partial[0];
#endif
  const float scale = scale_of_bits(amax, floor_bits);
  const bool finite = amax < 0x7f800000u;
#ifdef QUICK_QUOTIENTS
  const bool quick = finite && in_reach(scale);
  const float reciprocal = quick ? divide_exactly(1.0f, scale) : 0.0f;
#endif
#if LANES == 1
  scales[s_at + (ulong)get_group_id(1) * lds + (ulong)get_group_id(0)] = scale;
  for (int row = 0; row < rows; ++row) {
    const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
    __global uchar* out = q + q_at + (ulong)(first_row + row) * ldq + (ulong)first_col;
    int col = 0;
#ifdef QUICK_QUOTIENTS
    if (quick) {
      for (; col + 16 <= cols; col += 16) {
        const float16 values = quotient_16(load_floats16(SOURCE, x, at + (ulong)col), scale, reciprocal);
        vstore16(convert_uchar16(ENCODE_16(CODE)(values)), 0, out + col);
      }
    }
#endif
    for (; col < cols; ++col) {
      out[col] = finite ? code_of(load_element(SOURCE, x, at + (ulong)col), scale) : (uchar)NAN_CODE;
    }
    if (last) {
      for (col = cols; col < k_fill - first_col; ++col) out[col] = (uchar)0;
    }
  }
#else
  if (lane == 0) scales[s_at + (ulong)get_group_id(1) * lds + (ulong)get_group_id(0)] = scale;
  for (int row = 0; row < rows; ++row) {
    const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
    __global uchar* out = q + q_at + (ulong)(first_row + row) * ldq + (ulong)first_col;
    int col = lane;
#ifdef QUICK_QUOTIENTS
    if (quick) {
      for (; col < cols; col += LANES) {
        out[col] = (uchar)ENCODE(CODE)(quotient(load_element(SOURCE, x, at + (ulong)col), scale, reciprocal));
      }
    }
#endif
    for (; col < cols; col += LANES) {
      out[col] = finite ? code_of(load_element(SOURCE, x, at + (ulong)col), scale) : (uchar)NAN_CODE;
    }
    if (last) {
      for (int col = cols + lane; col < k_fill - first_col; col += LANES) out[col] = (uchar)0;
    }
  }
#endif
}

// SPDX-License-Identifier: Apache-2.0
// quantize.cl: codes and scales of X [m, k], bit for bit those of backends/numerics/quantize.h.
// One work-group makes one group of the grid: largest magnitude (as bits: no rounding, NaN found), scale, codes.
//
// Tunable       usual    values       meaning
// LANES         1        1 to 64      work-items a work-group; 1 works on vectors of 16, more on four columns each
// Set by the host: those of quantizer.cl, and
// SCALE_TYPE    1     1 6      scales are stored as f32, e8m0
// GIVEN_ROWS, GIVEN_COLS       scales are read, of so many rows and columns each; group_rows and group_cols then only share out the work
// GROUPED                      only the rows that a matrix has (scheduled.cl); group_rows is 1
// Local memory: LANES * 4 B = 4 B as usual.
#include "quantizer.cl"
#include "scheduled.cl"
#include "lanes.cl"

#ifdef GIVEN_ROWS
#define QUOTIENT_OF quotient_by_given
#define IS_QUICK(scale) false
#else
#define QUOTIENT_OF any_quotient
#define IS_QUICK(scale) in_reach(scale)
#endif
#define CODE_HERE(value) (finite ? (uchar)ENCODE(CODE)(QUOTIENT_OF(value, scale)) : (uchar)NAN_CODE)

#ifdef GROUPED
#define EACH_BAND(rows)                                            \
  EACH_TILE(1)                                                     \
  for (int band = TILE_HERE(1).first, end = TILE_HERE(1).end; band < end; ++band)
#else
#define EACH_BAND(rows)                                \
  const int band = (int)get_group_id(1), end = m;      \
  if (band * (rows) >= m) return;
#endif

// x: element x_at on, rows ldx apart. q: codes from q_at on, rows ldq apart; the columns k to k_fill of each row become
// zero codes. scales: from s_at on, rows lds apart. amax_floor: the bits of the floor.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) WIDE_VECTORS
void quantize(PARAMETERS(QUANTIZE_LIST) SCHEDULED_ARGS) {
  const int first_col = (int)get_group_id(0) * group_cols;
#if LANES > 1
  __local uint partial[LANES];
  const int lane = (int)get_local_id(0);
  const bool together = (PLACES(SOURCE, x, x_at, ldx) | (ulong)q | q_at | ldq | (ulong)first_col) % 4 == 0;
#endif
  if (first_col >= k) return;
  const int cols = min(group_cols, k - first_col);
  const bool last = first_col + cols == k;
  EACH_BAND(group_rows) {
    const int first_row = band * group_rows, rows = min(group_rows, end - first_row);
#ifdef GIVEN_ROWS
    const float scale = load_element(SCALE_TYPE, scales, s_at + (ulong)(first_row / GIVEN_ROWS) * lds + (ulong)(first_col / GIVEN_COLS));
    const bool finite = true;
#else
#if LANES == 1
    uint16 wide = (uint16)(0u);
    for (int row = 0; row < rows; ++row) {
      const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
      wide = larger_bits(wide, x, at, cols);
    }
    const uint amax = largest_bits(wide);
#else
    uint4 wide = (uint4)(0u);
    for (int row = 0; row < rows; ++row) {
      const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
      for (int col = 4 * lane; col < cols; col += 4 * LANES)
        wide = max(wide, as_uint4(load_up_to_4(SOURCE, x, at + (ulong)col, cols - col, together)) & (uint4)(0x7fffffffu));
    }
    const uint amax = largest_of_lanes(partial, lane, max(max(wide.x, wide.y), max(wide.z, wide.w)));
#endif
    const float scale = STORED_SCALE(SCALE_TYPE, scale_of_bits(amax, floor_bits));
    const bool finite = amax < 0x7f800000u;
#if LANES > 1
    if (lane == 0)
#endif
      PUT_SCALE(SCALE_TYPE, scales, s_at + (ulong)band * lds + (ulong)get_group_id(0), scale);
#endif
    const bool quick = finite && IS_QUICK(scale);
    const float reciprocal = quick ? divide_exactly(1.0f, scale) : 0.0f;
    for (int row = 0; row < rows; ++row) {
      const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
      __global uchar* out = q + q_at + (ulong)(first_row + row) * ldq + (ulong)first_col;
#if LANES == 1
      int col = 0;
      if (quick) {
        for (; col + 16 <= cols; col += 16) {
          const float16 values = quotient_16(load_floats16(SOURCE, x, at + (ulong)col), scale, reciprocal);
          vstore16(convert_uchar16(ENCODE_16(CODE)(values)), 0, out + col);
        }
      }
      for (; col < cols; ++col) out[col] = CODE_HERE(load_element(SOURCE, x, at + (ulong)col));
      if (last) {
        for (col = cols; col < k_fill - first_col; ++col) out[col] = (uchar)0;
      }
#else
      for (int col = 4 * lane; col < cols; col += 4 * LANES) {
        const float4 v = load_up_to_4(SOURCE, x, at + (ulong)col, cols - col, together);
        if (quick && together && cols - col >= 4) {
          *(__global uchar4*)(out + col) = convert_uchar4(ENCODE_4(CODE)(quotient_4(v, scale, reciprocal)));
        } else {
          const uchar codes[4] = {CODE_HERE(v.x), CODE_HERE(v.y), CODE_HERE(v.z), CODE_HERE(v.w)};
          for (int i = 0; i < min(4, cols - col); ++i) out[col + i] = codes[i];
        }
      }
      if (last) {
        for (int col = cols + lane; col < k_fill - first_col; col += LANES) out[col] = (uchar)0;
      }
#endif
    }
  }
}

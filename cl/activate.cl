// SPDX-License-Identifier: Apache-2.0
// activate.cl: Y = activation(gate, up) in f32, rounded to Y_TYPE, or quantised as quantize.cl quantises the f32 values, bit for bit.
// Only the rows that an expert has are read and written; how many those are is read on the device. A work-group makes a scale group (of
// an unquantised Y: GROUP_COLS columns) of one row after another: the first dimension of the launch counts groups, the second shares out rows.
//
// Tunable     usual    values       meaning
// LANES       1        1 to 64      work-items; 1 works on vectors of 16, more on four columns each
// Set by the host: those of quantizer.cl where CODE is not 0 (SOURCE is not used), and
// CODE        0        0 4 5 7      0: Y is of type Y_TYPE
// X_TYPE      1        1 2 3        gate and up: f32, f16, bf16
// Y_TYPE      1        1 2 3
// ACTIVATION  1        1 2          silu, swiglu_oai
// GROUP_COLS  128                   columns of a scale group
// GROUPED     0        0 1 2        no counts; contiguous; masked
// Local memory: LANES * 12 B = 12 B as usual.
#include "arguments.cl"
#include "fp8.cl"
#include "activation.cl"
#include "lanes.cl"
#if CODE != 0
#include "quantizer.cl"
#endif

#if LANES == 1
#define WIDTH 16
#define FLOATS float16
#define UINTS uint16
#define LOAD_WHOLE load_floats16
#define STORE_WHOLE store_elements16
#define ACTIVATE activate_16
#define OF_EACH(each) vload16(0, each)
#define TO_EACH(values, each) vstore16(values, 0, each)
#define STORE_CODES(to, values) vstore16(convert_uchar16(ENCODE_16(CODE)(quotient_16(values, scale, reciprocal))), 0, to)
#else
#define WIDTH 4
#define FLOATS float4
#define UINTS uint4
#define LOAD_WHOLE load_floats4
#define STORE_WHOLE store_elements4
#define ACTIVATE activate_4
#define OF_EACH(each) vload4(0, each)
#define TO_EACH(values, each) vstore4(values, 0, each)
#define STORE_CODES(to, values) *(__global uchar4*)(to) = convert_uchar4(ENCODE_4(CODE)(quotient_4(values, scale, reciprocal)))
#endif
#define CHUNK (GROUP_COLS < 1024 ? GROUP_COLS : 1024)  // Of a wider group values are made twice.
#define VECTORS ((CHUNK - 1) / (LANES * WIDTH) + 1)    // Of a work-item.
#define COLUMN(i) (((i) * LANES + lane) * WIDTH)       // Of a chunk, where vector i begins.

/// Vectors of values of `count` columns from `gate_at` and `up_at` on; returns the largest magnitude, as bits. One way for every type of Y,
/// so that f32 values and codes agree: whole vectors, filled up with zeros. together: what is whole is one read.
static inline uint make_values(FLOATS* values, int lane, int count, bool together, float limit, __global const uchar* gate, ulong gate_at,
                               __global const uchar* up, ulong up_at) {
  UINTS largest = (UINTS)(0u);
  for (int i = 0; i < VECTORS; ++i) {
    const int col = COLUMN(i);
    if (col >= count) continue;
    FLOATS g, u;
    if (together && col + WIDTH <= count) {
      g = LOAD_WHOLE(X_TYPE, gate, gate_at + (ulong)col);
      u = LOAD_WHOLE(X_TYPE, up, up_at + (ulong)col);
    } else {
      float gates[WIDTH], ups[WIDTH];
      for (int j = 0; j < WIDTH; ++j) {
        gates[j] = col + j < count ? load_element(X_TYPE, gate, gate_at + (ulong)(col + j)) : 0.0f;
        ups[j] = col + j < count ? load_element(X_TYPE, up, up_at + (ulong)(col + j)) : 0.0f;
      }
      g = OF_EACH(gates);
      u = OF_EACH(ups);
    }
    values[i] = ACTIVATE(g, u, limit);
#if LANES == 1
    const UINTS bits = as_uint16(values[i]) & (UINTS)(0x7fffffffu);
#else
    const UINTS bits = as_uint4(values[i]) & (UINTS)(0x7fffffffu);
#endif
    largest = largest > bits ? largest : bits;
  }
#if LANES == 1
  const uint8 w8 = max(largest.lo, largest.hi);
  const uint4 w4 = max(w8.lo, w8.hi);
#else
  const uint4 w4 = largest;
#endif
  return max(max(w4.x, w4.y), max(w4.z, w4.w));
}

#if CODE != 0
#define OUT_TYPE CODE
#else
#define OUT_TYPE Y_TYPE
#endif

// gate, up, y: rows apart by their ld. scales: rows lds apart. counts: rows of each of `matrices`, from counts_at on. Masked: `rows` of each.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) WIDE_VECTORS
void activate(PARAMETERS(ACTIVATE_LIST)) {
  FLOATS values[VECTORS];
  __local long sums[LANES];
  __local uint partial[LANES];
  if (rows == 0) return;
  const int lane = (int)get_local_id(0);
  long all_rows = GROUPED == 2 ? (long)rows * matrices : (long)rows;
#if GROUPED == 1
  long sum = 0, all;
  for (int g = lane; g < matrices; g += LANES) sum += max(counts[counts_at + (ulong)g], 0);
  sum_before(sums, lane, LANES, sum, &all);
  all_rows = min(all, all_rows);
#endif
  const int group = (int)get_group_id(0), first = group * GROUP_COLS, count = min(GROUP_COLS, cols - first);
#if LANES == 1
  const bool together = true;
#else
  const bool together =
      (PLACES(X_TYPE, gate, gate_at, ld_gate) | PLACES(X_TYPE, up, up_at, ld_up) | PLACES(OUT_TYPE, y, y_at, ldy) | (ulong)first) % 4 == 0;
#endif
  for (long row = (long)get_group_id(1); row < all_rows; row += (long)get_num_groups(1)) {
#if GROUPED == 2
    if ((int)(row % rows) >= counts[counts_at + (ulong)(row / rows)]) continue;
#endif
    const ulong gate_from = gate_at + (ulong)row * ld_gate + (ulong)first, up_from = up_at + (ulong)row * ld_up + (ulong)first;
    const ulong to = y_at + (ulong)row * ldy + (ulong)first;
#if CODE == 0
    for (int start = 0; start < count; start += CHUNK) {
      const int part = min(CHUNK, count - start);
      make_values(values, lane, part, together, limit, gate, gate_from + (ulong)start, up, up_from + (ulong)start);
      for (int i = 0; i < VECTORS; ++i) {
        const int col = COLUMN(i);
        const ulong at = to + (ulong)(start + col);
        if (together && col + WIDTH <= part) {
          STORE_WHOLE(Y_TYPE, y, at, values[i]);
        } else if (col < part) {
          float each[WIDTH];
          TO_EACH(values[i], each);
          for (int j = 0; j < min(WIDTH, part - col); ++j) store_element(Y_TYPE, y, at + (ulong)j, each[j]);
        }
      }
    }
#else
    // All chunks for the scale, then all again for the codes; of a single chunk the values are still there. Values are made in one
    // place of the text: with two, PoCL 3.1 was seen to give codes of other memory.
    const int chunks = (count + CHUNK - 1) / CHUNK;
    uint amax = 0u;
    float scale = 0.0f, reciprocal = 0.0f;
    bool finite = true, quick = false;
    for (int step = 0; step < (chunks == 1 ? 1 : 2 * chunks); ++step) {
      const int start = step % chunks * CHUNK, part = min(CHUNK, count - start);
      const uint largest = make_values(values, lane, part, together, limit, gate, gate_from + (ulong)start, up, up_from + (ulong)start);
      amax = max(amax, largest);
      if (step == chunks - 1) {
        amax = largest_of_lanes(partial, lane, amax);
        scale = scale_of_bits(amax, floor_bits);
        finite = amax < 0x7f800000u;
        if (lane == 0) scales[scales_at + (ulong)row * lds + (ulong)group] = scale;
        quick = finite && in_reach(scale);
        if (quick) reciprocal = divide_exactly(1.0f, scale);
      }
      if (chunks > 1 && step < chunks) continue;
      __global uchar* codes = y + to + (ulong)start;
      for (int i = 0; i < VECTORS; ++i) {
        const int col = COLUMN(i);
        if (quick && together && col + WIDTH <= part) {
          STORE_CODES(codes + col, values[i]);
        } else if (col < part) {
          float each[WIDTH];
          TO_EACH(values[i], each);
          for (int j = 0; j < min(WIDTH, part - col); ++j) codes[col + j] = finite ? code_of(each[j], scale) : (uchar)NAN_CODE;
        }
      }
    }
#endif
  }
}

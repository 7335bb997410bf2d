// SPDX-License-Identifier: Apache-2.0
// activate.cl: Y = activation(gate, up) in f32, rounded to Y_TYPE, or quantised as quantize.cl quantises the f32 values, bit for bit.
// Only the rows that an expert has are read and written; how many those are is read on the device. A work-group makes a scale group (of
// an unquantised Y: GROUP_COLS columns) of a row at a time, and takes such units in turn.
//
// Tunable     usual    values       meaning
// LANES       1        1 to 64      work-items; 1 works on vectors of 16
// Set by the host: those of quantizer.cl where CODE is not 0 (SOURCE is not used), and
// CODE        0        0 4 5 7      0: Y is of type Y_TYPE
// X_TYPE      1        1 2 3        gate and up: f32, f16, bf16
// Y_TYPE      1        1 2 3
// ACTIVATION  1        1 2          silu, swiglu_oai
// GROUP_COLS  128                   columns of a scale group
// GROUPED     0        0 1 2        no counts; contiguous; masked
// Local memory: min(GROUP_COLS, 1024) * 4 B + LANES * 12 B = 524 B as usual.
#include "arguments.cl"
#include "fp8.cl"
#include "activation.cl"
#if CODE != 0
#include "quantizer.cl"
#endif

#define CHUNK (GROUP_COLS < 1024 ? GROUP_COLS : 1024)  // Of a wider group values are made twice.
#define IN_VECTORS ((CHUNK + 15) / 16 * 16)

/// values[0 ... count) of the columns from `gate_at` and `up_at` on; returns this work-item's largest magnitude, as bits. One way for
/// every type of Y, so that f32 values and codes agree: whole vectors on one work-item, the last one filled up with zeros.
static inline uint make_values(__local float* values, int lane, int count, float limit, __global const uchar* gate, ulong gate_at,
                               __global const uchar* up, ulong up_at) {
#if LANES == 1
  uint16 wide = (uint16)(0u);
  for (int col = 0; col < count; col += 16) {
    float16 g, u;
    if (col + 16 <= count) {
      g = load_floats16(X_TYPE, gate, gate_at + (ulong)col);
      u = load_floats16(X_TYPE, up, up_at + (ulong)col);
    } else {
      float gates[16], ups[16];
      for (int j = 0; j < 16; ++j) {
        gates[j] = col + j < count ? load_element(X_TYPE, gate, gate_at + (ulong)(col + j)) : 0.0f;
        ups[j] = col + j < count ? load_element(X_TYPE, up, up_at + (ulong)(col + j)) : 0.0f;
      }
      g = vload16(0, gates);
      u = vload16(0, ups);
    }
    const float16 made = activate_16(g, u, limit);
    const uint16 bits = as_uint16(made) & (uint16)(0x7fffffffu);
    wide = wide > bits ? wide : bits;
    *(__local float16*)(values + col) = made;
  }
  const uint8 w8 = max(wide.lo, wide.hi);
  const uint4 w4 = max(w8.lo, w8.hi);
  return max(max(w4.x, w4.y), max(w4.z, w4.w));
#else
  uint amax = 0u;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int col = lane; col < count; col += LANES) {
    values[col] = activate_1(load_element(X_TYPE, gate, gate_at + (ulong)col), load_element(X_TYPE, up, up_at + (ulong)col), limit);
    amax = max(amax, as_uint(values[col]) & 0x7fffffffu);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return amax;
#endif
}

// gate, up, y: rows apart by their ld. scales: rows lds apart. counts: rows of each of `matrices`, from counts_at on. Masked: `rows` of each.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) WIDE_VECTORS
void activate(PARAMETERS(ACTIVATE_LIST)) {
  __local float values[IN_VECTORS] __attribute__((aligned(64)));
  __local long sums[LANES];
  __local uint partial[LANES];
  if (rows == 0) return;
  const int lane = (int)get_local_id(0);
  long all_rows = GROUPED == 2 ? (long)rows * matrices : (long)rows;
#if GROUPED == 1
  long sum = 0;
  for (int g = lane; g < matrices; g += LANES) sum += max(counts[counts_at + (ulong)g], 0);
#if LANES > 1
  sums[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  sum = 0;
  for (int i = 0; i < LANES; ++i) sum += sums[i];
#endif
  all_rows = min(sum, all_rows);
#endif
  const int groups = (int)(((long)cols + GROUP_COLS - 1) / GROUP_COLS);
  for (long unit = (long)get_group_id(0); unit < all_rows * groups; unit += (long)get_num_groups(0)) {
    const long row = unit / groups;
    const int group = (int)(unit % groups), first = group * GROUP_COLS;
#if GROUPED == 2
    const bool here = (int)(row % rows) < counts[counts_at + (ulong)(row / rows)];
    if (!here) {  // The next row may be the next matrix's.
      unit += (long)(groups - 1 - group) / (long)get_num_groups(0) * (long)get_num_groups(0);
      continue;
    }
#endif
    const int count = (int)min((long)GROUP_COLS, (long)cols - first);
    const ulong gate_from = gate_at + (ulong)row * ld_gate + (ulong)first, up_from = up_at + (ulong)row * ld_up + (ulong)first;
    const ulong to = y_at + (ulong)row * ldy + (ulong)first;
#if CODE == 0
    for (int start = 0; start < count; start += CHUNK) {
      const int part = min(CHUNK, count - start);
      make_values(values, lane, part, limit, gate, gate_from + (ulong)start, up, up_from + (ulong)start);
#if LANES == 1
      for (int col = 0; col < part; col += 16) {
        const float16 made = *(__local const float16*)(values + col);
        if (col + 16 <= part) {
          store_elements16(Y_TYPE, y, to + (ulong)(start + col), made);
        } else {
          float each[16];
          vstore16(made, 0, each);
          for (int j = 0; col + j < part; ++j) store_element(Y_TYPE, y, to + (ulong)(start + col + j), each[j]);
        }
      }
#else
      for (int col = lane; col < part; col += LANES) store_element(Y_TYPE, y, to + (ulong)(start + col), values[col]);
#endif
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
      const uint largest = make_values(values, lane, part, limit, gate, gate_from + (ulong)start, up, up_from + (ulong)start);
      amax = max(amax, largest);
      if (step == chunks - 1) {
#if LANES > 1
        partial[lane] = amax;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < LANES; ++i) amax = max(amax, partial[i]);
#endif
        scale = scale_of_bits(amax, floor_bits);
        finite = amax < 0x7f800000u;
        if (lane == 0) scales[scales_at + (ulong)row * lds + (ulong)group] = scale;
        quick = finite && in_reach(scale);
        if (quick) reciprocal = divide_exactly(1.0f, scale);
      }
      if (chunks > 1 && step < chunks) continue;
      __global uchar* codes = y + to + (ulong)start;
#if LANES == 1
      for (int col = 0; col < part; col += 16) {
        const float16 made = *(__local const float16*)(values + col);
        if (quick && col + 16 <= part) {
          vstore16(convert_uchar16(ENCODE_16(CODE)(quotient_16(made, scale, reciprocal))), 0, codes + col);
          continue;
        }
        float each[16];
        vstore16(made, 0, each);
        for (int j = 0; j < min(16, part - col); ++j) codes[col + j] = finite ? code_of(each[j], scale) : (uchar)NAN_CODE;
      }
#else
      int col = lane;
      if (quick) {
        for (; col < part; col += LANES) codes[col] = (uchar)ENCODE(CODE)(quotient(values[col], scale, reciprocal));
      }
      for (; col < part; col += LANES) codes[col] = finite ? code_of(values[col], scale) : (uchar)NAN_CODE;
#endif
    }
#endif
#if LANES > 1
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
  }
}

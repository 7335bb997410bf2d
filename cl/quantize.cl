// SPDX-License-Identifier: Apache-2.0
// quantize.cl: codes and scales of X [m, k], bit for bit those of backends/numerics/quantize.h.
// One work-group makes one group of the grid: largest magnitude (as bits: no rounding, NaN found), scale, codes.
//
// Tunable       default  values       meaning
// LANES         1        1 32 64 128  work-items a work-group; 1 works on vectors of 16
// Set by the host:
// SOURCE        1        1 2 3        type of X: f32, f16, bf16
// CODE          4        4 5 7        type of the codes: e4m3fn, e5m2, i8
// POWER_OF_TWO  0        0 1          scales rounded up to a power of two
// EXACT_DIVIDE  0        0 1          the device's division was seen to round correctly; 0 divides in integers
// Local memory: LANES * 4 B = 4 B with the defaults.
#include "fp8.cl"

#ifndef LANES
#define LANES 1
#endif
#ifndef SOURCE
#define SOURCE 1
#endif
#ifndef CODE
#define CODE 4
#endif
#ifndef POWER_OF_TWO
#define POWER_OF_TWO 0
#endif
#ifndef EXACT_DIVIDE
#define EXACT_DIVIDE 0
#endif

#if CODE == TYPE_E4M3
#define LARGEST 448.0f
#define NAN_CODE 0x7f
#elif CODE == TYPE_E5M2
#define LARGEST 57344.0f
#define NAN_CODE 0x7e
#else
#define LARGEST 127.0f
#define NAN_CODE 0
#endif

// |a| / |b| of finite bits, rounded to nearest even, subnormals included: long division of the significands.
static inline uint divide_bits(uint a, uint b) {
  if (a == 0u) return 0u;
  if (b == 0u) return 0x7f800000u;
  int exponent_a = (int)(a >> 23), exponent_b = (int)(b >> 23);
  uint significand_a = a & 0x7fffffu, significand_b = b & 0x7fffffu;
  if (exponent_a == 0) {
    const int up = (int)clz(significand_a) - 8;
    significand_a <<= up;
    exponent_a = 1 - up;
  } else {
    significand_a |= 0x800000u;
  }
  if (exponent_b == 0) {
    const int up = (int)clz(significand_b) - 8;
    significand_b <<= up;
    exponent_b = 1 - up;
  } else {
    significand_b |= 0x800000u;
  }
  int exponent = exponent_a - exponent_b + 127;
  if (significand_a < significand_b) {
    significand_a <<= 1;
    --exponent;
  }
  if (exponent >= 255) return 0x7f800000u;
  const ulong dividend = (ulong)significand_a << 26;
  ulong quotient = dividend / significand_b;  // In [2^26, 2^27): 24 bits, two more and a sticky one.
  if (quotient * significand_b != dividend) quotient |= 1u;
  uint bits = (uint)quotient;
  if (exponent <= 0) {
    const int down = 1 - exponent;
    const uint lost = down > 27 ? bits : bits & ((1u << down) - 1u);
    bits = (down > 27 ? 0u : bits >> down) | (lost != 0u ? 1u : 0u);
  }
  uint rounded = bits >> 3;
  const uint rest = bits & 7u;
  if (rest > 4u || (rest == 4u && (rounded & 1u) != 0u)) ++rounded;
  return exponent <= 0 ? rounded : rounded + ((uint)(exponent - 1) << 23);
}

static inline float divide_exactly(float x, float scale) {
#if EXACT_DIVIDE
  return x / scale;
#else
  const uint bits = as_uint(x);
  return as_float(divide_bits(bits & 0x7fffffffu, as_uint(scale)) | (bits & 0x80000000u));
#endif
}

static inline float scale_of_bits(uint amax, uint floor_bits) {
  if (amax >= 0x7f800000u) return as_float(F32_NAN_BITS);
  uint scale = as_uint(divide_exactly(as_float(max(amax, floor_bits)), LARGEST));
#if POWER_OF_TWO
  if (scale >= 0x00800000u) {
    scale = (scale + 0x007fffffu) & 0x7f800000u;
  } else if (scale != 0u && (scale & (scale - 1u)) != 0u) {
    scale = 1u << (32 - clz(scale));
  } else if (scale == 0u) {
    scale = 1u;
  }
#endif
  return as_float(scale);
}

static inline uchar code_of(float x, float scale) {
  if (as_uint(scale) == 0u) {
    const uint bits = as_uint(x);  // Zero stays zero; the rest saturates.
    return (uchar)JOIN(ENCODE_, CODE)((bits & 0x7fffffffu) == 0u ? x : as_float((bits & 0x80000000u) | 0x7f800000u));
  }
  return (uchar)JOIN(ENCODE_, CODE)(divide_exactly(x, scale));
}

// x: element x_at on, rows ldx apart. q: codes from q_at on, rows ldq apart; the columns k to k_fill of each row become
// zero codes. scales: from s_at on, rows lds apart. amax_floor: the bits of the floor.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
#if defined(MIN_VECTOR_WIDTH)
__attribute__((min_vector_width(512)))
#endif
void quantize(int m, int k, int k_fill, int group_rows, int group_cols, uint floor_bits, __global const uchar* x,
              ulong x_at, ulong ldx, __global uchar* q, ulong q_at, ulong ldq, __global float* scales, ulong s_at,
              ulong lds) {
  const int first_col = (int)get_group_id(0) * group_cols;
  const int first_row = (int)get_group_id(1) * group_rows;
  if (first_row >= m || first_col >= k) return;
  const int rows = min(group_rows, m - first_row);
  const int cols = min(group_cols, k - first_col);
  const bool last = first_col + cols == k;
  uint amax = 0u;
#if LANES == 1
  uint16 wide = (uint16)(0u);
  for (int row = 0; row < rows; ++row) {
    const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
    int col = 0;
    for (; col + 16 <= cols; col += 16) {
      const uint16 bits = as_uint16(load_floats16(SOURCE, x, at + (ulong)col)) & (uint16)(0x7fffffffu);
      wide = wide > bits ? wide : bits;
    }
    for (; col < cols; ++col) amax = max(amax, as_uint(load_element(SOURCE, x, at + (ulong)col)) & 0x7fffffffu);
  }
  const uint8 w8 = max(wide.lo, wide.hi);
  const uint4 w4 = max(w8.lo, w8.hi);
  amax = max(amax, max(max(w4.x, w4.y), max(w4.z, w4.w)));
#else
  __local uint partial[LANES];
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
#if LANES == 1
  scales[s_at + (ulong)get_group_id(1) * lds + (ulong)get_group_id(0)] = scale;
  for (int row = 0; row < rows; ++row) {
    const ulong at = x_at + (ulong)(first_row + row) * ldx + (ulong)first_col;
    __global uchar* out = q + q_at + (ulong)(first_row + row) * ldq + (ulong)first_col;
    int col = 0;
#if EXACT_DIVIDE
    if (finite && as_uint(scale) != 0u) {
      for (; col + 16 <= cols; col += 16) {
        const float16 quotient = load_floats16(SOURCE, x, at + (ulong)col) / (float16)(scale);
        vstore16(convert_uchar16(JOIN(ENCODE16_, CODE)(quotient)), 0, out + col);
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
    for (int col = lane; col < cols; col += LANES) {
      out[col] = finite ? code_of(load_element(SOURCE, x, at + (ulong)col), scale) : (uchar)NAN_CODE;
    }
    if (last) {
      for (int col = cols + lane; col < k_fill - first_col; col += LANES) out[col] = (uchar)0;
    }
  }
#endif
}

// SPDX-License-Identifier: Apache-2.0
// codes_of_d.cl: D as codes with scales, made by the work-group that has the totals of a whole scale group of a row, bit for bit as quantize.cl
// would make them of a D in f32. Part of epilogue.cl, for kernels that say so (Variant::codes_of_d).
// Set by the host, in place of a D_TYPE that is a float's:
// D_SCALE_TYPE    1 6   f32, e8m0; scales of one row by d_cols columns, a multiple of 32 or past n
// D_POWER_OF_TWO  0 1   scales are rounded up to a power of two
// D_GIVEN         0 1   scales are read, of d_rows rows by d_cols columns; codes then depend on no other element
// and, of quantizer.cl, FMA_DIVIDE and EXACT_DIVIDE.

#ifdef D_SCALE_TYPE
#define D_NAN_CODE NAN_CODE_OF(D_TYPE)
#define D_CODE(quotient) ((uchar)ENCODE(D_TYPE)(quotient))
#define D_SCALE_AT(row, column) (ds_at + (ulong)((row) / d_rows) * lds + (ulong)((column) / d_cols))
#define D_BITS(value) (as_uint(value) & 0x7fffffffu)

static inline float scale_of_d(uint amax, uint floor_bits) {
  return STORED_SCALE(D_SCALE_TYPE, scale_to(amax, floor_bits, LARGEST_OF(D_TYPE), D_POWER_OF_TWO));
}

/// Codes of `count` values side by side under one scale; of a group that is not finite all are NaN.
static inline void put_codes(__global uchar* to, __local const float* from, int count, float scale) {
  int j = 0;
#if !D_GIVEN
  if (D_BITS(scale) >= 0x7f800000u) {
    for (; j < count; ++j) to[j] = (uchar)D_NAN_CODE;
    return;
  }
  if (in_reach(scale)) {
    const float reciprocal = divide_exactly(1.0f, scale);
    for (; j + 16 <= count; j += 16)
      vstore16(convert_uchar16(ENCODE_16(D_TYPE)(quotient_16(vload16(0, from + j), scale, reciprocal))), 0, to + j);
  }
  for (; j < count; ++j) to[j] = D_CODE(any_quotient(from[j], scale));
#else
  for (; j < count; ++j) to[j] = D_CODE(quotient_by_given(from[j], scale));
#endif
}

/// The scale group of a row that ends with the `count` values at `last`, columns `column` on. Before them lie runs of `width` values, each
/// `stride` before the next.
static inline void put_group(__global uchar* d, ulong at, __global uchar* ds, ulong scale_at, __local const float* last, int column, int count,
                             int width, int stride, int d_cols, uint d_floor) {
#if D_GIVEN
  put_codes(d + at + (ulong)column, last, count, load_element(D_SCALE_TYPE, ds, scale_at));
#else
  const int before = column % d_cols / width;
  uint16 wide = (uint16)(0u);
  for (int run = before; run >= 0; --run) {
    __local const float* from = last - run * stride;
    const int here = run == 0 ? count : width;
    int j = 0;
    for (; j + 16 <= here; j += 16) wide = max(wide, as_uint16(vload16(0, from + j)) & (uint16)(0x7fffffffu));
    for (; j < here; ++j) wide.s0 = max(wide.s0, D_BITS(from[j]));
  }
  const float scale = scale_of_d(largest_bits(wide), d_floor);
  PUT_SCALE(D_SCALE_TYPE, ds, scale_at, scale);
  for (int run = before; run >= 0; --run)
    put_codes(d + at + (ulong)(column - run * width), last - run * stride, run == 0 ? count : width, scale);
#endif
}
/// Of work-items that make the codes of a scale group together: `count` values side by side, 1 to 4. In pass 0 notes the bits of the largest,
/// in pass 1 stores codes, and the group's first the scale. Not inline where dividing has a loop: PoCL 3.1 runs one that stands inside a
/// condition for all work-items, and loses vectors on their way into a function.
#if EXACT_DIVIDE
static inline
#else
__attribute__((noinline))
#endif
void put_together(int pass, __local uint* amax, __global uchar* d, ulong at, __global uchar* ds, ulong scale_at, float v0, float v1, float v2,
                  float v3, int count, bool is_first, uint d_floor) {
  const float v[4] = {v0, v1, v2, v3};
  if (pass == 0) {
    atomic_max(amax, max(max(D_BITS(v0), D_BITS(v1)), max(D_BITS(v2), D_BITS(v3))));
    return;
  }
#if D_GIVEN
  const float scale = load_element(D_SCALE_TYPE, ds, scale_at);
#define CODE_UNDER_SCALE(value) D_CODE(quotient_by_given(value, scale))
#else
  const float scale = scale_of_d(*amax, d_floor);
  if (is_first) PUT_SCALE(D_SCALE_TYPE, ds, scale_at, scale);
  const bool quick = in_reach(scale);
  const float reciprocal = quick ? divide_exactly(1.0f, scale) : 0.0f;
#define QUOTIENT_OF_D(value) (quick ? quotient(value, scale, reciprocal) : any_quotient(value, scale))
#define CODE_UNDER_SCALE(value) (D_BITS(scale) >= 0x7f800000u ? (uchar)D_NAN_CODE : D_CODE(QUOTIENT_OF_D(value)))
#endif
  for (int j = 0; j < 4; ++j)
    if (j < count) d[at + (ulong)j] = CODE_UNDER_SCALE(v[j]);
}
// A run past the last column has no totals.
#define ENDS_GROUP(column, width, count) ((count) > 0 && (D_GIVEN || ((column) + (width)) % d_cols == 0 || (column) + (count) >= OF_D(n)))
#endif

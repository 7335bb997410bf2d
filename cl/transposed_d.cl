// SPDX-License-Identifier: Apache-2.0
// transposed_d.cl: of kernels that make D transposed, columns of D by rows (gemm_wgmma_f16, gemm_wgmma_few_f16, fused_products_wgmma): how sums
// of a K block are scaled and added, and how a tile leaves. A work-item of a warp has, of its 16 columns and each eight rows, columns `col` + odd and two
// further, and rows 2 * tl and 2 * tl + 1: four sums. Next door: parts.cl (tiles in parts of K).
#if defined(PTX_SM_90)
#define UNIFORM (B_SCALE_ROWS % 128 == 0 || B_SCALE_ROWS == 0x7fffffff)  // Columns of a tile have one scale in a K block.

// Adds four partial sums, two rows of D by two columns, each times its row's and its column's scale: X and Y are the rows', times the
// columns' if UNIFORM, else sw0 and sw1 are the columns'. One volatile statement, since the compiler else moves the additions to the end of
// a K block and keeps every product's sums until then.
#if UNIFORM
#define ADD_SCALED(S, P, X, Y)                                                                                          \
  asm volatile("fma.rn.f32 %0,%8,%4,%0; fma.rn.f32 %1,%9,%5,%1; fma.rn.f32 %2,%8,%6,%2; fma.rn.f32 %3,%9,%7,%3;"         \
               : "+f"((S)[0]), "+f"((S)[1]), "+f"((S)[2]), "+f"((S)[3])                                                  \
               : "f"((P)[0]), "f"((P)[1]), "f"((P)[2]), "f"((P)[3]), "f"(X), "f"(Y))
#else
#define ADD_SCALED(S, P, X, Y)                                                                                          \
  asm volatile("{.reg .f32 z; mul.rn.f32 z,%8,%10; fma.rn.f32 %0,z,%4,%0; mul.rn.f32 z,%9,%10; fma.rn.f32 %1,z,%5,%1;"    \
               " mul.rn.f32 z,%8,%11; fma.rn.f32 %2,z,%6,%2; mul.rn.f32 z,%9,%11; fma.rn.f32 %3,z,%7,%3;}"               \
               : "+f"((S)[0]), "+f"((S)[1]), "+f"((S)[2]), "+f"((S)[3])                                                  \
               : "f"((P)[0]), "f"((P)[1]), "f"((P)[2]), "f"((P)[3]), "f"(X), "f"(Y), "f"(sw0), "f"(sw1))
#endif

// The values in D of four sums S: rows ROW and ROW + 1 of D's column C, then those of column C + 2.
#define VALUE_0(S, ROW, C) D_VALUE((S)[0], bias0, ROW, C)
#define VALUE_1(S, ROW, C) D_VALUE((S)[1], bias0, (ROW) + 1, C)
#define VALUE_2(S, ROW, C) D_VALUE((S)[2], bias1, ROW, (C) + 2)
#define VALUE_3(S, ROW, C) D_VALUE((S)[3], bias1, (ROW) + 1, (C) + 2)
// A row's four columns: q0_ to q3_, of a row each work-item's own. TO_PARTNER: in lanes, from a line of eight to the next.
#ifndef TO_PARTNER
#define TO_PARTNER 4
#endif
#define EXCHANGE_ROWS()                                                                                                \
  uint o0_ = as_uint(odd ? y0_ : x0_), o1_ = as_uint(odd ? y1_ : x1_), s0_ = as_uint(odd ? x0_ : y0_), s1_ = as_uint(odd ? x1_ : y1_), r0_, r1_;\
  SHUFFLE_XOR(r0_, s0_, TO_PARTNER);                                                                                   \
  SHUFFLE_XOR(r1_, s1_, TO_PARTNER);                                                                                   \
  const uint q0_ = odd ? r0_ : o0_, q1_ = odd ? o0_ : r0_, q2_ = odd ? r1_ : o1_, q3_ = odd ? o1_ : r1_
#ifdef ACTIVATION
// Two gates, each before its up: two columns of D.
#if D_TYPE == TYPE_F32
#define STORE_TWO(TO, X, Y) STORE8(TO, as_uint(X), as_uint(Y))
#else
#define STORE_TWO(TO, X, Y) \
  uint pair_;               \
  TO_PAIR(pair_, X, Y);     \
  *(__global uint *)(TO) = pair_
#endif
#define OUT_ROW()                                                                                                      \
  EXCHANGE_ROWS();                                                                                                     \
  if (row_ < d_end && col < (uint)n) {                                                                                 \
    const int of_d_ = (int)OF_D(col);                                                                                  \
    const bool both_ = col + 2 < (uint)n;                                                                              \
    const float v0_ = D_TOTAL(activated(bias, BIASES_HERE, n, of_d_, as_float(q0_), as_float(q1_)), row_, of_d_);      \
    const float v1_ = both_ ? D_TOTAL(activated(bias, BIASES_HERE, n, of_d_ + 1, as_float(q2_), as_float(q3_)), row_, of_d_ + 1) : 0.0f; \
    __global d_element *to_ = (__global d_element *)d + d_at + (ulong)row_ * ldd + of_d_;                              \
    if (wide) {                                                                                                        \
      STORE_TWO(to_, v0_, v1_);                                                                                        \
    } else {                                                                                                           \
      store_element(D_TYPE, d, d_at + (ulong)row_ * ldd + of_d_, v0_);                                                 \
      if (both_) store_element(D_TYPE, d, d_at + (ulong)row_ * ldd + of_d_ + 1, v1_);                                  \
    }                                                                                                                  \
  }
#elif D_TYPE == TYPE_F32
#define OUT_ROW()                                                                                                      \
  EXCHANGE_ROWS();                                                                                                     \
  if (row_ < d_end) {                                                                                                  \
    __global uint *to_ = (__global uint *)d + d_at + (ulong)row_ * ldd + col;                                          \
    if (wide) STORE16(to_, q0_, q1_, q2_, q3_);                                                                        \
    else {                                                                                                             \
      if (col < (uint)n) to_[0] = q0_;                                                                                 \
      if (col + 1 < (uint)n) to_[1] = q1_;                                                                             \
      if (col + 2 < (uint)n) to_[2] = q2_;                                                                             \
      if (col + 3 < (uint)n) to_[3] = q3_;                                                                             \
    }                                                                                                                  \
  }
#else
#define OUT_ROW()                                                                                                  \
  uint xs_, ys_, other_;                                                                                           \
  TO_PAIR(xs_, x0_, x1_);                                                                                          \
  TO_PAIR(ys_, y0_, y1_);                                                                                          \
  const uint own_ = odd ? ys_ : xs_, sent_ = odd ? xs_ : ys_;                                                      \
  SHUFFLE_XOR(other_, sent_, TO_PARTNER);                                                                          \
  const uint lo_ = odd ? other_ : own_, hi_ = odd ? own_ : other_; /* columns col, col + 2 and col + 1, col + 3 */ \
  const uint q0_ = (lo_ & 0xffffu) | hi_ << 16, q1_ = lo_ >> 16 | (hi_ & 0xffff0000u);                             \
  if (row_ < d_end) {                                                                                              \
    __global ushort *to_ = (__global ushort *)d + d_at + (ulong)row_ * ldd + col;                                  \
    if (wide) STORE8(to_, q0_, q1_);                                                                               \
    else {                                                                                                         \
      if (col < (uint)n) to_[0] = (ushort)q0_;                                                                     \
      if (col + 1 < (uint)n) to_[1] = (ushort)(q0_ >> 16);                                                         \
      if (col + 2 < (uint)n) to_[2] = (ushort)q1_;                                                                 \
      if (col + 3 < (uint)n) to_[3] = (ushort)(q1_ >> 16);                                                         \
    }                                                                                                              \
  }
#endif
#define BIASES_HERE (bias_at + (ulong)here_.matrix * (ulong)n)
// Where a tile lies in D: the rows HERE, columns from the warp's first one, COLUMN, on.
#define PLACE_IN_D(HERE, COLUMN)                                                                \
  const scheduled_tile here_ = HERE;                                                               \
  const uint d_m = (uint)here_.first, d_end = (uint)here_.end, col = (COLUMN) + 4u * (g >> 1); \
  const bool odd = g & 1, wide = ((d_at | ldd) & 3) == 0 && col + 3 < (uint)n;                 \
  const float bias0 = BIAS_OF(col + odd, BIASES_HERE), bias1 = BIAS_OF(col + odd + 2, BIASES_HERE)
// The way out of rows 8 * J to 8 * J + 7 of the tile's 64 rows V: four sums S.
#define OUT(V, J, S)                                                                                    \
  do {                                                                                                  \
    const uint row_ = d_m + (V) * 64 + 8 * (J) + 2 * tl + odd;                                          \
    const uint first_ = d_m + (V) * 64 + 8 * (J) + 2 * tl, column_ = col + odd;                         \
    const float x0_ = VALUE_0(S, first_, column_), x1_ = VALUE_2(S, first_, column_);                   \
    const float y0_ = VALUE_1(S, first_, column_), y1_ = VALUE_3(S, first_, column_);                   \
    OUT_ROW();                                                                                          \
  } while (0)
#ifdef D_SCALE_TYPE
// D in codes: of 64 rows at a time all columns of the tile change hands in the local memory at `lines_of_d`. COLUMNS_HELD of them are made
// by THREADS_HELD work-items; this one's first column is IN_TILE columns from the tile's first.
#define LINE_FLOATS (COLUMNS_HELD + 4)
#include "codes_of_lanes.cl"
#define PUT_FOUR(V, J, S, IN_TILE)                                                                                        \
  do {                                                                                                                    \
    const uint first_ = d_m + (V) * 64 + 8 * (J) + 2 * tl, column_ = col + odd;                                           \
    __local float *to_ = lines_of_d + (8 * (J) + 2 * tl) * LINE_FLOATS + (IN_TILE) + odd;                                 \
    to_[0] = VALUE_0(S, first_, column_);                                                                                 \
    to_[2] = VALUE_2(S, first_, column_);                                                                                 \
    to_[LINE_FLOATS] = VALUE_1(S, first_, column_);                                                                       \
    to_[LINE_FLOATS + 2] = VALUE_3(S, first_, column_);                                                                   \
  } while (0)
#define OUT_IN_CODES(V, SUMS, FIRST_COLUMN)                                                                               \
  if (d_m + (V) * 64 < d_end) {                                                                                           \
    BAR_NAMED(4, THREADS_HELD);                                                                                           \
    UNROLL for (int j_ = 0; j_ < 8; ++j_) PUT_FOUR(V, j_, (SUMS) + 4 * j_, col - (FIRST_COLUMN));                         \
    BAR_NAMED(4, THREADS_HELD);                                                                                           \
    PUT_ROWS_OF_CODES(LOCAL_ADDRESS(lines_of_d), 64u, d_m + (V) * 64, d_end, FIRST_COLUMN, warp, THREADS_HELD / 32u, BIASES_HERE); \
  }
#endif
// The shares MINE, a bit each, of a tile in PARTS_ parts, which lie from FROM on: added up and let out.
#define ADD_SHARES(MINE, PARTS_, FROM)                                                                             \
  do {                                                                                                             \
    const uint shares_ = SHARES_OF(PARTS_);                                                                        \
    _Pragma("unroll 1") for (uint z_ = 0; z_ < shares_; ++z_) {                                                    \
      if (!((MINE) >> z_ & 1)) continue;                                                                           \
      const uint end_ = TILE_M / 8 * (z_ + 1) / shares_;                                                           \
      _Pragma("unroll 1") for (uint q_ = TILE_M / 8 * z_ / shares_; q_ < end_; q_ += 8) {                          \
        float x_[32];                                                                                              \
        ADD_PARTS(x_, 8, FROM, TILE_M * 128u, q_, end_, PARTS_);                                                   \
        UNROLL for (int o_ = 0; o_ < 8; ++o_) if (q_ + o_ < end_) OUT((q_ + o_) >> 3, (q_ + o_) & 7, x_ + 4 * o_); \
      }                                                                                                            \
    }                                                                                                              \
  } while (0)
#endif  // Without what PTX_SM_90 promises this file is empty.

// SPDX-License-Identifier: Apache-2.0
// codes_of_lanes.cl: D as codes with scales, of kernels for tensor cores: rows of values in local memory become codes, a row to eight
// work-items, bit for bit those of codes_of_d.cl. Used by transposed_d.cl and gemm_wgmma_fp8.cl.
// Set by the including file: COLUMNS_HELD, columns of a row that lie there, a multiple of 32; LINE_FLOATS, from one row to the next; and
// HOLDS_D where they are D's, activated already, and FIRST_COLUMN is, too.
// Set by the host: those of codes_of_d.cl, and
// D_SCALE_COLS  128   columns of D that a scale is for
#ifdef D_SCALE_TYPE
#include "code_pairs.cl"

#if defined(ACTIVATION) && !defined(HOLDS_D)
#define HELD_OF_D(columns) OF_D(columns)
#else
#define HELD_OF_D(columns) (columns)
#endif
// A work-item has four totals of each 32 columns.
#define RUNS_HELD (COLUMNS_HELD / 32)
#define RUNS_OF_SCALE (D_GIVEN ? 1 : HELD_OF_D(COLUMNS_HELD) % D_SCALE_COLS != 0 ? RUNS_HELD : D_SCALE_COLS / HELD_OF_D(32))
#define VALUES_OF_RUN HELD_OF_D(4)

// Four codes that the quick quotients do not reach: seldom, so out of code that is unrolled.
#if D_GIVEN
__attribute__((noinline)) uint far_codes(float4 v, float scale)
{
  return (uint)D_CODE(quotient_by_given(v.x, scale)) | (uint)D_CODE(quotient_by_given(v.y, scale)) << 8 |
         (uint)D_CODE(quotient_by_given(v.z, scale)) << 16 | (uint)D_CODE(quotient_by_given(v.w, scale)) << 24;
}
#else
#define far_codes(v, scale) slow_codes(v, scale)
#endif

// Row ROW of D, or nothing where ENDS, of the totals at local address FROM; they begin at column FIRST_COLUMN, and the bias of the matrix at
// BIASES.
#define PUT_ROW_OF_CODES(FROM, ROW, ENDS, FIRST_COLUMN, BIASES)                                                                \
  do {                                                                                                                         \
    const uint mine_ = (lane & 7) * 4;                                                                                         \
    float v_[RUNS_HELD][4];                                                                                                    \
    UNROLL for (int i_ = 0; i_ < RUNS_HELD; ++i_)                                                                              \
      LOCAL_F4(v_[i_][0], v_[i_][1], v_[i_][2], v_[i_][3], (FROM) + (mine_ + 32 * i_) * 4u);                                   \
    UNROLL for (int of_ = 0; of_ < RUNS_HELD; of_ += RUNS_OF_SCALE) {                                                          \
      const int first_ = (int)HELD_OF_D((FIRST_COLUMN) + mine_ + 32 * of_), all_ = (ENDS) ? 0 : (int)OF_D(n);                       \
      uint amax_ = 0, other_;                                                                                                  \
      UNROLL for (int i_ = 0; i_ < RUNS_OF_SCALE; ++i_) {                                                                      \
        ACTIVATE_FOUR(v_[of_ + i_], ROW, first_ + (int)HELD_OF_D(32 * i_), BIASES)                                                  \
        UNROLL for (int e_ = 0; e_ < VALUES_OF_RUN; ++e_)                                                                      \
          if (first_ + (int)HELD_OF_D(32 * i_) + e_ < all_) amax_ = max(amax_, D_BITS(v_[of_ + i_][e_]));                           \
      }                                                                                                                        \
      const ulong scale_at_ = D_SCALE_AT(ROW, first_);                                                                         \
      float scale_ = 1.0f, reciprocal_ = 0.0f;                                                                                 \
      bool quick_ = false;                                                                                                     \
      if (D_GIVEN) {                                                                                                           \
        if (first_ < all_) scale_ = load_element(D_SCALE_TYPE, ds, scale_at_);                                                 \
      } else {                                                                                                                 \
        UNROLL for (int to_ = 1; to_ < 8; to_ *= 2) {                                                                          \
          SHUFFLE_XOR(other_, amax_, to_);                                                                                     \
          amax_ = max(amax_, other_);                                                                                          \
        }                                                                                                                      \
        scale_ = scale_of_d(amax_, d_floor);                                                                                   \
        if (mine_ == 0 && first_ < all_) PUT_SCALE(D_SCALE_TYPE, ds, scale_at_, scale_);                                       \
        quick_ = amax_ < 0x7f800000u && in_reach(scale_);                                                                      \
        if (quick_) reciprocal_ = divide_exactly(1.0f, scale_);                                                                \
      }                                                                                                                        \
      UNROLL for (int i_ = 0; i_ < RUNS_OF_SCALE; ++i_) {                                                                      \
        const float *w_ = v_[of_ + i_];                                                                                        \
        const int at_ = first_ + (int)HELD_OF_D(32 * i_), there_ = all_ - at_;                                                      \
        uint word_;                                                                                                            \
        if (quick_)                                                                                                            \
          word_ = quick_codes((float2)(w_[0], w_[1]), scale_, reciprocal_) | quick_codes((float2)(w_[2], w_[3]), scale_, reciprocal_) << 16; \
        else                                                                                                                   \
          word_ = far_codes((float4)(w_[0], w_[1], w_[2], w_[3]), scale_);                                                     \
        const ulong place_ = d_at + (ulong)(ROW) * ldd + (ulong)at_;                                                           \
        if (there_ >= VALUES_OF_RUN && (place_ & (VALUES_OF_RUN - 1)) == 0)                                                    \
          *(__global codes_of_run *)(d + place_) = (codes_of_run)word_;                                                        \
        else                                                                                                                   \
          UNROLL for (int e_ = 0; e_ < VALUES_OF_RUN; ++e_) if (e_ < there_) d[place_ + e_] = (uchar)(word_ >> 8 * e_);        \
      }                                                                                                                        \
    }                                                                                                                          \
  } while (0)
// Two gates, each before its up, as two values of D.
#if HELD_OF_D(2) == 1
#define codes_of_run ushort
#define ACTIVATE_FOUR(V, ROW, COLUMN, BIASES)                                                                                         \
  (V)[0] = (COLUMN) < (int)OF_D(n) ? D_TOTAL(activated(bias, BIASES, n, COLUMN, (V)[0], (V)[1]), ROW, COLUMN) : 0.0f;                 \
  (V)[1] = (COLUMN) + 1 < (int)OF_D(n) ? D_TOTAL(activated(bias, BIASES, n, (COLUMN) + 1, (V)[2], (V)[3]), ROW, (COLUMN) + 1) : 0.0f; \
  (V)[2] = (V)[3] = 0.0f;
#else
#define codes_of_run uint
#define ACTIVATE_FOUR(V, ROW, COLUMN, BIASES)
#endif
// ROWS rows from local address FROM on, of D's rows FIRST_ROW to END_ROW: four to each of the WARPS warps, of which this is number WARP.
#define PUT_ROWS_OF_CODES(FROM, ROWS, FIRST_ROW, END_ROW, FIRST_COLUMN, WARP, WARPS, BIASES)                                     \
  _Pragma("unroll 1") for (uint r_ = (WARP) * 4u + lane / 8; r_ < (ROWS); r_ += (WARPS) * 4u)                                    \
    PUT_ROW_OF_CODES((FROM) + r_ * (LINE_FLOATS * 4u), (FIRST_ROW) + r_, (FIRST_ROW) + r_ >= (END_ROW), FIRST_COLUMN, BIASES)
#endif

// SPDX-License-Identifier: Apache-2.0
// epilogue.cl: the one way from the total of an element to D, of every kernel that multiplies. Included by tile.cl, next door: ptx.cl and
// mma_by_hand.cl, whose stores STORE_FOUR takes.
//
// EPILOGUE(value, row, column): what becomes element (row, column) of D, of its total with the bias added; f32, before it is rounded to
// D_TYPE. Another one is defined before this file. Kernels store several elements at once, as they are computed, only where there is none.
//
// ACTIVATION, of kernels that say so (Variant::gate_run): columns of totals are runs of GATE_RUN gates and as many ups in turns, n in all, and
// D has half as many columns: activation.cl of both with their biases, ACTIVATION_LIMIT being its limit.
#include "fp8.cl"
#if defined(D_SCALE_TYPE) || defined(QUANTISE)
#include "quantizer.cl"  // For D and for A: the host takes a file in where it is named first.
#endif
#ifndef D_TYPE
#define D_TYPE 1
#endif
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
#ifdef ACTIVATION
#include "activation.cl"
#define ADDS_BIAS 0  // To a value that is activated.
#define OF_D(columns) ((columns) / 2)
#else
#define ADDS_BIAS (BIAS_TYPE != 0)
#define OF_D(columns) (columns)
#endif
#ifndef EPILOGUE
#define EPILOGUE(value, row, column) (value)
#define AS_COMPUTED (!ADDS_BIAS)
#else
#define AS_COMPUTED 0
#endif

// The bias of a column whose matrix has its biases from element `at` on, and a total with it.
#if ADDS_BIAS
#define D_TOTAL(total, row, column) EPILOGUE((total) + load_element(BIAS_TYPE, bias, bias_here + (ulong)(column)), row, column)
#define BIAS_OF(column, at) ((column) < (uint)n ? load_element(BIAS_TYPE, bias, (at) + (column)) : 0.0f)
#define D_VALUE(total, bias_of, row, column) EPILOGUE((total) + (bias_of), row, column)
#else
#define D_TOTAL(total, row, column) EPILOGUE(total, row, column)
#define BIAS_OF(column, at) 0.0f
#ifdef ACTIVATION
#define D_VALUE(total, bias_of, row, column) (total)
#else
#define D_VALUE(total, bias_of, row, column) EPILOGUE(total, row, column)  // The compiler keeps the addition of a zero.
#endif
#endif

/// Element (row, col) of D of its total: (+ bias[col]), the epilogue, rounded once.
static inline void store_d(__global uchar* d, ulong d_at, ulong ldd, __global const uchar* bias, ulong bias_at, int row, int col,
                    float total) {
#if ADDS_BIAS
  total += load_element(BIAS_TYPE, bias, bias_at + (ulong)col);
#endif
  store_element(D_TYPE, d, d_at + (ulong)row * ldd + (ulong)col, EPILOGUE(total, row, col));
}

#ifdef ACTIVATION
/// Biases of gate and up of D's column `col`, of `n` columns of totals.
#if BIAS_TYPE != 0
#define ADD_BIASES(LOAD, gate, up, bias, at, n, col)           \
  gate += LOAD(BIAS_TYPE, bias, (at) + (ulong)(col));           \
  up += LOAD(BIAS_TYPE, bias, (at) + (ulong)((n) / 2 + (col)));
#else
#define ADD_BIASES(LOAD, gate, up, bias, at, n, col)
#endif
/// Element (row, col) of D of the totals of its gate and up.
static inline float activated(__global const uchar* bias, ulong bias_at, int n, int col, float gate, float up) {
  ADD_BIASES(load_element, gate, up, bias, bias_at, n, col)
  return activate_1(gate, up, ACTIVATION_LIMIT);
}
/// Of sixteen columns from col on.
static inline float16 activated_16(__global const uchar* bias, ulong bias_at, int n, int col, float16 gate, float16 up) {
  ADD_BIASES(load_floats16, gate, up, bias, bias_at, n, col)
  return activate_16(gate, up, ACTIVATION_LIMIT);
}
// Of `count` totals, in runs of 16, from column `column` on: half as many values of D, side by side.
#define ACTIVATE_ROW(of_row, column, count)                                                                             \
  for (int run_ = 0; run_ < (count); run_ += 32)                                                                        \
    vstore16(activated_16(bias, bias_here, n, ((column) + run_) / 2, vload16(0, (of_row) + run_), vload16(1, (of_row) + run_)), 0, \
             (of_row) + run_ / 2);
#else
#define ACTIVATE_ROW(of_row, column, count)
#endif

// The same for `count` totals in local memory, from column `column` on, of runs of `width`; those of the row before them lie `stride` before. With
// ACTIVATION columns, count and width are those of totals, multiples of 32.
#ifdef D_SCALE_TYPE
#include "codes_of_d.cl"
#define STORE_ROW(row, column, count, from, width, stride)                                                           \
  {                                                                                                                  \
    __local float* of_row = (from);                                                                                  \
    ACTIVATE_ROW(of_row, column, count)                                                                              \
    if (!AS_COMPUTED)                                                                                                \
      for (int j = 0; j < OF_D(count); ++j) of_row[j] = D_TOTAL(of_row[j], row, OF_D(column) + j);                   \
    if (ENDS_GROUP(OF_D(column), OF_D(width), OF_D(count)))                                                          \
      put_group(d, d_at + (ulong)(row) * ldd, ds, D_SCALE_AT(row, OF_D(column)), of_row, OF_D(column), OF_D(count), OF_D(width), stride, \
                d_cols, d_floor);                                                                                    \
  }
#else
#if AS_COMPUTED
#define STORE_VECTORS(row, column, count)                                                                            \
  for (; j + 16 <= (count); j += 16)                                                                                 \
    store_elements16(D_TYPE, d, d_at + (ulong)(row) * ldd + (ulong)((column) + j), vload16(0, of_row + j));
#else
#define STORE_VECTORS(row, column, count)
#endif
#define STORE_ROW(row, column, count, from, width, stride)                                                           \
  {                                                                                                                  \
    __local float* of_row = (from);                                                                                  \
    int j = 0;                                                                                                       \
    ACTIVATE_ROW(of_row, column, count)                                                                              \
    STORE_VECTORS(row, OF_D(column), OF_D(count))                                                                    \
    for (; j < OF_D(count); ++j) store_d(d, d_at, ldd, bias, bias_here, row, OF_D(column) + j, of_row[j]);           \
  }
#endif

#include "totals_of_tile.cl"

// Four elements of D side by side from `to` on, whose values have been through D_VALUE.
#if D_TYPE == TYPE_F32
#define d_element float
#define STORE_FOUR(to, v) STORE_F4(to, (v)[0], (v)[1], (v)[2], (v)[3])
#else
#define d_element ushort
#define STORE_FOUR(to, v)         \
  do {                            \
    uint lo_, hi_;                \
    TO_PAIR(lo_, (v)[0], (v)[1]); \
    TO_PAIR(hi_, (v)[2], (v)[3]); \
    STORE8(to, lo_, hi_);         \
  } while (0)
#endif

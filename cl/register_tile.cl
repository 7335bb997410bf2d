// SPDX-License-Identifier: Apache-2.0
// register_tile.cl: what the kernels that keep a tile of TILE_M rows of D in registers share (gemm_panel.cl, gemm_stream.cl, gemm_bf16.cl):
// the panel of weights, the unit of its codes, one statement for each row, and a row's way from its totals to D.
// Set by the including file: TILE_M, 1 to 16. Set by the host: those of tile.cl; LAST_ROWS, less than TILE_M, for kernels that ask for it
// (Variant::last_rows): the rows of the last tile of as many as a plan was made for, where it is no whole one.
#define PANEL 32  // Columns of a panel of packed weights: the codes of one k lie side by side.
#include "tile.cl"

// What a sum (a float or a vector of them) is multiplied with to be in units of 1; nothing where packing has put it into A.
#ifdef UNIT_IN_A
#define IN_UNITS_OF_ONE(sum) (sum)
#else
#define IN_UNITS_OF_ONE(sum) ((sum) * WEIGHT_UNIT(B_TYPE))
#endif

// Packed weights as they lie in memory, of which HOLDERS(count) hold `count` (fp8.cl); the K_TOGETHER k of a column that lie together, and so the
// columns of a panel of which one load brings 16. LOAD_WEIGHTS(held, at) loads sixteen columns as `held`, and WEIGHT(held, j) is f32 of
// them for k number j.
typedef HELD(B_TYPE) weight;
#if BITS_OF(B_TYPE) < 8
#define K_TOGETHER 8
#define LOAD_WEIGHTS(held, at) const uint16 held = vload16(0, (__global const uint*)(at))
#define WEIGHT(held, j) values_of_words(held, j)
#else
#define K_TOGETHER 1
#define LOAD_WEIGHTS(held, at) const float16 held = DECODE_WEIGHTS(B_TYPE)(LOAD_HELD(B_TYPE)(at))
#define WEIGHT(held, j) (held)
#endif

// EACH_ROW(X) is X(0) ... X(TILE_M - 1), so that every row's sums are variables that stay in registers.
#define ROWS_1(X) X(0)
#define ROWS_2(X) ROWS_1(X) X(1)
#define ROWS_3(X) ROWS_2(X) X(2)
#define ROWS_4(X) ROWS_3(X) X(3)
#define ROWS_5(X) ROWS_4(X) X(4)
#define ROWS_6(X) ROWS_5(X) X(5)
#define ROWS_7(X) ROWS_6(X) X(6)
#define ROWS_8(X) ROWS_7(X) X(7)
#define ROWS_9(X) ROWS_8(X) X(8)
#define ROWS_10(X) ROWS_9(X) X(9)
#define ROWS_11(X) ROWS_10(X) X(10)
#define ROWS_12(X) ROWS_11(X) X(11)
#define ROWS_13(X) ROWS_12(X) X(12)
#define ROWS_14(X) ROWS_13(X) X(13)
#define ROWS_15(X) ROWS_14(X) X(14)
#define ROWS_16(X) ROWS_15(X) X(15)
#define EACH_ROW(X) JOIN(ROWS_, TILE_M)(X)

// ADD_GROUP(rows), which the including file defines, for a tile of which `rows` rows are there, each height a literal: matrices of a grouped
// problem have rows as it happens, and a tile costs what its rows do. So does one of LAST_ROWS; others are multiplied whole.
#ifdef GROUPED
#define ADD_AT_HEIGHT_(i)                        \
  if (its_rows == i + 1 && i + 1 < TILE_M) {     \
    ADD_GROUP(i + 1);                            \
    is_whole = 0;                                \
  }
#define ADD_ITS_ROWS(rows)                       \
  {                                              \
    const int its_rows = (rows);                 \
    int is_whole = 1;                            \
    EACH_ROW(ADD_AT_HEIGHT_)                     \
    if (is_whole) ADD_GROUP(TILE_M);             \
  }
#elif defined(LAST_ROWS)
#define ADD_ITS_ROWS(rows)       \
  if ((rows) == LAST_ROWS) {     \
    ADD_GROUP(LAST_ROWS);        \
  } else {                       \
    ADD_GROUP(TILE_M);           \
  }
#else
#define ADD_ITS_ROWS(rows) ADD_GROUP(TILE_M);
#endif

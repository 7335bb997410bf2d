// SPDX-License-Identifier: Apache-2.0
// scales.cl: where a kernel finds the scales of its operands, f32 each. Included by tile.cl. The kernels for tensor cores of compute
// capability 9.0 have the hardware copy theirs in the order in which their forms lie (forms/forms.h).

/// A's as they are given: that of row `row` of A at k.
#define SCALE_OF_A(row, at_k) sa[sa_at + (ulong)((row) / A_SCALE_ROWS) * sa_ld + (ulong)((at_k) / A_SCALE_COLS)]
/// A's in tiles of `height` rows: those of all rows of a tile for a K group, side by side.
#define SCALES_OF_TILE(tile, group, height) (sa + sa_at + ((ulong)(tile) * sa_ld + (ulong)(group)) * (height))
/// B's: that of column `column` at k; and those of the columns from `column` on, side by side.
#define SCALE_OF_B(at_k, column) sb_here[(ulong)((at_k) / B_SCALE_COLS) * (ulong)n_pad + (ulong)(column)]
#define SCALES_OF_B(at_k, column) (sb_here + (ulong)((at_k) / B_SCALE_COLS) * (ulong)n_pad + (ulong)(column))

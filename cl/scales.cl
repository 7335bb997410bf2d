// SPDX-License-Identifier: Apache-2.0
// scales.cl: where a kernel finds the scales of its operands, f32 each. Included by tile.cl. The kernels for tensor cores of compute
// capability 9.0 have the hardware copy theirs in the order in which their forms lie (forms/forms.h).

/// A's as they are given: that of row `row` of A at k. A_UNSCALED: A is floats that lie as the caller has them.
#ifdef A_UNSCALED
#define SCALE_OF_A(row, at_k) 1.0f
#else
#define SCALE_OF_A(row, at_k) sa[sa_at + (ulong)((row) / A_SCALE_ROWS) * sa_ld + (ulong)((at_k) / A_SCALE_COLS)]
#endif
/// A's in tiles of `height` rows: those of all rows of a tile for a K group, side by side.
#define SCALES_OF_TILE(tile, group, height) (sa + sa_at + ((ulong)(tile) * sa_ld + (ulong)(group)) * (height))
/// B's: that of column `column` at k; and those of the columns from `column` on, side by side, of which SCALES_16 makes sixteen f32.
/// With B_SCALE_TYPE other than f32 they are bytes as they were given, 64 bytes behind GLOBAL_OF_B, which multiplies them all. They lie panel by panel
/// where the codes do (PANEL): those of all K groups of a panel one after another.
#ifdef PANEL
#define GROUPS_OF_B ((ulong)((k - 1) / B_SCALE_COLS + 1))
#define SCALE_PLACE_OF_B(at_k, column) \
  (((ulong)((column) / PANEL) * GROUPS_OF_B + (ulong)((at_k) / B_SCALE_COLS)) * PANEL + (ulong)((column) % PANEL))
#else
#define SCALE_PLACE_OF_B(at_k, column) ((ulong)((at_k) / B_SCALE_COLS) * (ulong)n_pad + (ulong)(column))
#endif
#if B_SCALE_TYPE == TYPE_F32
typedef float scale_of_b;
#define SCALES_OF_B(at_k, column) (sb_here + SCALE_PLACE_OF_B(at_k, column))
#define SCALE_OF_B(at_k, column) (*SCALES_OF_B(at_k, column))
#define GLOBAL_OF_B 1.0f
#define SCALES_16(at, of_all) vload16(0, at)
#else
typedef uchar scale_of_b;
#define SCALES_OF_B(at_k, column) ((__global const uchar*)(sb_here + 16) + SCALE_PLACE_OF_B(at_k, column))
#define GLOBAL_OF_B sb_here[0]
#define SCALE_OF_B(at_k, column) (DECODE(B_SCALE_TYPE)((uint)*SCALES_OF_B(at_k, column)) * GLOBAL_OF_B)
#if B_SCALE_TYPE == TYPE_E4M3 && defined(HALF_VECTORS)
/// By the place of a 16-bit float, as weights; NaN stays NaN.
static inline float16 scales_of_e4m3(uchar16 codes, float of_all) {
  const short16 wide = convert_short16(as_char16(codes)), nan = ((wide & (short16)(0x7f)) == (short16)(0x7f)) & (short16)(0x7c00);
  return convert_halfs(as_ushort16(((wide << (short16)(7)) & (short16)(0xbf80)) | nan)) * (float16)(of_all * UNIT_E4M3);
}
#define SCALES_16(at, of_all) scales_of_e4m3(vload16(0, at), of_all)
#else
#define SCALES_16(at, of_all) (DECODE_16(B_SCALE_TYPE)(convert_uint16(vload16(0, at))) * (float16)(of_all))
#endif
#endif

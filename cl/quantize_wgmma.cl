// SPDX-License-Identifier: Apache-2.0
// quantize_wgmma.cl: X [m, k] quantised straight into the forms of A that gemm_wgmma_f16 and gemm_wgmma_fp8 read
// (forms/wgmma_tokens.h), one pass over X. For scale groups of one row by 128 columns; other groups go through quantize.cl
// and pack_wgmma.cl. Codes and scales are those of quantizer.cl, bit for bit.
// Set by the host: those of quantizer.cl, and PTX_SM_90
// GROUPED, DEALT_ROWS  256      the tiles are those that deal.cl has dealt, of so many rows
// Local memory: none.
#include "code_pairs.cl"
#include "dealt.cl"

#if defined(PTX_SM_90)
#include "ptx.cl"

#define COUNTERS 1024  // Of forms/wgmma_tokens.h.
#define BATCH 2        // Rows of four that a warp has under way.
#ifndef DEALT_ROWS
#define DEALT_ROWS 256
#endif
// Rows [first, end) of X for the packed rows from `packed` on, which lie in one tile; none: first is end.
#ifdef GROUPED
static inline dealt_tile rows_at(__global const int* dealt, uint packed)
{
  dealt_tile here = {0, 0, 0};
  if (packed / DEALT_ROWS >= (uint)dealt[DEALT_TILES]) return here;
  here = tile_of(dealt, (int)(packed / DEALT_ROWS), DEALT_ROWS);
  here.first = min(here.first + (int)(packed % DEALT_ROWS), here.end);
  return here;
}
#define ROWS_AT(packed) rows_at(dealt_memory + dealt_at, packed)
#else
#define ROWS_AT(packed) ((dealt_tile){0, min((int)(packed), m), m})
#endif

// Two elements as f32.
static inline float2 pair_at(__global const uchar* x, ulong at)
{
#if SOURCE == TYPE_F32
  return *(__global const float2*)((__global const float*)x + at);
#else
  const uint two = *(__global const uint*)((__global const ushort*)x + at);
#if SOURCE == TYPE_BF16
  return (float2)(as_float(two << 16), as_float(two & 0xffff0000u));
#else
  float2 r;
  asm("{.reg .b16 l,h; mov.b32 {l,h},%2; cvt.f32.f16 %0,l; cvt.f32.f16 %1,h;}" : "=f"(r.x), "=f"(r.y) : "r"(two));
  return r;
#endif
#endif
}
// The same at any address; past k: zeros.
static inline float2 pair_of(__global const uchar* x, ulong row_at, uint col, uint k)
{
  return (float2)(col < k ? load_element(SOURCE, x, row_at + col) : 0.0f, col + 1 < k ? load_element(SOURCE, x, row_at + col + 1) : 0.0f);
}

// x: element x_at on, rows ldx apart. out: from byte out_at on, scales: f32 from scales_at on, in `blocks` K blocks of 128. The
// counters that lie before the scales are set to zero.
#define QUANTIZE_ARGS                                                                                               \
  int m, int k, int blocks, uint floor_bits, __global const uchar *x, ulong x_at, ulong ldx, __global uchar *out,   \
      ulong out_at, __global float *scales, ulong scales_at
#define CLEAR_COUNTERS()                                                                                            \
  if (get_group_id(0) == 0)                                                                                         \
    for (uint i = get_local_id(0); i < COUNTERS && m > 0; i += 256) ((__global uint*)(scales + scales_at))[(int)i - COUNTERS] = 0u

// f16 values in the ring's order. A warp has four rows of one K block at a time: eight work-items a row, 16 elements each.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void quantize_wgmma_f16(QUANTIZE_ARGS DEALT_ARGS)
{
  CLEAR_COUNTERS();
  const uint lane = get_local_id(0) & 31, c = lane & 7;
  const uint id = get_global_id(0) >> 5; // a warp: 4 * BATCH rows of a K block
  const uint kb = id % (uint)blocks, first = id / (uint)blocks * (4 * BATCH);
  if (m == 0) return;
  const dealt_tile here = ROWS_AT(first);
  if (here.first >= here.end) return;
  const bool aligned = ((x_at | ldx) & 1) == 0;
  const bool whole = aligned && kb * 128u + 128u <= (uint)k;
  float2 v[BATCH][8];
  UNROLL for (int b = 0; b < BATCH; ++b) {
    const ulong row_at = x_at + (ulong)min(here.first + 4 * b + (int)(lane >> 3), here.end - 1) * ldx;
#define COL_(i) (kb * 128u + ((i) >> 2) * 64u + ((i) & 3) * 16u + 2 * c)
    if (whole) UNROLL for (int i = 0; i < 8; ++i) v[b][i] = pair_at(x, row_at + COL_(i));
    else UNROLL for (int i = 0; i < 8; ++i) v[b][i] = pair_of(x, row_at, COL_(i), (uint)k);
  }
  UNROLL for (int b = 0; b < BATCH; ++b) {
    const uint row = first + 4 * b + (lane >> 3);
    uint amax = 0;
    UNROLL for (int i = 0; i < 8; ++i) amax = magnitude(amax, v[b][i]);
    UNROLL for (int d = 1; d < 8; d *= 2) {
      uint other;
      SHUFFLE_XOR(other, amax, d);
      amax = max(amax, other);
    }
    float scale, reciprocal;
    const bool quick = scale_and_reach(amax, floor_bits, &scale, &reciprocal), finite = amax < 0x7f800000u;
    uint h[8];
    if (quick) UNROLL for (int i = 0; i < 8; ++i) h[i] = quick_codes(v[b][i], scale, reciprocal);
    else UNROLL for (int i = 0; i < 8; ++i) h[i] = slow_codes(v[b][i], scale, finite);
    UNROLL for (int i = 0; i < 8; ++i) {
      const uint code = h[i];
#if CODE == TYPE_E4M3
      asm("{.reg .b16 l; cvt.u16.u32 l,%1; cvt.rn.f16x2.e4m3x2 %0,l;}" : "=r"(h[i]) : "r"(code));
#elif CODE == TYPE_E5M2
      asm("{.reg .b16 l; cvt.u16.u32 l,%1; cvt.rn.f16x2.e5m2x2 %0,l;}" : "=r"(h[i]) : "r"(code));
#else
      uint unused;
      DECODE4_7(h[i], unused, code);
#endif
    }
    if (row - first < (uint)(here.end - here.first)) {
      __global uchar *to = out + out_at + ((ulong)(row >> 6) * blocks + kb) * 16384u + (row & 63) * 128u + ((c ^ (row & 7)) << 4);
      STORE16(to, h[0], h[1], h[2], h[3]);
      STORE16(to + 8192, h[4], h[5], h[6], h[7]);
      if (c == 0) scales[scales_at + ((ulong)(row >> 6) * blocks + kb) * 64u + (row & 63)] = kb * 128u < (uint)k ? scale : 0.0f;
    }
  }
}

// Codes in the order of wgmma's register operand. A warp has 16 rows of one K block: a work-item 32 elements of each of two rows.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void quantize_wgmma_fp8(QUANTIZE_ARGS DEALT_ARGS)
{
  CLEAR_COUNTERS();
  const uint lane = get_local_id(0) & 31, g = lane >> 2, t = lane & 3;
  const uint id = get_global_id(0) >> 5;
  const uint kb = id % (uint)blocks, rows16 = id / (uint)blocks;
  if (m == 0) return;
  const dealt_tile here = ROWS_AT(rows16 * 16);
  if (here.first >= here.end) return;
  const bool whole = ((x_at | ldx) & 3) == 0 && kb * 128u + 128u <= (uint)k;
  float2 v[2][16];
  UNROLL for (int r = 0; r < 2; ++r) {
    const ulong row_at = x_at + (ulong)min(here.first + (int)(g + 8 * r), here.end - 1) * ldx;
    const uint col = kb * 128u + 4 * t;
    if (whole) UNROLL for (int i = 0; i < 8; ++i) {
#if SOURCE == TYPE_BF16
      const uint2 four = *(__global const uint2*)((__global const ushort*)x + row_at + col + i * 16u);
      v[r][2 * i] = (float2)(as_float(four.x << 16), as_float(four.x & 0xffff0000u));
      v[r][2 * i + 1] = (float2)(as_float(four.y << 16), as_float(four.y & 0xffff0000u));
#else
      v[r][2 * i] = pair_at(x, row_at + col + i * 16u);
      v[r][2 * i + 1] = pair_at(x, row_at + col + i * 16u + 2);
#endif
    } else UNROLL for (int i = 0; i < 8; ++i) {
      v[r][2 * i] = pair_of(x, row_at, col + i * 16u, (uint)k);
      v[r][2 * i + 1] = pair_of(x, row_at, col + i * 16u + 2, (uint)k);
    }
  }
  uint codes[2][8];
  float scale[2];
  UNROLL for (int r = 0; r < 2; ++r) {
    uint amax = 0;
    UNROLL for (int i = 0; i < 16; ++i) amax = magnitude(amax, v[r][i]);
    UNROLL for (int d = 1; d < 4; d *= 2) {
      uint other;
      SHUFFLE_XOR(other, amax, d);
      amax = max(amax, other);
    }
    float reciprocal;
    const bool quick = scale_and_reach(amax, floor_bits, &scale[r], &reciprocal), finite = amax < 0x7f800000u;
    if (quick) UNROLL for (int i = 0; i < 8; ++i)
      codes[r][i] = quick_codes(v[r][2 * i], scale[r], reciprocal) | quick_codes(v[r][2 * i + 1], scale[r], reciprocal) << 16;
    else UNROLL for (int i = 0; i < 8; ++i)
      codes[r][i] = slow_codes(v[r][2 * i], scale[r], finite) | slow_codes(v[r][2 * i + 1], scale[r], finite) << 16;
    if (kb * 128u >= (uint)k) scale[r] = 0.0f;
  }
  __global uchar *to = out + out_at + ((ulong)(rows16 >> 2) * blocks + kb) * 8192u + (rows16 & 3) * 2048u + lane * 16u;
  UNROLL for (int s = 0; s < 4; ++s) STORE16(to + s * 512, codes[0][2 * s], codes[1][2 * s], codes[0][2 * s + 1], codes[1][2 * s + 1]);
  if (t == 0) {
    __global float *at = scales + scales_at + ((ulong)(rows16 >> 3) * blocks + kb) * 128u + (rows16 & 7) * 16u + 2 * g;
    *(__global float2*)at = (float2)(scale[0], scale[1]);
  }
}
#endif

// SPDX-License-Identifier: Apache-2.0
// pack_wgmma.cl: rows of codes with their scales in the forms of A that gemm_wgmma_f16 and gemm_wgmma_fp8 read
// (forms/wgmma_tokens.h). Plain OpenCL C: one work-item writes 16 bytes.
// Set by the host:
// A_TYPE      4    4 5 7   codes of A
// SCALE_TYPE  1    0 to 6  type of A's scales; 0: none, all 1
// GROUPED                  the tiles are those that deal.cl has dealt, of DEALT_ROWS rows, a multiple of 64 (256)
// GATHER                   rows of A are found through a_index
// Local memory: none.
#include "dealt.cl"
#include "fp8.cl"

#ifndef A_TYPE
#define A_TYPE 4
#endif
#ifndef SCALE_TYPE
#define SCALE_TYPE 1
#endif
#ifndef DEALT_ROWS
#define DEALT_ROWS 256
#endif
#define COUNTERS 1024  // Of forms/wgmma_tokens.h.

// The statement after EACH_UNIT is done for each unit of 64 rows that is this work-item's; UNIT_HERE: its rows [first, end) of the
// problem, which may be none. Of a grouped problem fewer work-items may be there than units, of others one each.
#ifdef GROUPED
static inline dealt_tile unit_of(__global const int *dealt, uint unit) {
  dealt_tile here = tile_of(dealt, (int)(unit / (DEALT_ROWS / 64)));
  here.first = min(here.first + (int)(unit % (DEALT_ROWS / 64)) * 64, here.end);
  return here;
}
#define EACH_UNIT                                                           \
  __global const int *dealt = dealt_memory + dealt_at;                      \
  const uint units = (uint)dealt[DEALT_TILES] * (DEALT_ROWS / 64);          \
  for (uint tile = (uint)get_global_id(1); tile < units; tile += (uint)get_global_size(1))
#define UNIT_HERE unit_of(dealt, tile)
#else
#define EACH_UNIT for (uint tile = (uint)get_global_id(1), end = tile + 1; tile < end; ++tile)
#define UNIT_HERE ((dealt_tile){0, min((int)(tile)*64, m), m})
#endif

// The arguments of both, as those of pack_a.cl: a: element a_at on, rows lda apart. sa: element s_at on, rows lds apart, one for
// each scale_rows x scale_cols of A. out: from byte out_at on. scales: f32 from scales_at on; the counters that lie before them are
// set to zero. Rows past m are copies of the last one, k past k are zeros with a scale of zero.
#define PACK_ARGS                                                                                                  \
  int m, int k, int blocks, __global const uchar *a, ulong a_at, ulong lda, __global const uchar *sa, ulong s_at,   \
      ulong lds, int scale_rows, int scale_cols, __global uchar *out, ulong out_at, __global float *scales,         \
      ulong scales_at

static inline uint code_at(__global const uchar *a, ulong row_at, uint col, int k) {
  return col < (uint)k ? (uint)a[row_at + col] : 0u;
}

/// Two and four codes from column `col` on, whose place is a multiple of their number in `whole` rows: one read then, for what bounds
/// packing is how many reads there are.
static inline uint two_codes_at(__global const uchar *a, ulong row_at, uint col, int k, bool whole) {
  if (whole && col + 2u <= (uint)k) return *(__global const ushort*)(a + row_at + col);
  return code_at(a, row_at, col, k) | code_at(a, row_at, col + 1u, k) << 8;
}

static inline uint four_codes_at(__global const uchar *a, ulong row_at, uint col, int k, bool whole) {
  if (whole && col + 4u <= (uint)k) return *(__global const uint*)(a + row_at + col);
  return two_codes_at(a, row_at, col, k, false) | two_codes_at(a, row_at, col + 2u, k, false) << 16;
}

static inline float scale_at(__global const uchar *sa, ulong s_at, ulong lds, int row, uint block, int k, int scale_rows, int scale_cols) {
  if (block * 128u >= (uint)k) return 0.0f;
#if SCALE_TYPE == 0
  return 1.0f;
#else
  return load_element(SCALE_TYPE, sa, s_at + (ulong)(row / scale_rows) * lds + (ulong)((int)(block * 128u) / scale_cols));
#endif
}

// All are read before the first is stored, which might be the next one read for all that the compiler knows.
#define STORE_WORDS(at) *(__global uint4*)(out + out_at + (at)) = (uint4)(words[0], words[1], words[2], words[3])

static inline uint f16_of(uint code) { return encode_f16(DECODE(A_TYPE)(code)) & 0xffffu; }

// Work-item (i, t): 16 bytes of the two K halves' 1024 of tile t and its K blocks.
__kernel void pack_wgmma_f16(PACK_ARGS DEALT_ARGS GATHER_ARGS) {
  const uint id = (uint)get_global_id(0);
  if (get_global_id(1) == 0 && m > 0 && id < COUNTERS) ((__global uint*)(scales + scales_at))[(int)id - COUNTERS] = 0u;
  const uint c = id & 7, line = (id >> 3) & 63, half_block = (id >> 9) & 1, block = id >> 10;
  if (m <= 0 || block >= (uint)blocks) return;
  const bool whole = (((ulong)a + a_at) | lda) % 2 == 0;
  EACH_UNIT {
    const dealt_tile here = UNIT_HERE;
    if (here.first >= here.end) continue;
    const uint row = (uint)ROW_OF_A(min(here.first + (int)line, here.end - 1)), piece = c ^ (line & 7u);
    const ulong row_at = a_at + (ulong)row * lda;
    uint words[4];
    for (uint t = 0; t < 4; ++t) {
      const uint codes = two_codes_at(a, row_at, block * 128u + half_block * 64u + 16u * t + 2u * piece, k, whole);
      words[t] = f16_of(codes & 0xffu) | f16_of(codes >> 8) << 16;
    }
    STORE_WORDS(((ulong)tile * (ulong)blocks + block) * 16384u + half_block * 8192u + line * 128u + c * 16u);
    if (c == 0 && half_block == 0)
      scales[scales_at + ((ulong)tile * (ulong)blocks + block) * 64u + line] = scale_at(sa, s_at, lds, (int)row, block, k, scale_rows, scale_cols);
  }
}

// Work-item (i, t): 16 bytes of the 512 such pieces of each K block of tile t.
__kernel void pack_wgmma_fp8(PACK_ARGS DEALT_ARGS GATHER_ARGS) {
  const uint id = (uint)get_global_id(0);
  if (get_global_id(1) == 0 && m > 0 && id < COUNTERS) ((__global uint*)(scales + scales_at))[(int)id - COUNTERS] = 0u;
  const uint c = id & 7, line = (id >> 3) & 63, block = id >> 9;
  if (m <= 0 || block >= (uint)blocks) return;
  const ulong places = ((ulong)a + a_at) | lda;
  const uint col = block * 128u + c * 16u;
  EACH_UNIT {
    const dealt_tile here = UNIT_HERE;
    if (here.first >= here.end) continue;
    const uint row = (uint)ROW_OF_A(min(here.first + (int)line, here.end - 1));
    const ulong row_at = a_at + (ulong)row * lda;
    uint words[4];
    if (places % 16 == 0 && col + 16u <= (uint)k) {
      const uint4 all = *(__global const uint4*)(a + row_at + col);
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
    } else {
      for (uint w = 0; w < 4; ++w) words[w] = four_codes_at(a, row_at, col + 4u * w, k, places % 4 == 0);
    }
    STORE_WORDS(((ulong)tile * (ulong)blocks + block) * 8192u + line * 128u + ((c ^ (line & 7u)) << 4));
    if (c == 0) {
      const uint in_scales = ((tile & 1u) * 4u + (line >> 4)) * 16u + (line & 7u) * 2u + ((line >> 3) & 1u);
      scales[scales_at + ((ulong)(tile >> 1) * (ulong)blocks + block) * 128u + in_scales] =
          scale_at(sa, s_at, lds, (int)row, block, k, scale_rows, scale_cols);
    }
  }
}

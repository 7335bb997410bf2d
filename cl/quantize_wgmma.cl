// SPDX-License-Identifier: Apache-2.0
// quantize_wgmma.cl: X [m, k] quantised straight into the forms of A that gemm_wgmma_f16 and gemm_wgmma_fp8 read
// (forms/forms.h), one pass over X. For scale groups of one row by 128 columns; other groups go through quantize.cl
// and pack_wgmma.cl. Codes and scales are those of quantizer.cl, bit for bit.
//
// A warp has eight rows of one K block. Sixteen work-items read a row, eight neighbouring elements each, so that loads are of 16 bytes; the
// largest magnitudes of all rows are found together, each scale is made once, and codes change hands until a work-item has what lies side
// by side in the form, which is stored by 16 bytes too.
// Set by the host: those of quantizer.cl, and PTX_SM_90
// GROUPED, SCHEDULED_ROWS  256      the tiles are those that are scheduled, of so many rows
// SCHEDULES                         this kernel schedules them, as schedule_rows.cl says
// Local memory: none; with SCHEDULES that of schedule_rows.cl.
#define LANES 128
#define TABLE __local
#include "code_pairs.cl"
#include "schedule_rows.cl"

#if defined(PTX_SM_90)
#include "ptx.cl"

#define COUNTERS 1024  // Of forms/forms.h.
#define ITEMS LANES
#define ROWS 8                // Of a K block, a warp.
#define PASSES (ROWS / 2)     // A pass is two rows, one in each half of a warp.
// The statement after EACH_ROWS is done for each `id`, ROWS packed rows of a K block, that is this warp's; ROWS_AT: their rows
// [first, end) of X, which lie in one tile and may be none. Of a grouped problem fewer warps may be there, of others one each.
#ifdef GROUPED
static inline scheduled_tile rows_in(scheduled_tile here, int row)
{
  here.first = min(here.first + row, here.end);
  return here;
}
#define EACH_ROWS                                                                        \
  if (m == 0) return;                                                                    \
  SCHEDULE(tiles, SCHEDULED_ROWS);                                                               \
  const uint ids = (uint)tiles * (SCHEDULED_ROWS / ROWS) * (uint)blocks;                     \
  _Pragma("unroll 1") for (uint id = (uint)get_global_id(0) >> 5; id < ids; id += (uint)get_global_size(0) >> 5)
#define ROWS_AT(packed) rows_in(TILE_SCHEDULED((int)((packed) / SCHEDULED_ROWS)), (int)((packed) % SCHEDULED_ROWS))
#define NO_ROWS continue
#else
#define EACH_ROWS                                   \
  if (m == 0) return;                               \
  const uint id = (uint)get_global_id(0) >> 5;
#define ROWS_AT(packed) ((scheduled_tile){0, min((int)(packed), m), m})
#define NO_ROWS return
#endif

#define PERMUTE(r, a, b, how) asm("prmt.b32 %0,%1,%2,%3;" : "=r"(r) : "r"(a), "r"(b), "r"(how))

// x: element x_at on, rows ldx apart. out: from byte out_at on, scales: f32 from scales_at on, in `blocks` K blocks of 128. The
// counters that lie before the scales are set to zero.
#define QUANTIZE_ARGS PARAMETERS(QUANTIZE_TOKENS_LIST)
#define CLEAR_COUNTERS()                                                                                            \
  if (get_group_id(0) == 0)                                                                                         \
    for (uint i = get_local_id(0); i < COUNTERS && m > 0; i += ITEMS) ((__global uint*)(scales + scales_at))[(int)i - COUNTERS] = 0u

// Loads a warp's rows; row 2 * i + (lane >> 4) is in raw[i]. Leaves the scale of row 2 * (lane % PASSES) + (lane >> 4) and its
// reciprocal, 0 where the quick quotients do not reach.
#define LOAD_AND_SCALE()                                                                                            \
  const uint lane = get_local_id(0) & 31, c = lane & 15;                                                            \
  const uint kb = id % (uint)blocks, first = id / (uint)blocks * ROWS;                                              \
  const scheduled_tile here = ROWS_AT(first);                                                                           \
  if (here.first >= here.end) NO_ROWS;                                                                              \
  const uint count = (uint)(here.end - here.first);                                                                 \
  const bool whole = ((x_at | ldx) & (PER == 1 ? 3 : 7)) == 0 && kb * 128u + 128u <= (uint)k;                       \
  const uint col = kb * 128u + 8u * c;                                                                              \
  uint raw[PASSES][WORDS];                                                                                          \
  const uint pass_row = lane >> 4;                                                                                  \
  ulong rows[PASSES];                                                                                               \
  UNROLL for (int i = 0; i < PASSES; ++i) rows[i] = (ulong)(here.first + (int)min(2u * i + pass_row, count - 1)); \
  if (whole) UNROLL for (int i = 0; i < PASSES; ++i) LOAD_EIGHT(raw[i], x, x_at + rows[i] * ldx, col);              \
  else UNROLL for (int i = 0; i < PASSES; ++i) LOAD_EIGHT_ANYWHERE(raw[i], x, x_at + rows[i] * ldx, col, k);        \
  float scale, reciprocal;                                                                                          \
  SCALES_OF_PASSES(raw, floor_bits, scale, reciprocal);                                                             \
  const uint my_row = 2u * (c % PASSES) + (lane >> 4)

#define CODES_OF(LO, HI, I) CODES_OF_PASS(LO, HI, raw, I, scale, reciprocal)

// f16 values in the ring's order.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void quantize_wgmma_f16(QUANTIZE_ARGS SCHEDULES_ARGS)
{
  CLEAR_COUNTERS();
  EACH_ROWS {
    LOAD_AND_SCALE();
    // This work-item's elements are k = 64 * (c / 8) + 16 * t + 8 * (c % 2) + 0..7, t = c / 2 % 4. What it stores is the same two of every t:
    // of four work-items each gives one pair to each other.
    const uint t = c >> 1 & 3;
    const uint keep = t & 1 ? 0x7632u : 0x5410u, send = t & 1 ? 0x5410u : 0x7632u;
    const uint first_two = t == 0 ? 0x5410u : t == 1 ? 0x1054u : t == 2 ? 0x7632u : 0x3276u;
    const uint last_two = t == 0 ? 0x7632u : t == 1 ? 0x3276u : t == 2 ? 0x5410u : 0x1054u;
    __global uchar *to = out + out_at + ((ulong)(first >> 6) * blocks + kb) * 16384u + (c >> 3) * 8192u + (first & 63) * 128u;
    const uint piece = 4u * (c & 1) + t;
    UNROLL for (int i = 0; i < PASSES; ++i) {
      uint lo, hi, x0, y0, k0, s0, r0;
      CODES_OF(lo, hi, i);
      x0 = t & 2 ? hi : lo;
      SHUFFLE_XOR(y0, t & 2 ? lo : hi, 4);
      PERMUTE(k0, x0, y0, keep);
      PERMUTE(s0, x0, y0, send);
      SHUFFLE_XOR(r0, s0, 2);
      PERMUTE(lo, k0, r0, first_two);
      PERMUTE(hi, k0, r0, last_two);
      uint h0, h1, h2, h3;
      JOIN(DECODE4_, CODE)(h0, h1, lo);
      JOIN(DECODE4_, CODE)(h2, h3, hi);
      const uint row = 2u * i + (lane >> 4);
      if (row < count) STORE16(to + row * 128u + ((piece ^ ((first + row) & 7)) << 4), h0, h1, h2, h3);
    }
    if (my_row < count && c < PASSES)
      scales[scales_at + ((ulong)(first >> 6) * blocks + kb) * 64u + (first & 63) + my_row] = kb * 128u < (uint)k ? scale : 0.0f;
  }
}

// Codes in lines of a row's 128 k.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void quantize_wgmma_fp8(QUANTIZE_ARGS SCHEDULES_ARGS)
{
  CLEAR_COUNTERS();
  EACH_ROWS {
    LOAD_AND_SCALE();
    // This work-item's elements are k = 8 * c + 0..7 of each row, half of a piece: of two rows it gives its neighbour one half for another.
    const bool odd = c & 1;
    __global uchar *to = out + out_at + ((ulong)(first >> 6) * blocks + kb) * 8192u + (first & 63) * 128u;
    UNROLL for (uint i = 0; i < PASSES; i += 2) {
      uint lo0, hi0, lo1, hi1, lo, hi;
      CODES_OF(lo0, hi0, i);
      CODES_OF(lo1, hi1, i + 1);
      SHUFFLE_XOR(lo, odd ? lo0 : lo1, 1);
      SHUFFLE_XOR(hi, odd ? hi0 : hi1, 1);
      const uint row = 2u * i + (odd ? 2 : 0) + (lane >> 4);
      __global uchar *piece = to + row * 128u + ((c >> 1 ^ (row & 7)) << 4);
      if (odd) STORE16(piece, lo, hi, lo1, hi1);
      else STORE16(piece, lo0, hi0, lo, hi);
    }
    if (c < PASSES)
      scales[scales_at + ((ulong)(first >> 7) * blocks + kb) * 128u + (first & 112) + 2 * my_row + (first >> 3 & 1)] = kb * 128u < (uint)k ? scale : 0.0f;
  }
}
#endif

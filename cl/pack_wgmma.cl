// SPDX-License-Identifier: Apache-2.0
// pack_wgmma.cl: rows of codes with their scales in the forms of A that gemm_wgmma_f16 and gemm_wgmma_fp8 read
// (forms/forms.h). Plain OpenCL C, but for a conversion to f16 where PTX_SM_90 is set. A work-group takes 64 rows of a K block at a
// time: read by 16 bytes along the rows, written by 16 bytes in the form's order; f16 by way of local memory between.
// Set by the host:
// A_TYPE      4    4 5 7   codes of A
// SCALE_TYPE  1    0 to 6  type of A's scales; 0: none, all 1
// GROUPED                  the tiles are those that are scheduled, of SCHEDULED_ROWS rows, a multiple of 64 (256)
// SCHEDULES                    this kernel schedules them, as schedule_rows.cl says
// GATHER                   rows of A are found through a_index
// Local memory: of pack_wgmma_f16 64 * 144 B = 9216 B; with SCHEDULES that of schedule_rows.cl.
#define LANES 128
#define TABLE __local
#include "schedule_rows.cl"
#include "fp8.cl"
#if defined(PTX_SM_90)
#include "ptx.cl"
#endif

#define COUNTERS 1024  // Of forms/forms.h.
#define ITEMS LANES
#define ROW_WORDS 36  // Of local memory, for 32 words of codes: neighbouring rows lie four banks apart.

// How many units of 64 rows there are, and UNIT: the rows [first, end) of one, which may be none.
#ifdef GROUPED
static inline scheduled_tile unit_in(scheduled_tile here, int unit) {
  here.first = min(here.first + unit * 64, here.end);
  return here;
}
#define COUNT_UNITS              \
  SCHEDULE(tiles, SCHEDULED_ROWS);       \
  const uint units = (uint)tiles * (SCHEDULED_ROWS / 64);
#define UNIT(unit) unit_in(TILE_SCHEDULED((int)((unit) / (SCHEDULED_ROWS / 64))), (int)((unit) % (SCHEDULED_ROWS / 64)))
#else
#define COUNT_UNITS const uint units = ((uint)m + 63) / 64;
#define UNIT(unit) ((scheduled_tile){0, (int)(unit) * 64, m})
#endif

// The arguments of both, as those of pack_a.cl: a: element a_at on, rows lda apart. sa: element s_at on, rows lds apart, one for
// each scale_rows x scale_cols of A. out: from byte out_at on. scales: f32 from scales_at on; the counters that lie before them are
// set to zero. Rows past the last are zeros, k past k are zeros with a scale of zero.
#define PACK_ARGS PARAMETERS(PACK_TOKENS_LIST)

static inline uint code_at(__global const uchar *a, ulong row_at, uint col, int k) {
  return col < (uint)k ? (uint)a[row_at + col] : 0u;
}

/// Four codes from column `col` on, and sixteen: in one read where rows begin at multiples of so many, which the bits of `places` say.
static inline uint four_codes_at(__global const uchar *a, ulong row_at, uint col, int k, uint places) {
  if (places % 4u == 0 && col + 4u <= (uint)k) return *(__global const uint*)(a + row_at + col);
  return code_at(a, row_at, col, k) | code_at(a, row_at, col + 1u, k) << 8 | code_at(a, row_at, col + 2u, k) << 16 |
         code_at(a, row_at, col + 3u, k) << 24;
}

static inline uint4 codes_at(__global const uchar *a, ulong row_at, uint col, int k, uint places) {
  if (places % 16u == 0 && col + 16u <= (uint)k) return *(__global const uint4*)(a + row_at + col);
  return (uint4)(four_codes_at(a, row_at, col, k, places), four_codes_at(a, row_at, col + 4u, k, places),
                 four_codes_at(a, row_at, col + 8u, k, places), four_codes_at(a, row_at, col + 12u, k, places));
}

static inline float scale_at(__global const uchar *sa, ulong s_at, ulong lds, int row, uint block, int k, int scale_rows, int scale_cols) {
  if (block * 128u >= (uint)k) return 0.0f;
#if SCALE_TYPE == 0
  return 1.0f;
#else
  return load_element(SCALE_TYPE, sa, s_at + (ulong)(row / scale_rows) * lds + (ulong)((int)(block * 128u) / scale_cols));
#endif
}

// Four codes of a word as two pairs of f16, exact.
#if defined(PTX_SM_90)
#define TO_F16(lo, hi, word) JOIN(DECODE4_, A_TYPE)(lo, hi, word)
#else
static inline uint f16_of(uint code) { return encode_f16(DECODE(A_TYPE)(code & 0xffu)) & 0xffffu; }
#define TO_F16(lo, hi, word) ((lo) = f16_of(word) | f16_of((word) >> 8) << 16, (hi) = f16_of((word) >> 16) | f16_of((word) >> 24) << 16)
#endif

// The statements after EACH_PIECE, up to a closing brace, are done for each piece of this work-group, unit `unit` by K block `block`: codes[i]
// are 16 codes of line LINE(i), from column 16 * (item % 8) on. SCALE_PLACE: where the scale of the unit's row `item` goes.
#define LINE(i) (item / 8u + 16u * (uint)(i))
#define EACH_PIECE(SCALE_PLACE)                                                                                     \
  if (m <= 0) return;                                                                                               \
  const uint item = (uint)get_local_id(0), groups = (uint)get_num_groups(0), group = (uint)get_group_id(0);         \
  COUNT_UNITS                                                                                                       \
  if (group == groups - 1)                                                                                          \
    for (uint i = item; i < COUNTERS; i += ITEMS) ((__global uint*)(scales + scales_at))[(int)i - COUNTERS] = 0u;   \
  const uint places = (uint)(((ulong)a + a_at) | lda);                                                              \
  for (uint piece = group; piece < units * (uint)blocks; piece += groups) {                                         \
    const uint unit = piece / (uint)blocks, block = piece % (uint)blocks;                                           \
    const scheduled_tile rows = UNIT(unit);                                                                             \
    if (rows.first >= rows.end) continue;                                                                           \
    uint4 codes[4];                                                                                                 \
    for (int i = 0; i < 4; ++i) {                                                                                   \
      const int row = rows.first + (int)LINE(i);                                                                    \
      codes[i] = row < rows.end ? codes_at(a, a_at + (ulong)(uint)ROW_OF_A(row) * lda, block * 128u + item % 8u * 16u, k, places) : (uint4)(0); \
    }                                                                                                               \
    if (item < 64u) {                                                                                               \
      const int row = rows.first + (int)item;                                                                       \
      scales[scales_at + (SCALE_PLACE)] =                                                                           \
          row < rows.end ? scale_at(sa, s_at, lds, ROW_OF_A(row), block, k, scale_rows, scale_cols) : 0.0f;         \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void pack_wgmma_f16(PACK_ARGS SCHEDULES_ARGS GATHER_ARGS) {
  __local uint4 lines[64 * ROW_WORDS / 4];
  __local const uint *words = (__local const uint*)lines;
  EACH_PIECE(((ulong)unit * (ulong)blocks + block) * 64u + item)
    barrier(CLK_LOCAL_MEM_FENCE);  // The piece before has been read.
    for (int i = 0; i < 4; ++i) lines[LINE(i) * (ROW_WORDS / 4) + item % 8u] = codes[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    __global uint4 *to = (__global uint4*)(out + out_at) + ((ulong)unit * (ulong)blocks + block) * 1024u;
    for (uint id = item; id < 512u; id += ITEMS) {
      // Two neighbouring pieces: of each four codes in a row one has the first two, the other the last two.
      const uint pair = id % 4u, line = id / 4u % 64u, half_block = id / 256u;
      uint lo[4], hi[4];
      for (uint t = 0; t < 4; ++t) TO_F16(lo[t], hi[t], words[line * ROW_WORDS + half_block * 16u + 4u * t + pair]);
      const uint place = half_block * 512u + line * 8u + (2u * pair ^ line % 8u);
      to[place] = (uint4)(lo[0], lo[1], lo[2], lo[3]);
      to[place ^ 1u] = (uint4)(hi[0], hi[1], hi[2], hi[3]);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void pack_wgmma_fp8(PACK_ARGS SCHEDULES_ARGS GATHER_ARGS) {
  EACH_PIECE(((ulong)(unit / 2u) * (ulong)blocks + block) * 128u + (unit % 2u * 4u + item / 16u) * 16u + item % 8u * 2u + item / 8u % 2u)
    __global uint4 *to = (__global uint4*)(out + out_at) + ((ulong)unit * (ulong)blocks + block) * 512u;
    for (int i = 0; i < 4; ++i) to[LINE(i) * 8u + (item % 8u ^ LINE(i) % 8u)] = codes[i];
  }
}

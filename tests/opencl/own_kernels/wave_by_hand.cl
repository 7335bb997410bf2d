// SPDX-License-Identifier: Apache-2.0
// wave_by_hand.cl: gemm_wave on a device without its products: work-items show one another what they have in local memory. PARTS and RUN say
// which form of wave_products.cl.
#undef WAVE_LANES
#define WAVE_BY_HAND 1
#ifndef PARTS
#define PARTS (LANES == 64 ? 2 : 1)
#endif
#ifndef RUN
#define RUN (LANES == 32 ? 16 : WAVE_I8 ? 8 : 4)
#endif
#include "narrow_floats.cl"
#include "wave_products.cl"

#if WAVE_I8
#define IN_A_WORD 4
typedef int wave_sum;
#define LINE_AT(shown, line, e) ((int)((__local const char*)((shown) + (line)))[e])
#define ADD_PRODUCT(a, b, sum) ((sum) + (a) * (b))
#else
#define IN_A_WORD 2
typedef float wave_sum;
#if WAVE_F16
#define LINE_AT(shown, line, e) decode_f16((uint)((__local const ushort*)((shown) + (line)))[e])
#else
#define LINE_AT(shown, line, e) decode_bf16((uint)((__local const ushort*)((shown) + (line)))[e])
#endif
#define ADD_PRODUCT MUL_ADD
#endif
#if RUN / IN_A_WORD == 1
typedef uint wave_words;
#elif RUN / IN_A_WORD == 2
typedef uint2 wave_words;
#elif RUN / IN_A_WORD == 4
typedef uint4 wave_words;
#else
typedef uint8 wave_words;
#endif
#define WAVE_SCRATCH __local wave_words shown_a[ITEMS], shown_b[ITEMS];
#define WAVE_PRODUCT(a, b, sums)                                                                                     \
  (barrier(CLK_LOCAL_MEM_FENCE), shown_a[get_local_id(0)] = (a), shown_b[get_local_id(0)] = (b),                     \
   barrier(CLK_LOCAL_MEM_FENCE), wave_product_by_hand(shown_a, shown_b, (int)get_local_id(0) / LANES * LANES,        \
                                                      (int)get_local_id(0) % LANES, sums))

/// `wave`: the first line of the wave. Each half of a wave whose halves have the same lines takes its own. Always inline: PoCL 3.1 loses
/// vectors on their way into a function that it calls.
static inline __attribute__((always_inline)) wave_sums wave_product_by_hand(__local const wave_words* shown_a,
                                                                            __local const wave_words* shown_b, int wave, int lane,
                                                                            wave_sums sums) {
  wave_sum each[SUMS];
  VSTORE_SUMS(sums, 0, each);
  for (int part = 0; part < PARTS; ++part) {
    const int first = wave + (PARTS == 1 ? lane / SIDE : part) * SIDE;
    for (int e = 0; e < RUN; ++e) {
      const wave_sum b = LINE_AT(shown_b, first + lane % SIDE, e);
      for (int v = 0; v < SUMS; ++v) each[v] = ADD_PRODUCT(LINE_AT(shown_a, first + SUM_ROW(v, lane), e), b, each[v]);
    }
  }
  return VLOAD_SUMS(0, each);
}
#include "gemm_wave.cl"

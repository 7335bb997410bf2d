// SPDX-License-Identifier: Apache-2.0
// dpas_by_hand.cl: gemm_dpas on a device without its products: work-items show one another their part of A in local memory.
#undef DPAS_LANES
#define DPAS_BY_HAND 1
#include "dpas.cl"

#define DPAS_SUB_GROUPS
#define DPAS_SCRATCH __local dpas_rows shown[ITEMS];
#define DPAS_LANE ((int)get_local_id(0) % LANES)
#define DPAS_SUB_GROUP ((int)get_local_id(0) / LANES)
#define SHOWN_TO(function, a, b, sums)                                                       \
  (barrier(CLK_LOCAL_MEM_FENCE), shown[get_local_id(0)] = (a), barrier(CLK_LOCAL_MEM_FENCE), \
   function(shown + DPAS_SUB_GROUP * LANES, b, sums))
#define DPAS_BF16(a, b, sums) SHOWN_TO(dpas_bf16_by_hand, a, b, sums)
#define DPAS_I8(a, b, sums) SHOWN_TO(dpas_i8_by_hand, a, b, sums)

static inline float8 dpas_bf16_by_hand(__local const dpas_rows* shown, int8 b, float8 sums) {
  uint column[8];
  vstore8(as_uint8(b), 0, column);
  for (int k = 0; k < 16; ++k) {
#if LANES == 16
    const uint8 bits = convert_uint8(as_ushort8(shown[k])) << 16;
#else
    const uint8 words = as_uint8(shown[k / 2]);
    const uint8 bits = k % 2 == 0 ? words << 16 : words & 0xffff0000u;
#endif
    const float value = as_float(k % 2 == 0 ? column[k / 2] << 16 : column[k / 2] & 0xffff0000u);
    sums = MUL_ADD(as_float8(bits), (float8)(value), sums);
  }
  return sums;
}

static inline int8 dpas_i8_by_hand(__local const dpas_rows* shown, int8 b, int8 sums) {
  uint column[8];
  vstore8(as_uint8(b), 0, column);
  for (int k = 0; k < 32; ++k) {
#if LANES == 16
    const int8 words = convert_int8(shown[k / 2]) << (16 + 8 * (1 - k % 2));
#else
    const int8 words = shown[k / 4] << (8 * (3 - k % 4));
#endif
    sums += (words >> 24) * ((int)(column[k / 4] << (8 * (3 - k % 4))) >> 24);
  }
  return sums;
}
#include "gemm_dpas.cl"

// SPDX-License-Identifier: Apache-2.0
// dpas.cl: products of small matrices by a sub-group, as cl_intel_subgroup_matrix_multiply_accumulate has them: 8 rows by LANES columns by
// 16 k of bf16 with f32 sums, or by 32 k of i8 with s32 sums. Work-item l of a sub-group has column l of B, sixteen or thirty-two k of it in
// eight words; of each row of A it has k l (LANES 16), or k 2 l and 2 l + 1 (LANES 8), of i8 twice as many; and column l of the sums.
// Where the host does not set DPAS_LANES, the same is done by hand: work-items show one another their part of A in local memory. That is
// what tests run on devices without the extension; no plan takes it.
// Set by the including file: LANES, the work-items of a sub-group; ITEMS of a work-group. Set by the host:
// DPAS_LANES  0  0 8 16  what the device's products take; LANES must be that
// Source of layouts: the extension's specification, revision 1.1.0.
#include "fp8.cl"

#if LANES == 16
typedef short8 dpas_rows;
typedef ushort dpas_part;
#else
typedef int8 dpas_rows;
typedef uint dpas_part;
#endif

#ifdef DPAS_LANES
#if DPAS_LANES != LANES
#error "lanes must be the least sub-group of the device: its matrix products take no other"
#endif
#define DPAS_SUB_GROUPS __attribute__((intel_reqd_sub_group_size(LANES)))
#define DPAS_SCRATCH
#define DPAS_LANE ((int)get_sub_group_local_id())
#define DPAS_SUB_GROUP ((int)get_sub_group_id())
#define DPAS_BF16(a, b, sums) intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, sums)
#define DPAS_I8(a, b, sums) intel_sub_group_i8_i8_matrix_mad_k32(a, b, sums)
#else
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
#endif

// SPDX-License-Identifier: Apache-2.0
// dpas.cl: products of small matrices by a sub-group, as cl_intel_subgroup_matrix_multiply_accumulate has them: 8 rows by LANES columns by
// 16 k of bf16 with f32 sums, or by 32 k of i8 with s32 sums. Work-item l of a sub-group has column l of B, sixteen or thirty-two k of it in
// eight words; of each row of A it has k l (LANES 16), or k 2 l and 2 l + 1 (LANES 8), of i8 twice as many; and column l of the sums.
// A file that comes before and defines DPAS_BY_HAND has its own products: tests do them by hand, on devices without the extension.
// Set by the including file: LANES, the work-items of a sub-group. Set by the host:
// DPAS_LANES  8 16  what the device's products take; LANES must be that
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
#endif

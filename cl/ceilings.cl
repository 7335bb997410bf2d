// SPDX-License-Identifier: Apache-2.0
// ceilings.cl: what a device can do at most, for shares in reports. Run by backends/opencl/ceilings.cpp.
// multiply_add: CHAINS independent chains of VEC-wide f32 multiply-adds a work-item, `steps` long: 2 * VEC * CHAINS * steps
//   operations. copy: each work-item copies `count` vectors of 16 B, `stride` vectors apart.
// Set by the host: VEC (1 4 8 16), CHAINS (8 16).
#include "arguments.cl"
#include "fp8.cl"

#if VEC == 1
typedef float vec;
#else
typedef JOIN(float, VEC) vec;
#endif

#define CHAINS_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#if CHAINS == 16
#define ALL_CHAINS(X) CHAINS_8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#else
#define ALL_CHAINS(X) CHAINS_8(X)
#endif

__kernel WIDE_VECTORS void multiply_add(PARAMETERS(MULTIPLY_ADD_LIST)) {
  // Named, not an array: some compilers keep arrays of vectors in memory.
#define START(i) vec sum##i = (vec)((float)(i + (int)get_global_id(0)));
  ALL_CHAINS(START)
  const vec factor = (vec)(x), term = (vec)(y);
  for (int step = 0; step < steps; ++step) {
#define STEP(i) sum##i = MUL_ADD(sum##i, factor, term);
    ALL_CHAINS(STEP)
  }
#define TOTAL(i) total += sum##i;
  vec total = (vec)(0.0f);
  ALL_CHAINS(TOTAL)
#if VEC == 1
  out[get_global_id(0)] = total;
#else
  out[get_global_id(0)] = total.s0 + total.s1;
#endif
}

#define APART(type, name) __global type* restrict name
__kernel void copy(COPY_LIST(VALUE_PARAMETER, APART, MEMORY_PARAMETER, LOCAL_PARAMETER)) {
  const ulong first = get_global_id(0) * item_step;
  for (ulong i = 0; i < per_item; ++i) to[first + i * stride] = from[first + i * stride];
}

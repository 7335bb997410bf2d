/* SPDX-License-Identifier: Apache-2.0
 *
 * Mesa 25.0.7, rusticl on llvmpipe: the process crashes (SIGSEGV) in a work-group of four work-items where a function
 * that leaves results behind pointers calls another one that does so and has barriers. With
 * __attribute__((always_inline)) on both, or without `first` and `end`, it is right. PoCL 3.1, Intel's CPU runtime
 * and Oclgrind run it right. schedule_rows.cl with several work-items is such a kernel; devices that are processors
 * get it with one, without barriers.
 *
 *   cc mesa_barrier_in_nested_function.c -o report -lOpenCL && ./report       0: right, 1: wrong, or a crash
 */
#include "report.h"

enum { LANES = 4 };

static const char* const source =
    "static long sum_of(__local long* sums, int lane, long value, long* all) {\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  sums[lane] = value;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  *all = sums[3];\n"
    "  return sums[lane] - value;\n"
    "}\n"
    "static int4 counts_of(__local long* sums, int lane, int* first, int* end) {\n"
    "  long all = 0;\n"
    "  *first = lane;\n"
    "  *end = lane;\n"
    "  const long own = sum_of(sums, lane, lane, &all);\n"
    "  return (int4)((int)all, (int)own, 0, 0);\n"
    "}\n"
    "__kernel void counts(__global int* to) {\n"
    "  __local long sums[4];\n"
    "  const int lane = (int)get_local_id(0);\n"
    "  int first, end;\n"
    "  const int4 counts = counts_of(sums, lane, &first, &end);\n"
    "  to[lane] = counts.x;\n"
    "}\n";

int main(void) {
  open_device();
  const cl_kernel kernel = kernel_of(source, "counts", 1);
  int to[LANES] = {0};
  const cl_mem memory = copy_of(to, sizeof to);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  const size_t lanes = LANES;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &lanes, &lanes, 0, NULL, NULL);
  clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof to, to, 0, NULL, NULL);
  int wrong = 0;
  for (int i = 0; i < LANES; ++i) wrong += to[i] != LANES - 1;
  printf("%d of %d wrong\n", wrong, LANES);
  return wrong != 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Mesa 25.0.7, rusticl: a kernel with clang's __builtin_prefetch ends the process. The compiler takes it, the
 * translator to SPIR-V does not know llvm.prefetch, says so ("Unexpected llvm intrinsic") and exits: the caller gets
 * no status, and no build log. PoCL 3.1, 5.0 and 6.0 and Intel's CPU runtime make an instruction of it. Our probe of
 * such builtins (probe.cl, PROBE 5) therefore asks only compilers that name the processor that they compile for, as
 * Mesa's does not.
 *
 *   cc mesa_ends_over_prefetch.c -o report -lOpenCL && ./report       "right" or "not built", or an end before either
 */
#include "report.h"

static const char* const source =
    "__kernel void next(__global int* x) {\n"
    "  __builtin_prefetch((const void*)(uintptr_t)(x + 64));\n"
    "  x[0] += 1;\n"
    "}\n";

int main(void) {
  open_device();
  const cl_kernel kernel = kernel_of(source, "next", 0);
  int x[128] = {6};
  const cl_mem memory = copy_of(x, sizeof x);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  const size_t one = 1;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
  clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL);
  puts(x[0] == 7 ? "right" : "wrong");
  return x[0] != 7;
}

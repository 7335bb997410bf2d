/* SPDX-License-Identifier: Apache-2.0
 *
 * PoCL 3.1: a whole work-group that returns before a barrier makes the loops of the others write past their end, or
 * the process crash. Every work-item of a group takes the same branch here, as OpenCL asks. PoCL 5.0, Intel's CPU
 * runtime and Oclgrind run it right. Our quantiser for devices with work-groups (quantize.cl, LANES > 1) is such a
 * kernel; no device of PoCL 3.1's gets it, but a made-up one of the tests does (tests/faulty_opencl/CMakeLists.txt).
 *
 *   cc pocl_return_before_barrier.c -o report -lOpenCL && ./report        0: right, 1: bytes past the end, or a crash
 */
#include <string.h>

#include "report.h"

enum { COLS = 147, BLOCK = 128, LANES = 64, LD = 256 };

static const char* const source =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void sum(int n, int block, __global const uint* x, __global uchar* out) {\n"
    "  const int first = (int)get_group_id(0) * block;\n"
    "  if (first >= n) return; /* no group does: without this line all is well */\n"
    "  const int cols = min(block, n - first), lane = (int)get_local_id(0);\n"
    "  __local uint partial[64];\n"
    "  uint sum = 0u;\n"
    "  for (int col = lane; col < cols; col += 64) sum += x[first + col];\n"
    "  partial[lane] = sum;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  sum = partial[0];\n"
    "  for (int col = lane; col < cols; col += 64) out[first + col] = (uchar)(x[first + col] > sum);\n"
    "}\n";

int main(void) {
  open_device();
  const cl_kernel kernel = kernel_of(source, "sum", 1);
  static cl_uint x[LD];
  static unsigned char out[LD];
  memset(out, 0xee, sizeof out);
  cl_mem xs = copy_of(x, sizeof x);
  cl_mem outs = copy_of(out, sizeof out);
  const cl_int n = COLS, block = BLOCK;
  clSetKernelArg(kernel, 0, sizeof n, &n);
  clSetKernelArg(kernel, 1, sizeof block, &block);
  clSetKernelArg(kernel, 2, sizeof xs, &xs);
  clSetKernelArg(kernel, 3, sizeof outs, &outs);
  const size_t global = 2 * LANES, local = LANES;
  const cl_int status = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
  if (status != CL_SUCCESS) return printf("clEnqueueNDRangeKernel: %d\n", status), 1;
  clEnqueueReadBuffer(queue, outs, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
  int past = 0, missing = 0;
  for (int i = 0; i < LD; ++i) i < COLS ? (missing += out[i] != 0) : (past += out[i] != 0xee);
  printf("%d bytes written past the end, %d wrong before it\n", past, missing);
  return past != 0 || missing != 0;
}

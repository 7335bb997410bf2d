/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel's OpenCL CPU runtime (intel-opencl-rt 2026.2): a loop that adds floats into one variable is made into eight
 * sums that are added at its end, from eight rounds on, without -cl-fast-relaxed-math or any other option: results
 * differ in their last bits from the order that the source says. With -cl-opt-disable, on PoCL 3.1 and on Oclgrind
 * the order is kept. cl/combine.cl, whose results are the same bits on every device, has the loop over columns inside
 * instead: then there is nothing to reorder.
 *
 *   cc -ffp-contract=off intel_sum_in_another_order.c -o report -lOpenCL && ./report      0: in order, 1: not
 */
#include "report.h"

enum { ROWS = 64, COLS = 40, COUNT = 8 };

static const char* const source =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "__kernel void combine(int cols, int count, __global const float* x, __global const int* rows,\n"
    "                      __global const float* weights, __global float* y) {\n"
    "  const int first = (int)get_global_id(0) * 8;\n"
    "  for (int col = first; col < min(first + 8, cols); ++col) {\n"
    "    float sum = 0.0f;\n"
    "    for (int j = 0; j < count; ++j) {\n"
    "      const float part = weights[j] * x[rows[j] * cols + col];\n"
    "      sum = sum + part;\n"
    "    }\n"
    "    y[col] = sum;\n"
    "  }\n"
    "}\n";

int main(void) {
  open_device();
  const cl_kernel kernel = kernel_of(source, "combine", 1);
  static float x[ROWS * COLS], weights[COUNT], y[COLS];
  static cl_int rows[COUNT];
  srand(3);
  for (int i = 0; i < ROWS * COLS; ++i) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (int i = 0; i < COUNT; ++i) rows[i] = rand() % ROWS, weights[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  cl_mem xs = copy_of(x, sizeof x);
  cl_mem row_list = copy_of(rows, sizeof rows);
  cl_mem weight_list = copy_of(weights, sizeof weights);
  cl_mem ys = copy_of(y, sizeof y);
  const cl_int cols = COLS, count = COUNT;
  clSetKernelArg(kernel, 0, sizeof cols, &cols);
  clSetKernelArg(kernel, 1, sizeof count, &count);
  clSetKernelArg(kernel, 2, sizeof xs, &xs);
  clSetKernelArg(kernel, 3, sizeof row_list, &row_list);
  clSetKernelArg(kernel, 4, sizeof weight_list, &weight_list);
  clSetKernelArg(kernel, 5, sizeof ys, &ys);
  const size_t global = COLS / 8;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL);
  clEnqueueReadBuffer(queue, ys, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL);
  int other = 0;
  for (int col = 0; col < COLS; ++col) {
    volatile float sum = 0.0f, part;
    for (int j = 0; j < COUNT; ++j) {
      part = weights[j] * x[rows[j] * COLS + col];
      sum = sum + part;
    }
    other += y[col] != sum;
  }
  printf("%d of %d sums are not those of the source's order\n", other, COLS);
  return other != 0;
}

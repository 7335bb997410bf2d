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
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

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
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
    return puts("no device"), 77;
  }
  char version[256];
  clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof version, version, NULL);
  puts(version);
  cl_int status = CL_SUCCESS;
  const cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  const cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  const cl_program program = clCreateProgramWithSource(context, 1, (const char**)&source, NULL, &status);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) return puts("not built"), 1;
  const cl_kernel kernel = clCreateKernel(program, "combine", &status);
  static float x[ROWS * COLS], weights[COUNT], y[COLS];
  static cl_int rows[COUNT];
  srand(3);
  for (int i = 0; i < ROWS * COLS; ++i) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (int i = 0; i < COUNT; ++i) rows[i] = rand() % ROWS, weights[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  cl_mem xs = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof x, x, &status);
  cl_mem row_list = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof rows, rows, &status);
  cl_mem weight_list = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof weights, weights, &status);
  cl_mem ys = clCreateBuffer(context, CL_MEM_WRITE_ONLY, sizeof y, NULL, &status);
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

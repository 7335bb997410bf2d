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
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>

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
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
    return puts("no device"), 77;
  }
  char version[256];
  clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof version, version, NULL);
  puts(version);
  fflush(stdout);
  cl_int status = CL_SUCCESS;
  const cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  const cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  const cl_program program = clCreateProgramWithSource(context, 1, (const char**)&source, NULL, &status);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) return puts("not built"), 1;
  const cl_kernel kernel = clCreateKernel(program, "counts", &status);
  int to[LANES] = {0};
  const cl_mem memory = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof to, to, &status);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  const size_t lanes = LANES;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &lanes, &lanes, 0, NULL, NULL);
  clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof to, to, 0, NULL, NULL);
  int wrong = 0;
  for (int i = 0; i < LANES; ++i) wrong += to[i] != LANES - 1;
  printf("%d of %d wrong\n", wrong, LANES);
  return wrong != 0;
}

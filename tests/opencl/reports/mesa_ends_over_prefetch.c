/* SPDX-License-Identifier: Apache-2.0
 *
 * Mesa 25.0.7, rusticl: a kernel with clang's __builtin_prefetch ends the process. The compiler takes it, the
 * translator to SPIR-V does not know llvm.prefetch, says so ("Unexpected llvm intrinsic") and exits: the caller gets
 * no status, and no build log. PoCL 3.1, 5.0 and 6.0 and Intel's CPU runtime make an instruction of it. Our probe of
 * such builtins (probe.cl, PROBE 5) therefore asks only compilers that name the processor that they compile for, as
 * Mesa's does not.
 *
 *   cc mesa_ends_over_prefetch.c -o report -lOpenCL && ./report       "right" or "refused", or an end before either
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>

static const char* const source =
    "__kernel void next(__global int* x) {\n"
    "  __builtin_prefetch((const void*)(uintptr_t)(x + 64));\n"
    "  x[0] += 1;\n"
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
  if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) return puts("refused"), 0;
  const cl_kernel kernel = clCreateKernel(program, "next", &status);
  int x[128] = {6};
  const cl_mem memory = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof x, x, &status);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  const size_t one = 1;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
  clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL);
  puts(x[0] == 7 ? "right" : "wrong");
  return x[0] != 7;
}

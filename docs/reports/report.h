/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reports share: the first device with a queue, kernels of a source, their buffers.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

/* Opens the first device and prints its driver's version; without a device the report ends with status 77. */
static inline void open_device(void) {
  cl_platform_id platform;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
    puts("no device");
    exit(77);
  }
  char version[256];
  clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof version, version, NULL);
  puts(version);
  fflush(stdout);
  cl_int status = CL_SUCCESS;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  queue = clCreateCommandQueue(context, device, 0, &status);
}

/* The kernel; where its program is not built, the report ends with `status`. */
static inline cl_kernel kernel_of(const char* source, const char* name, int status) {
  cl_int code = CL_SUCCESS;
  const cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) {
    puts("not built");
    exit(status);
  }
  return clCreateKernel(program, name, &code);
}

static inline cl_mem copy_of(void* values, size_t size) {
  cl_int status = CL_SUCCESS;
  return clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, size, values, &status);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Oclgrind 21.10: threads that build programs of one context at the same time crash, or get a program with damaged
 * constants whose kernels then compute nonsense. OpenCL calls clBuildProgram thread-safe; Oclgrind keeps one
 * llvm::LLVMContext for each context (src/core/Context.cpp) and gives it to every build (Program.cpp) without a lock,
 * which LLVM does not allow. With one build at a time all is well, whatever --num-threads says. Our plans build their
 * steps side by side; under Oclgrind builds take turns (`turns` of tests/faulty_opencl).
 *
 *   cc oclgrind_concurrent_builds.c -o report -lOpenCL -lpthread
 *   oclgrind ./report 4       four at a time: crashes, hangs, or says what is wrong
 *   oclgrind ./report 1       one at a time: 0
 */
#include <pthread.h>

#include "report.h"

enum { ROUNDS = 60, PROGRAMS = 4, N = 16 };

/* Many constants and types, as any kernel has. */
static const char* const source =
    "float decode(uint code) {\n"
    "  const float normal = as_float(((code & 0x7fu) << 20) + 0x3c000000u), subnormal = normal + normal - 0x1p-6f;\n"
    "  const float magnitude = normal < subnormal ? normal : subnormal;\n"
    "  return as_float(as_uint(magnitude) | ((code & 0x80u) << 24));\n"
    "}\n"
    "__kernel void values(__global float* out) {\n"
    "  const uint i = (uint)get_global_id(0);\n"
    "  float8 sum = (float8)(0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f) * (float)(i + UNIT);\n"
    "  for (uint code = 0u; code < 4u; ++code) sum += (float8)(decode(code * 8u + i)) * 1.0f;\n"
    "  out[i] = sum.s0 + sum.s7;\n"
    "}\n";

static cl_program programs[PROGRAMS];
static cl_int codes[PROGRAMS];

static void* build(void* which) {
  const int i = *(const int*)which;
  char options[64];
  snprintf(options, sizeof options, "-cl-opt-disable -DUNIT=%d", 3 + i);
  codes[i] = clBuildProgram(programs[i], 1, &device, options, NULL, NULL);
  return NULL;
}

static float values(cl_program program, float* out) {
  cl_int status = CL_SUCCESS;
  const cl_kernel kernel = clCreateKernel(program, "values", &status);
  if (status != CL_SUCCESS) return printf("clCreateKernel: %d\n", status), -1.0f;
  cl_mem memory = clCreateBuffer(context, CL_MEM_WRITE_ONLY, N * sizeof *out, NULL, &status);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  const size_t global = N;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL);
  clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, N * sizeof *out, out, 0, NULL, NULL);
  clReleaseMemObject(memory);
  clReleaseKernel(kernel);
  float sum = 0.0f;
  for (int i = 0; i < N; ++i) sum += out[i];
  return sum;
}

int main(int count, char** arguments) {
  const int at_once = count > 1 ? atoi(arguments[1]) : PROGRAMS;
  open_device();
  cl_int status = CL_SUCCESS;
  float expected[PROGRAMS] = {0}, out[N];
  for (int round = 0; round < ROUNDS; ++round) {
    static const int which[PROGRAMS] = {0, 1, 2, 3};
    pthread_t threads[PROGRAMS];
    for (int i = 0; i < PROGRAMS; ++i)
      programs[i] = clCreateProgramWithSource(context, 1, (const char**)&source, NULL, &status);
    for (int i = 0; i < PROGRAMS; ++i) {
      pthread_create(&threads[i], NULL, build, (void*)&which[i]);
      if (at_once == 1 || round == 0) pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < PROGRAMS && at_once != 1 && round != 0; ++i) pthread_join(threads[i], NULL);
    for (int i = 0; i < PROGRAMS; ++i) {
      if (codes[i] != CL_SUCCESS) return printf("round %d: clBuildProgram: %d\n", round, codes[i]), 1;
      const float sum = values(programs[i], out);
      if (round == 0) expected[i] = sum; /* The first ones are built one after the other. */
      if (sum != expected[i]) return printf("round %d: %g instead of %g\n", round, sum, expected[i]), 1;
      clReleaseProgram(programs[i]);
    }
  }
  printf("%d rounds, %d at a time: right\n", ROUNDS, at_once);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// CLBlast's f32 product beside the kernels of a GPU, on the shapes of gpu_kernels.cpp: what a portable OpenCL library
// gives whoever decodes fp8 to f32. The library is looked for when this runs; without it there is nothing to time.
// L2 cold (256 MiB written before every call), medians of device times, one row of D checked.
#include <dlfcn.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/opencl/api.h"
#include "backends/words.h"

namespace {

// clblast_c.h: both layouts and transposes by their numbers, D = alpha A B^T + beta D.
constexpr int kRowMajor = 101, kNoTranspose = 111, kTransposed = 112;
using Sgemm = int (*)(int layout, int a_transpose, int b_transpose, std::size_t m, std::size_t n, std::size_t k,
                      float alpha, cl_mem a, std::size_t a_offset, std::size_t a_ld, cl_mem b, std::size_t b_offset,
                      std::size_t b_ld, float beta, cl_mem d, std::size_t d_offset, std::size_t d_ld,
                      cl_command_queue* queue, cl_event* event);

constexpr int kNothingToTime = 77;

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> all(count);
  for (float& x : all) x = static_cast<float>(random() % 2001) / 1000 - 1;
  return all;
}

cl::Device device_of_number(std::size_t number) {
  std::vector<cl::Platform> platforms;
  cl::Platform::get(&platforms);
  std::vector<cl::Device> all;
  for (const cl::Platform& platform : platforms) {
    std::vector<cl::Device> devices;
    platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
    all.insert(all.end(), devices.begin(), devices.end());
  }
  if (number >= all.size()) throw std::runtime_error(fmt::format("there are {} devices", all.size()));
  return all[number];
}

/// Microseconds of one product on the device, from the start of its first kernel to the end of its last: CLBlast may
/// pad and transpose before. Throws where it is wrong.
double microseconds(Sgemm sgemm, const cl::Context& context, const cl::Device& device, const cl::Buffer& flush,
                    std::size_t m, std::size_t n, std::size_t k, int runs) {
  const cl::CommandQueue queue(context, device, cl::QueueProperties::Profiling);
  std::vector<float> a = random_values(m * k, 1), b = random_values(n * k, 2), row(n);
  const cl::Buffer on_a(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, a.size() * 4, a.data()),
      on_b(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, b.size() * 4, b.data()),
      on_d(context, CL_MEM_READ_WRITE, m * n * 4);
  std::vector<double> all;
  for (int i = 0; i <= runs; ++i) {
    queue.enqueueFillBuffer(flush, static_cast<cl_uint>(i), 0, flush.getInfo<CL_MEM_SIZE>());
    queue.enqueueFillBuffer(on_d, NAN, 0, m * n * 4);
    cl::Event before, after;
    queue.enqueueMarkerWithWaitList(nullptr, &before);
    cl_command_queue native = queue();
    if (const int status = sgemm(kRowMajor, kNoTranspose, kTransposed, m, n, k, 1.0f, on_a(), 0, k, on_b(), 0, k,
                                 0.0f, on_d(), 0, n, &native, nullptr))
      throw std::runtime_error(fmt::format("CLBlastSgemm: status {}", status));
    queue.enqueueMarkerWithWaitList(nullptr, &after);
    queue.finish();
    if (i > 0)
      all.push_back(static_cast<double>(after.getProfilingInfo<CL_PROFILING_COMMAND_END>() -
                                        before.getProfilingInfo<CL_PROFILING_COMMAND_END>()) /
                    1e3);
  }
  const std::size_t last = m - 1;
  queue.enqueueReadBuffer(on_d, CL_TRUE, last * n * 4, n * 4, row.data());
  for (std::size_t col = 0; col < n; ++col) {
    double want = 0, sizes = 0;
    for (std::size_t i = 0; i < k; ++i) {
      const double product = static_cast<double>(a[last * k + i]) * static_cast<double>(b[col * k + i]);
      want += product;
      sizes += std::fabs(product);
    }
    if (!(std::fabs(static_cast<double>(row[col]) - want) <= static_cast<double>(k + 2) * 0x1p-24 * sizes))
      throw std::runtime_error(fmt::format("column {} of {}x{}x{} is {}, expected {}", col, m, n, k, row[col], want));
  }
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  std::size_t number = 0;
  int runs = 7;
  std::vector<std::size_t> rows{1, 16, 64, 128, 512, 4096};
  std::vector<std::string> shapes{"4096x4096", "7168x16384", "24576x1536", "2112x7168"};
  std::string csv, library = "libclblast.so.1";
  CLI::App app("CLBlast's f32 product on a device, where the library is there");
  app.footer("status 77: it is not");
  app.add_option("--device", number, "its number")->capture_default_str();
  app.add_option("--runs", runs, "calls; medians are printed")->check(CLI::PositiveNumber);
  app.add_option("--m", rows, "rows of A")->delimiter(',');
  app.add_option("--shape", shapes, "NxK")->delimiter(',');
  app.add_option("--csv", csv, "a file for the rows");
  app.add_option("--library", library, "CLBlast's file")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto sgemm = opened == nullptr ? nullptr : reinterpret_cast<Sgemm>(dlsym(opened, "CLBlastSgemm"));
  if (sgemm == nullptr) {
    fmt::print("CLBlast is not here: {}\n", dlerror());
    return kNothingToTime;
  }
  const cl::Device device = device_of_number(number);
  const cl::Context context(device);
  const cl::Buffer flush(context, CL_MEM_READ_WRITE, std::size_t{256} << 20);
  std::ofstream file;
  if (!csv.empty()) file.open(csv), file << "m,n,k,us\n";
  fmt::print("{}, CLBlast, f32; L2 cold\n", device.getInfo<CL_DEVICE_NAME>());
  for (const std::string& shape : shapes) {
    const auto sizes = ironcl::words::split(shape, 'x');
    if (sizes.size() != 2) throw std::runtime_error(fmt::format("--shape {}: write NxK", shape));
    const std::size_t n = std::stoull(std::string(sizes[0])), k = std::stoull(std::string(sizes[1]));
    for (const std::size_t m : rows) {
      const double us = microseconds(sgemm, context, device, flush, m, n, k, runs);
      fmt::print("{:>5} {:>6} {:>6} {:>10.1f} us {:>8.2f} TFLOP/s\n", m, n, k, us,
                 2e-6 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / us);
      std::fflush(stdout);
      if (file) file << fmt::format("{},{},{},{:.2f}\n", m, n, k, us);
    }
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "ironcl_gpu_clblast: {}\n", error.what());
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// One kernel under a magnifying glass: `ironcl_kernels M N K [option value]...` runs a plan of the OpenCL backend
// beside OpenBLAS on weights dequantised to f32, taking turns, and prints wall time and processor time of both.
// Processor time (all threads together) says what a kernel costs also on a machine that others use; wall time does
// not. The ladder of batch sizes against all peers is cpu_peers.cpp.
#include <cblas.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "backends/numerics/casts.h"
#include "backends/opencl/backend.h"

namespace {

using namespace ironcl;
using backend::DType;

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Times {
  std::vector<double> wall, processor;
  template <class F>
  void time(F&& call) {
    const auto start = std::chrono::steady_clock::now();
    const double before = processor_seconds();
    call();
    processor.push_back(processor_seconds() - before);
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  static double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }
};

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) {
    fmt::print(stderr, "usage: ironcl_kernels M N K [option value]...\n");
    return 2;
  }
  const std::int64_t m = std::stoll(arguments[0]), n = std::stoll(arguments[1]), k = std::stoll(arguments[2]);
  opencl::Config config;
  config.trial_program = IRONCL_TRIAL_PROGRAM;
  config.kernel_dir = std::getenv("IRONCL_CL_DIR") != nullptr ? std::getenv("IRONCL_CL_DIR") : "";
  const auto maker = opencl::make_backend(config, nullptr);
  const auto devices = maker->devices();
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [](const auto& d) { return d->props().type == backend::DeviceType::cpu; });
  if (found == devices.end()) throw backend::Error(backend::Status::unavailable, "no OpenCL device is a CPU");
  backend::Device& device = **found;

  backend::GemmDesc desc;
  desc.m = m, desc.n = desc.ldd = n, desc.k = desc.lda = k;
  desc.a = desc.b = DType::e4m3fn;
  desc.d = DType::f32;
  desc.a_scale = {DType::f32, {1, 128}, (k + 127) / 128};
  desc.b_scale = {DType::f32, {128, 128}, (k + 127) / 128};
  for (std::size_t i = 3; i + 1 < arguments.size(); i += 2) desc.options.emplace_back(arguments[i], arguments[i + 1]);
  const auto plan = device.create_gemm(desc);

  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  std::vector<std::uint8_t> a(size(m * k)), b(size(n * k));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::uint8_t>((i * 2654435761u >> 13) % 126);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::uint8_t>(128 + (i * 40503u >> 7) % 126);
  const std::vector<float> a_scale(size(m * desc.a_scale.ld), 0.5f),
      b_scale(size((n + 127) / 128 * desc.b_scale.ld), 0.25f);
  backend::WeightsDesc w;
  w.dtype = DType::e4m3fn;
  w.n = n, w.k = w.ld = k;
  w.scale = desc.b_scale;
  w.data = reinterpret_cast<const std::byte*>(b.data());
  w.scales = reinterpret_cast<const std::byte*>(b_scale.data());
  w.plan = plan;
  const auto queue = device.create_queue();
  backend::GemmArgs args;
  args.m = m;
  args.weights = device.prepare_weights(w);
  const auto upload = [&](const void* data, std::size_t bytes) {
    backend::Span span{device.create_buffer(bytes), 0, bytes};
    queue->write(span, data, backend::HostSemantics::copied_before_return);
    return span;
  };
  args.a = upload(a.data(), a.size());
  args.a_scale = upload(a_scale.data(), a_scale.size() * 4);
  std::vector<float> d(size(m * n)), want(size(m * n)), a32(a.size()), b32(b.size());
  args.d = upload(d.data(), d.size() * 4);
  numerics::decode(DType::e4m3fn, a.data(), std::span<float>(a32));
  numerics::decode(DType::e4m3fn, b.data(), std::span<float>(b32));
  for (float& v : b32) v *= 0.125f;

  Times ours, theirs;
  for (int round = 0; round < 9; ++round) {
    ours.time([&] { plan->enqueue(queue, args)->wait(std::chrono::nanoseconds::max()); });
    theirs.time([&] {
      if (m == 1) {
        cblas_sgemv(CblasRowMajor, CblasNoTrans, static_cast<int>(n), static_cast<int>(k), 1, b32.data(),
                    static_cast<int>(k), a32.data(), 1, 0, want.data(), 1);
      } else {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), static_cast<int>(n),
                    static_cast<int>(k), 1, a32.data(), static_cast<int>(k), b32.data(), static_cast<int>(k), 0,
                    want.data(), static_cast<int>(n));
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // A BLAS's threads spin for a while after a call.
  }
  queue->read(args.d, d.data())->wait(std::chrono::nanoseconds::max());
  double worst = 0;
  for (std::size_t i = 0; i < d.size(); ++i)
    worst = std::max(worst, std::abs(1.0 - static_cast<double>(d[i] / want[i])));
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto line = [&](const std::string& name, const Times& times) {
    const double wall = Times::median(times.wall), processor = Times::median(times.processor);
    fmt::print("{:<10} {:9.3f} ms {:7.1f} GFLOP/s | processor {:9.3f} ms {:6.1f} GFLOP/s a core\n", name, wall * 1e3,
               flops / wall * 1e-9, processor * 1e3, flops / processor * 1e-9);
  };
  fmt::print("{}x{}x{} {} {}\n", m, n, k, plan->info().variant, plan->info().tuning);
  line("ironcl", ours);
  line("openblas", theirs);
  fmt::print("ratio      {:.2f} wall, {:.2f} processor; largest relative difference {:.1e}\n",
             Times::median(theirs.wall) / Times::median(ours.wall),
             Times::median(theirs.processor) / Times::median(ours.processor), worst);
  return worst < 1e-3 ? 0 : 1;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run({values + 1, values + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "ironcl_kernels: {}\n", error.what());
    return 1;
  }
}

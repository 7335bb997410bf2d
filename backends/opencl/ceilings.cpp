// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/ceilings.h"

#include <bit>

#include "backends/opencl/arguments.h"

namespace ironcl::opencl {
namespace {

/// A kernel of cl/ceilings.cl; `width` and `chains` are multiply_add's.
cl::Kernel kernel_of(const Context& context, const char* name, int width, int chains) {
  Defines defines = device_defines(context.features);
  defines["VEC"] = std::to_string(width);
  defines["CHAINS"] = std::to_string(chains);
  return {context.builder->build("ceilings.cl", defines), name};
}

cl::CommandQueue timing_queue(const Context& context) {
  return cl::CommandQueue(context.context, context.device, CL_QUEUE_PROFILING_ENABLE);
}

/// Work over the median time of runs that last `least` seconds together, after a third as many that are not counted.
/// 0 where the device's clock shows no time.
double median_rate(double work, double least, const cl::CommandQueue& queue, const cl::Kernel& kernel,
                   std::size_t items, std::size_t local) {
  const auto run_for = [&](double seconds) -> std::vector<double> {
    std::vector<double> times;
    double spent = 0;
    while (spent < seconds) {
      cl::Event event;
      queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(items), cl::NDRange(local), nullptr, &event);
      times.push_back(seconds_of_run(event));
      if (!(times.back() > 0)) return {};
      spent += times.back();
    }
    return times;
  };
  std::vector<double> times = run_for(least / 3);
  if (!times.empty()) times = run_for(least);
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return work / *middle;
}

}  // namespace

double measure_fma_flops(const Context& context, double seconds) {
  return guarded("measuring a device's multiply-adds", [&] {
    const Features& f = context.features;
    const bool vectors = f.prefers_vectors();
    const int width = vectors ? (f.vector_width >= 16 ? 16 : f.vector_width >= 8 ? 8 : 4) : 1;
    const int chains = vectors ? 16 : 8;
    cl::Kernel kernel = kernel_of(context, "multiply_add", width, chains);
    const auto local = vectors ? 1 : std::min<std::size_t>(256, f.max_work_group);
    const std::size_t items = f.compute_units * 8 * local;
    const int steps = vectors ? 200000 : 20000;
    const cl::Buffer out(context.context, CL_MEM_WRITE_ONLY, items * sizeof(float));
    bind<MultiplyAddArg::out>(kernel, out);
    bind<MultiplyAddArg::x>(kernel, 0.999f);
    bind<MultiplyAddArg::y>(kernel, 0.001f);
    bind<MultiplyAddArg::steps>(kernel, steps);
    const double work = 2.0 * width * chains * steps * static_cast<double>(items);
    return median_rate(work, seconds, timing_queue(context), kernel, items, local);
  });
}

double measure_copy_rate(const Context& context, double seconds) {
  return guarded("measuring a device's copies", [&]() -> double {
    const cl::CommandQueue queue = timing_queue(context);
    const Features& f = context.features;
    // Several times any cache, but no more than a quarter of what one buffer may be.
    const std::uint64_t wanted = f.prefers_vectors() ? std::uint64_t{256} << 20 : std::uint64_t{1} << 30;
    const std::uint64_t bytes = std::min<std::uint64_t>(wanted, f.max_buffer_bytes / 4) / (1 << 20) * (1 << 20);
    if (bytes == 0) return 0;
    const std::uint64_t vectors = bytes / 16;
    cl::Kernel kernel = kernel_of(context, "copy", 1, 8);
    const bool runs = f.prefers_vectors();  // each work-item copies a run; else neighbours copy neighbours
    const std::size_t local = runs ? 1 : std::bit_floor(std::min<std::size_t>(256, f.max_work_group));
    const std::uint64_t items = runs ? 256 : vectors / 4;  // A multiple of 16384.
    const cl::Buffer from(context.context, CL_MEM_READ_ONLY, bytes), to(context.context, CL_MEM_WRITE_ONLY, bytes);
    queue.enqueueFillBuffer(from, cl_uint{0x9e3779b9u}, 0, bytes);
    queue.enqueueFillBuffer(to, cl_uint{0}, 0, bytes);
    queue.finish();
    bind<CopyArg::from>(kernel, from);
    bind<CopyArg::to>(kernel, to);
    bind<CopyArg::per_item>(kernel, vectors / items);
    bind<CopyArg::stride>(kernel, runs ? 1 : items);
    bind<CopyArg::item_step>(kernel, runs ? vectors / items : 1);
    return median_rate(2.0 * static_cast<double>(bytes), seconds, queue, kernel, items, local);
  });
}

}  // namespace ironcl::opencl

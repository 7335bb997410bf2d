// SPDX-License-Identifier: Apache-2.0
// The same call many times on one queue, without a pause: D has the same bits each time. A race between the
// work-items of a kernel, or with a copy under way, shows now and then only, in calls that come one after another and
// on shapes that fill the device; one call compared with the oracle does not see it. Next door:
// every_kernel_test.cpp.
#include <array>

#include "backends/opencl/variant.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

/// How many of `calls` calls of `c` gave other bits of D than the first one.
int calls_that_differ(backend::Device& device, const Case& c, const Data& data, int calls) {
  const backend::GemmDesc desc = c.desc();
  const auto plan = device.create_gemm(desc);
  backend::WeightsDesc w;
  w.dtype = c.b;
  w.n = c.n;
  w.k = c.k;
  w.ld = c.k;
  w.scale = desc.b_scale;
  w.data = reinterpret_cast<const std::byte*>(data.b.data());
  w.scales = reinterpret_cast<const std::byte*>(data.b_scales.data());
  w.plan = plan;
  const auto queue = device.create_queue();
  const auto upload = [&](const std::vector<std::uint8_t>& bytes) {
    const backend::Span span{device.create_buffer(bytes.size()), 0, bytes.size()};
    queue->write(span, bytes.data(), backend::HostSemantics::copied_before_return);
    return span;
  };
  backend::GemmArgs args;
  args.m = c.m;
  args.weights = device.prepare_weights(w);
  args.a = upload(data.a);
  if (!data.a_scales.empty()) args.a_scale = upload(data.a_scales);
  args.d = upload(std::vector<std::uint8_t>(static_cast<std::size_t>(c.m * desc.ldd) * numerics::size_of(c.d), 0xff));
  int differ = 0;
  std::vector<std::uint8_t> first(args.d.size), now(args.d.size);
  for (int i = 0; i < calls; ++i) {
    // Two calls at a time, the second right behind the first: what that leaves in caches is what a layer finds.
    plan->enqueue(queue, args);
    plan->enqueue(queue, args);
    queue->read(args.d, i == 0 ? first.data() : now.data());
    queue->finish();
    if (i > 0 && now != first) ++differ;
  }
  return differ;
}

TEST(OpenClRepeats, EveryCallHasTheBitsOfTheFirst) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  for (const auto& device : devices()) {
    // A GPU has rings to fill; a processor's kernels have none, and cost a second where a GPU takes a millisecond.
    const bool gpu = device->props().type == backend::DeviceType::gpu;
    const std::vector<std::array<std::int64_t, 3>> shapes =
        gpu ? std::vector<std::array<std::int64_t, 3>>{{16, 2112, 7168},
                                                       {64, 2112, 7168},
                                                       {128, 4096, 7168},
                                                       {512, 4096, 2048}}
            : std::vector<std::array<std::int64_t, 3>>{{33, 200, 640}};
    for (const Variant& variant : variants()) {
      for (const auto& [m, n, k] : shapes) {
        Case c{m, n, k};
        c.d = DType::bf16;
        c.weakest = backend::AccuracyClass::tensor14;
        c.options = {{"variant", variant.name}};
        if (device->supports(c.desc()).reason != backend::Reason::none) continue;
        EXPECT_EQ(calls_that_differ(*device, c, make_data(c), gpu ? 150 : 6), 0)
            << device->props().name << ": " << c.line();
      }
    }
  }
}

// Where K is not in parts each work-group walks all of it, and its rings go round most often.
TEST(OpenClRepeats, FewRowsInOnePartHaveTheBitsOfTheFirstCall) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  int ran = 0;
  for (const auto& device : devices()) {
    for (const char* variant : {"gemm_wgmma_few_f16", "gemm_wgmma_f16"}) {
      for (const char* tile_m : {"64", "128"}) {
        for (const auto& [n, k] :
             std::vector<std::array<std::int64_t, 2>>{{2112, 7168}, {4096, 4096}, {4096, 7168}}) {
          Case c{128, n, k};
          c.d = DType::bf16;
          c.options = {{"variant", variant}, {"tile_m", tile_m}, {"split_k", "1"}};
          if (device->supports(c.desc()).reason != backend::Reason::none) continue;
          ++ran;
          EXPECT_EQ(calls_that_differ(*device, c, make_data(c), 300), 0) << device->props().name << ": " << c.line();
        }
      }
    }
  }
  if (ran == 0) GTEST_SKIP() << "no device of compute capability 9.0";
}

}  // namespace
}  // namespace ironcl::opencl::testing

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

/// How many of `pairs` pairs of calls of `c` gave other bits of D than the first call. D is poisoned before each.
int pairs_that_differ(backend::Device& device, const Case& c, int pairs) {
  Ready ready(device, c);
  const std::uint64_t size = ready.args.d.size;
  const std::vector<std::uint8_t> poison(size, 0xff);
  // The second call comes right behind the first, and what that leaves in caches is what a layer finds.
  const std::array<backend::Span, 2> places{ready.args.d, {device.create_buffer(size), 0, size}};
  std::array<std::vector<std::uint8_t>, 2> d{poison, poison};
  std::vector<std::uint8_t> first;
  int differ = 0;
  for (int i = 0; i < pairs; ++i) {
    for (const backend::Span& place : places)
      ready.queue->write(place, poison.data(), backend::HostSemantics::copied_before_return);
    for (const backend::Span& place : places) {
      ready.args.d = place;
      ready.plan->enqueue(ready.queue, ready.args);
    }
    for (std::size_t j = 0; j < places.size(); ++j) ready.queue->read(places[j], d[j].data());
    ready.queue->finish();
    if (i == 0) first = d[0];
    if (d[0] != first || d[1] != first) ++differ;
  }
  return differ;
}

/// How many of `pairs` pairs of calls, of A and of its rows in the reverse order in turns, gave other bits of D than
/// the first call of that A. What a call leaves in its workspace must not be taken for what the next one makes there.
int pairs_in_turns_that_differ(backend::Device& device, const Case& c, int pairs) {
  Ready ready(device, c);
  const backend::Span a = ready.args.a, d = ready.args.d;
  std::vector<std::uint8_t> values(a.size), rows(a.size), poison(d.size, 0xff), result(d.size);
  ready.queue->read(a, values.data());
  ready.queue->finish();
  const std::uint64_t row = a.size / static_cast<std::uint64_t>(c.m);
  for (std::uint64_t i = 0; i < a.size; ++i) rows[i] = values[a.size - row * (i / row + 1) + i % row];
  const std::array<backend::Span, 2> all{a, {device.create_buffer(a.size), 0, a.size}};
  ready.queue->write(all[1], rows.data(), backend::HostSemantics::copied_before_return);
  std::array<std::vector<std::uint8_t>, 2> first;
  int differ = 0;
  for (int i = 0; i < 2 * pairs; ++i) {
    ready.queue->write(d, poison.data(), backend::HostSemantics::copied_before_return);
    ready.args.a = all[static_cast<std::size_t>(i % 2)];
    ready.plan->enqueue(ready.queue, ready.args);
    ready.queue->read(d, result.data());
    ready.queue->finish();
    std::vector<std::uint8_t>& expected = first[static_cast<std::size_t>(i % 2)];
    if (i < 2) expected = result;
    if (result != expected) ++differ;
  }
  EXPECT_NE(first[0], first[1]);
  return differ;
}

using OpenClRepeats = OnDevices;

TEST_F(OpenClRepeats, EveryCallHasTheBitsOfTheFirst) {
  for (const auto& device : devices()) {
    // A GPU has rings to fill; a processor's kernels have none, and cost a second where a GPU takes a millisecond.
    const bool gpu = device->props().type == backend::DeviceType::gpu;
    const std::vector<std::array<std::int64_t, 3>> shapes =
        gpu ? std::vector<std::array<std::int64_t, 3>>{{4, 24576, 4096},
                                                       {16, 2112, 7168},
                                                       {64, 2112, 7168},
                                                       {128, 4096, 7168},
                                                       {512, 4096, 2048}}
            : std::vector<std::array<std::int64_t, 3>>{{33, 200, 640}};
    for (const Variant& variant : variants()) {
      for (const auto& [m, n, k] : shapes) {
        Case c{.m = m, .n = n, .k = k, .d = DType::bf16, .weakest = backend::AccuracyClass::tensor14};
        c.options = {{"variant", variant.name}};
        if (device->supports(c.desc()).reason != backend::Reason::none) continue;
        EXPECT_EQ(pairs_that_differ(*device, c, gpu ? 150 : 6), 0) << device->props().name << ": " << c.line();
      }
    }
  }
}

TEST_F(OpenClRepeats, CodesThatACallMakesAreThoseOfItsOwnRows) {
  bool ran = false;
  for (const auto& device : devices()) {
    const bool gpu = device->props().type == backend::DeviceType::gpu;
    for (const Variant& variant : variants()) {
      if (!variant.numbered_calls) continue;
      for (const std::int64_t m : {4, 16, 32}) {
        Case c{.m = m, .n = gpu ? 4096 : 200, .k = gpu ? 4096 : 640, .a_source = DType::bf16, .d = DType::bf16};
        c.options = {{"variant", variant.name}};
        if (device->supports(c.desc()).reason != backend::Reason::none) continue;
        ran = true;
        EXPECT_EQ(pairs_in_turns_that_differ(*device, c, gpu ? 100 : 4), 0)
            << device->props().name << ": " << c.line();
      }
    }
  }
  if (!ran) GTEST_SKIP() << "no device that such a kernel runs on";
}

// Where K is not in parts each work-group walks all of it, and its rings go round most often.
TEST_F(OpenClRepeats, FewRowsInOnePartHaveTheBitsOfTheFirstCall) {
  int ran = 0;
  struct Tried {
    std::int64_t m;
    backend::Options options;
  };
  const std::vector<Tried> all{{128, {{"variant", "gemm_wgmma_few_f16"}, {"tile_m", "64"}, {"tile_n", "64"}}},
                               {128, {{"variant", "gemm_wgmma_few_f16"}, {"tile_m", "128"}, {"tile_n", "128"}}},
                               {512, {{"variant", "gemm_wgmma_few_f16"}, {"tile_m", "128"}, {"tile_n", "64"}}},
                               {128, {{"variant", "gemm_wgmma_f16"}, {"tile_m", "64"}}},
                               {128, {{"variant", "gemm_wgmma_f16"}, {"tile_m", "128"}}}};
  for (const auto& device : devices()) {
    for (const Tried& tried : all) {
      for (const auto& [n, k] : std::vector<std::array<std::int64_t, 2>>{{2112, 7168}, {4096, 4096}, {4096, 7168}}) {
        Case c{.m = tried.m, .n = n, .k = k, .d = DType::bf16, .options = tried.options};
        c.options.emplace_back("split_k", "1");
        if (device->supports(c.desc()).reason != backend::Reason::none) continue;
        ++ran;
        EXPECT_EQ(pairs_that_differ(*device, c, 300), 0) << device->props().name << ": " << c.line();
      }
    }
  }
  if (ran == 0) GTEST_SKIP() << "no device of compute capability 9.0";
}

}  // namespace
}  // namespace ironcl::opencl::testing

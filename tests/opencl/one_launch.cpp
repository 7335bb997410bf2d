// SPDX-License-Identifier: Apache-2.0
#include "tests/opencl/one_launch.h"

#include <array>
#include <chrono>
#include <tuple>

namespace ironcl::opencl::testing {

using backend::DType;

Case one_launch_of(const std::string& variant, const backend::Options& cut, const char* floats) {
  Case c{.m = 70, .n = 200, .k = 640, .a_source = DType::bf16, .options = {{"variant", variant}, {"floats", floats}}};
  c.options.insert(c.options.end(), cut.begin(), cut.end());
  return c;
}

void expect_one_launch_is_right(backend::Device& device, const std::string& variant, const Cuts& cuts) {
  // Last tiles of 14 and of 5 rows have 3 in each: a kernel is compiled for every such height.
  const std::vector<std::array<std::int64_t, 3>> shapes{{73, 64, 512}, {73, 97, 300}, {143, 72, 2600}, {3, 700, 129}};
  std::uint32_t seed = 1300;
  const auto of = [&](Case c, const std::array<std::int64_t, 3>& shape, std::int64_t group) {
    std::tie(c.m, c.n, c.k) = std::tuple_cat(shape);
    c.a_grid = {1, group};
    c.b_grid = {group, group};
    c.seed = seed;
    Outcome outcome = run(device, c, make_data(c));
    expect_right(outcome, c, device.props().name);
    return outcome.bytes;
  };
  for (const auto& shape : shapes) {
    ++seed;
    for (const backend::Options& cut : cuts.usual) {
      const Case c = one_launch_of(variant, cut);
      EXPECT_EQ(of(one_launch_of(variant, cut, "0"), shape, 128), of(c, shape, 128)) << c.line() << ", seed " << seed;
    }
    Case c = one_launch_of(variant, cuts.narrow);
    c.a = c.b = DType::e5m2;
    c.a_source = DType::f32;
    of(c, shape, 64);
    c = one_launch_of(variant, cuts.wide);
    c.a = c.b = DType::i8;
    c.a_source = DType::f16;
    c.bias = DType::f32;
    of(c, shape, 128);
  }
}

void expect_calls_do_not_see_each_other(backend::Device& device, const Case& c) {
  Ready ready(device, c);
  const std::uint64_t bytes = ready.plan->info().workspace_bytes;
  ready.args.workspace = {device.create_buffer(bytes), 0, bytes};
  const auto fill = [&](const backend::Span& span, std::uint8_t with) {
    const std::vector<std::uint8_t> filling(span.size, with);
    ready.queue->write(span, filling.data(), backend::HostSemantics::copied_before_return);
  };
  std::vector<std::uint8_t> first;
  for (int call = 0; call < 4; ++call) {
    if (call < 2) fill(ready.args.workspace, call == 0 ? 0 : 0xff);
    fill(ready.args.d, 0xff);
    ready.plan->enqueue(ready.queue, ready.args)->wait(kForEver);
    std::vector<std::uint8_t> d(ready.args.d.size);
    ready.queue->read(ready.args.d, d.data())->wait(kForEver);
    if (call == 0) first = d;
    EXPECT_EQ(d, first) << "call " << call;
  }
}

}  // namespace ironcl::opencl::testing

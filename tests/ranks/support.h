// SPDX-License-Identifier: Apache-2.0
// Ranks for tests, devices for them, and layers with the same made by one device alone.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "host/include/ironcl/ranks.hpp"
#include "host/layer/oracle.h"
#include "host/layer/synthetic.h"
#include "host/ranks/spread.h"
#include "host/report/problem.h"
#include "tests/errors.h"

namespace ironcl::ranks {

using Bytes = std::vector<std::byte>;

/// The processes of mpirun, where it started this; null else.
inline Transport* world() {
  static const std::unique_ptr<Transport> processes = open_processes();
  return processes.get();
}

/// The first `count` ranks of another transport.
class Few final : public Transport {
 public:
  Few(Transport& all, int count) : all_(all), count_(count) {}
  int rank() const override { return all_.rank(); }
  int size() const override { return count_; }
  std::unique_ptr<Message> send(int to, std::span<const std::byte> bytes) override { return all_.send(to, bytes); }
  std::unique_ptr<Message> receive(int from, std::span<std::byte> bytes) override {
    return all_.receive(from, bytes);
  }

 private:
  Transport& all_;
  int count_;
};

/// Runs `work` on so many ranks, between which there are `ways` transports that do not mix: processes, if there are
/// as many, else threads.
inline void on_ways(int count, std::size_t ways, const std::function<void(const std::vector<Transport*>&)>& work) {
  std::vector<Transport*> all(ways);
  if (world() == nullptr || world()->size() < count) {
    std::deque<ThreadRanks> threads;
    while (threads.size() < ways) threads.emplace_back(count);
    return threads[0].run([&](Transport& first) {
      std::vector<Transport*> own;
      for (ThreadRanks& one : threads) own.push_back(&one.at(first.rank()));
      work(own);
    });
  }
  std::deque<std::unique_ptr<Transport>> opened;
  std::deque<Few> few;
  for (Transport*& way : all) {
    if (!few.empty()) opened.push_back(open_processes());
    way = &few.emplace_back(opened.empty() ? *world() : *opened.back(), count);
  }
  if (world()->rank() < count) work(all);
}
inline void on_transports(int count, const std::function<void(Transport&)>& work) {
  on_ways(count, 1, [&](const std::vector<Transport*>& ways) { work(*ways[0]); });
}

/// The same, each with a group of its own.
inline void on_ranks(int count, const std::function<void(Group&)>& work, Group::Settings settings = {}) {
  on_transports(count, [&](Transport& transport) {
    Group group(transport, settings);
    work(group);
  });
}

/// What rank 0 has, on every process.
inline void share(std::span<std::byte> bytes) {
  if (world() == nullptr) return;
  Group all(*world());
  std::vector<std::size_t> receive(static_cast<std::size_t>(all.size()));
  receive[0] = bytes.size();
  Exchange exchange = all_gather(
      all, "share", all.rank() == 0 ? std::span<const std::byte>(bytes) : std::span<const std::byte>(), receive);
  exchange.finish();
  std::copy(exchange.from(0).begin(), exchange.from(0).end(), bytes.begin());
}

/// The devices of this build: the model first, then what OpenCL has.
inline const std::vector<Device>& devices() {
  static const std::vector<Device> all = [] {
    Registry::Options options{.use_environment = false, .plugin_dirs = REAL_PLUGIN_DIR};
    const Registry registry = Registry::discover(options);
    std::vector<Device> found{registry.device("ironwood:0")};
    for (const Device& device : registry.devices())
      if (device.plugin() == "opencl") found.push_back(device);
    return found;
  }();
  return all;
}

/// The device of a rank: `device` and those of its name take turns, as ranks do on a host with several.
inline const Device& turn(const Device& device, int rank) {
  std::vector<const Device*> alike;
  for (const Device& one : devices())
    if (one.plugin() == device.plugin() && std::string_view(one.props().name) == device.props().name)
      alike.push_back(&one);
  const auto first = std::find_if(alike.begin(), alike.end(), [&](auto* one) { return one->uri() == device.uri(); });
  return *alike[static_cast<std::size_t>(first - alike.begin() + rank) % alike.size()];
}

/// A layer in host memory, with activations.
struct Example {
  explicit Example(const std::string& line, std::uint64_t seed = 7)
      : problem(report::parse_problem(line)), made(layer::make_operands(problem, seed)) {}

  /// Every block of B gets a power of two of its own, 2^-8 to 2^7 over and over, so that sums of few terms are exact.
  void distinct_scales() {
    auto* scales = reinterpret_cast<float*>(made.b_scale.data());
    for (std::size_t i = 0; i < made.b_scale.size() / sizeof(float); ++i)
      scales[i] = std::ldexp(1.0f, static_cast<int>(i * 5 % 16) - 8);
  }
  Whole whole() const {
    return {report::to_gemm_desc(problem),
            {.n = problem.n,
             .k = problem.k,
             .dtype = static_cast<ironcl_dtype>(problem.b),
             .scale = report::to_desc(problem.b_scale),
             .data = made.b,
             .scales = made.b_scale},
            made.bias};
  }
  std::size_t d_bytes() const {
    return bytes_of_elements(static_cast<ironcl_dtype>(problem.d), problem.m * problem.n);
  }
  /// What one device makes of a layer, or of a part of one, of whose A the columns from `first_col` on are its own.
  static Bytes alone(const Device& device, const Whole& whole, const Bytes& x, std::int64_t ld = 0,
                     std::int64_t first_col = 0) {
    const GemmDesc& desc = whole.problem;
    Queue queue(device);
    detail::Product product(device, queue, whole, {{0, desc.n}}, {0, desc.k}, desc.d, desc.bias != IRONCL_DTYPE_NONE);
    Bytes d(bytes_of_elements(desc.d, desc.m * desc.n));
    if (d.empty()) return d;
    product.write(queue, x, desc.m, ld == 0 ? desc.k : ld, first_col);
    product.run(queue, desc.m);
    queue.read(product.d(desc.m), std::span(d)).wait();
    return d;
  }
  Bytes alone(const Device& device) const { return alone(device, whole(), made.a); }
  /// By ranks, the same on each of them.
  Bytes spread(const Device& device, int ranks, const Choices& choices, Group::Settings settings = {}) const {
    std::vector<Bytes> all(static_cast<std::size_t>(ranks));
    on_ranks(
        ranks,
        [&](Group& group) {
          Linear linear(group, turn(device, group.rank()), whole(), choices);
          Bytes d(d_bytes());
          linear.run(problem.m, made.a, d);
          all[static_cast<std::size_t>(group.rank())] = std::move(d);
        },
        settings);
    Bytes first = all[0];
    first.resize(d_bytes());
    share(first);
    for (const Bytes& one : all) EXPECT_TRUE(one.empty() || one == first) << "ranks have different results";
    return first;
  }
  /// Against the oracle of the whole layer.
  double error_over_bound(const Bytes& d, std::int64_t accumulation_length) const {
    const layer::Graph graph = layer::graph_of(problem);
    const layer::Values want = layer::oracle_of(problem, made).evaluate(graph, {{{}, accumulation_length, {}, {}}});
    std::vector<double> got(static_cast<std::size_t>(problem.m * problem.n));
    numerics::decode(problem.d, d.data(), std::span(got));
    return numerics::compare(got, want[graph.result]).max_error_over_bound;
  }

  report::Problem problem;
  layer::MadeOperands made;
};

}  // namespace ironcl::ranks

// SPDX-License-Identifier: Apache-2.0
// Layers back to back: the products of a layer, whose weights have a copy per layer.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "host/cli/bench.h"
#include "host/layer/expected.h"
#include "host/layer/runner.h"
#include "host/layer/synthetic.h"

namespace ironcl::cli {
namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// The products of a layer, each a list by itself with a copy of its weights per layer.
class Chain {
 public:
  Chain(const Device& device, const std::vector<MeasuredLayer>& products, std::int64_t rows, std::size_t layers,
        std::uint64_t seed)
      : device_(device), queue_(device), layers_(layers) {
    for (const MeasuredLayer& product : products) add(product.problem, rows, seed, products.size());
  }

  /// The check of the last layer's products that is closest to failing.
  layer::Check check(std::int64_t check_rows) {
    for (const Product& product : products_) {
      const std::vector<std::byte> nan(product.d.size, std::byte{0xff});
      if (!nan.empty()) queue_.write(product.d, std::span(nan)).wait();
    }
    run();
    layer::Check worst;
    worst.pass = true;
    for (const Product& product : products_) {
      std::vector<std::byte> d(product.d.size);
      if (!d.empty()) queue_.read(product.d, std::span(d)).wait();
      layer::Check one =
          layer::check(layer::expect(product.problem, product.last, check_rows), d, 0, product.runner->plans());
      if (!one.pass) one.why = fmt::format("{}: {}", report::to_line(product.problem), one.why);
      const double error = one.comparison.max_error_over_bound;
      if (worst.pass && (!one.pass || error > worst.comparison.max_error_over_bound)) worst = std::move(one);
    }
    return worst;
  }

  /// All layers, by the host's clock.
  layer::Timing run() {
    const Clock::time_point start = Clock::now();
    for (std::size_t at = 0; at < layers_; ++at) {
      for (Product& product : products_) {
        product.call.copy = at;
        product.runner->submit(queue_, product.call);
      }
    }
    enqueue_ns_.push_back(ns_since(start));
    queue_.finish();
    layer::Timing timing;
    timing.host_ns = ns_since(start);
    return timing;
  }

  /// The fewest bytes that a layer reads and writes.
  double bytes_of_layer() const {
    double bytes = 0;
    for (const Product& product : products_) bytes += tuning::least_bytes_of(product.problem);
    return bytes;
  }
  std::string variants() const {
    std::string names;
    for (const Product& product : products_)
      names += (names.empty() ? "" : ", ") + product.runner->plans().front().variant;
    return names;
  }
  /// Of the last `calls` calls: the median of the time until all of a call was enqueued.
  double enqueue_ns(std::size_t calls) const {
    return tuning::summarize({enqueue_ns_.end() - static_cast<std::ptrdiff_t>(calls), enqueue_ns_.end()}).median;
  }

 private:
  struct Product {
    report::Problem problem;
    std::unique_ptr<layer::Runner> runner;
    layer::Call call;
    layer::MadeOperands last;  ///< Of the last layer.
    ironcl_span d{};           ///< Of every layer: nothing of one outlives it.
  };

  void add(report::Problem problem, std::int64_t rows, std::uint64_t seed, std::size_t products) {
    problem.m = rows;
    Product product;
    product.problem = problem;
    product.runner = std::make_unique<layer::Runner>(device_, layer::graph_of(problem), rows);
    for (std::size_t at = 0; at < layers_; ++at) {
      product.last = layer::make_operands(problem, seed + at * products + products_.size());
      product.runner->prepare(0, product.last.b, product.last.b_scale, product.last.b_global);
    }
    const layer::Graph& list = product.runner->graph();
    product.call.tokens = rows;
    product.call.bound.push_back({list.find("x"), upload(product.last.a), upload(product.last.a_scale), true});
    product.d = buffer(layer::bytes_of_matrix(problem.d, rows, problem.n));
    product.call.bound.push_back({list.result, product.d, {}, false});
    products_.push_back(std::move(product));
  }

  ironcl_span buffer(std::uint64_t bytes) {
    buffers_.emplace_back(device_, std::max<std::uint64_t>(bytes, 1));
    return buffers_.back().span(0, bytes);
  }
  ironcl_span upload(const std::vector<std::byte>& bytes) {
    if (bytes.empty()) return {};
    const ironcl_span span = buffer(bytes.size());
    queue_.write(span, std::span(bytes)).wait();
    return span;
  }

  Device device_;
  Queue queue_;
  std::size_t layers_;
  std::vector<Buffer> buffers_;
  std::vector<Product> products_;
  std::vector<double> enqueue_ns_;  ///< By call.
};

}  // namespace

BenchTable chain_table(BenchTable::Say say) {
  return {
      "device m layers products variants verdict layer_ns spread enqueue_ns gbytes_per_s of_copy_ceiling "
      "max_error_over_bound runs why",
      "m layers products verdict layer_ns spread enqueue_ns gbytes_per_s of_copy_ceiling max_error_over_bound "
      "variants",
      std::move(say)};
}

bool bench_chain(const Device& device, const std::vector<MeasuredLayer>& products, std::int64_t rows,
                 std::size_t layers, const BenchSettings& settings, double copy_bytes_per_second, BenchTable& table) {
  return table.attempt({{"device", device.uri()}, {"m", rows}}, [&](BenchRow& row) {
    Chain chain(device, products, rows, layers, settings.seed);
    add_check(row, chain.check(settings.check_rows));
    Timed timed = measure([&chain] { return chain.run(); }, settings);
    timed.kind = IRONCL_TIME_MEASURED;  // By the host, who waits for all of it.
    const auto count = static_cast<double>(layers);
    add_times(row, timed, 0, chain.bytes_of_layer() * count, copy_bytes_per_second);
    row["layer_ns"] = timed.host.median / count;
    row["enqueue_ns"] = chain.enqueue_ns(timed.host.count) / count;
    row["layers"] = static_cast<std::int64_t>(layers);
    row["products"] = static_cast<std::int64_t>(products.size());
    row["variants"] = chain.variants();
  });
}

}  // namespace ironcl::cli

// SPDX-License-Identifier: Apache-2.0
// Layers back to back: the products of a layer, whose weights have a copy per layer.
#include "host/cli/bench_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "host/layer/expected.h"
#include "host/layer/runner.h"
#include "host/layer/synthetic.h"
#include "host/report/units.h"
#include "host/tuning/ceilings.h"
#include "host/tuning/statistics.h"

namespace ironcl::cli {
namespace {

using report::Kind;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a step took, in nanoseconds of the host's clock.
struct Step {
  double enqueue_ns = 0;  ///< Until everything was enqueued.
  double total_ns = 0;    ///< Until the last product was done.
};

/// The products of a layer, each a list by itself with a copy of its weights per layer.
class Chain {
 public:
  Chain(const Device& device, const std::vector<MeasuredLayer>& products, std::int64_t rows,
        const ChainBench& settings)
      : device_(device), queue_(device), layers_(settings.layers) {
    for (std::size_t i = 0; i < products.size(); ++i) add(products[i].problem, rows, settings, i, products.size());
  }

  /// The largest error of the last layer's products, as a share of their bounds; `why` says what is wrong.
  double check(std::int64_t check_rows, std::string& why) {
    for (const Product& product : products_) {
      const std::vector<std::byte> nan(product.d.size, std::byte{0xff});
      if (!nan.empty()) queue_.write(product.d, std::span(nan)).wait();
    }
    run();
    double worst = 0;
    for (const Product& product : products_) {
      std::vector<std::byte> d(product.d.size);
      if (!d.empty()) queue_.read(product.d, std::span(d)).wait();
      const layer::Check check =
          layer::check(layer::expect(product.problem, product.last, check_rows), d, 0, product.runner->plans());
      worst = std::max(worst, check.comparison.max_error_over_bound);
      if (!check.pass && why.empty()) why = fmt::format("{}: {}", report::to_line(product.problem), check.why);
    }
    return worst;
  }

  Step run() {
    Event last;
    const double before = now_ns();
    for (std::size_t at = 0; at < layers_; ++at) {
      for (Product& product : products_) {
        product.call.copy = at;
        last = product.runner->enqueue(queue_, product.call);
      }
    }
    const double enqueued = now_ns();
    last.wait();
    return {enqueued - before, now_ns() - before};
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

 private:
  struct Product {
    report::Problem problem;
    std::unique_ptr<layer::Runner> runner;
    layer::Call call;
    layer::MadeOperands last;  ///< Of the last layer.
    ironcl_span d{};           ///< Of every layer: nothing of one outlives it.
  };

  void add(report::Problem problem, std::int64_t rows, const ChainBench& settings, std::size_t number,
           std::size_t products) {
    problem.m = rows;
    Product product;
    product.problem = problem;
    product.runner = std::make_unique<layer::Runner>(device_, layer::graph_of(problem), rows);
    for (std::size_t at = 0; at < layers_; ++at) {
      product.last = layer::make_operands(problem, settings.seed + at * products + number);
      product.runner->prepare(0, product.last.b, product.last.b_scale);
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
};

/// One row of the table: checked, warmed up, measured. False where the check failed.
bool measure(const Device& device, const std::vector<MeasuredLayer>& products, std::int64_t rows,
             const ChainBench& settings, report::Table& table, const std::function<void(const std::string&)>& say) {
  Chain chain(device, products, rows, settings);
  std::string why;
  const double worst = chain.check(settings.check_rows, why);
  for (double spent = 0; spent < settings.warm_up_ms * 1e6;) spent += chain.run().total_ns;
  std::vector<double> totals, enqueues;
  const auto layers = static_cast<double>(settings.layers);
  for (double spent = 0; totals.size() < static_cast<std::size_t>(settings.runs) || spent < settings.min_ms * 1e6;) {
    const Step step = chain.run();
    totals.push_back(step.total_ns / layers);
    enqueues.push_back(step.enqueue_ns / layers);
    spent += step.total_ns;
  }
  const tuning::Summary time = tuning::summarize(totals), enqueue = tuning::summarize(enqueues);
  const double rate = chain.bytes_of_layer() / time.median * 1e9;
  report::Cell share;
  if (settings.copy_bytes_per_second > 0) share = rate / settings.copy_bytes_per_second;
  const std::string verdict = why.empty() ? "pass" : "fail";
  table.add({device.uri(), rows, static_cast<std::int64_t>(settings.layers),
             static_cast<std::int64_t>(products.size()), chain.variants(), verdict, time.median, time.spread(),
             enqueue.median, rate / 1e9, share, worst, static_cast<std::int64_t>(time.count), why});
  say(fmt::format("{:>6} {:>7} {:>9}  {:<8} {:>14} {:>6.1f}% {:>11} {:>8.4g} {:>8} {:>9.3g}  {} {}\n", rows,
                  settings.layers, products.size(), verdict, report::human_text(time.median, Kind::time),
                  time.spread() * 100, report::human_text(enqueue.median, Kind::time), rate / 1e9,
                  report::human_text(share, Kind::number), worst, chain.variants(), why));
  return why.empty();
}

}  // namespace

report::Table chain_table() {
  return report::Table({{"device", "device", Kind::text},
                        {"m", "M", Kind::integer},
                        {"layers", "layers", Kind::integer},
                        {"products", "products", Kind::integer},
                        {"variants", "variants", Kind::text},
                        {"verdict", "verdict", Kind::text},
                        {"layer_ns", "time per layer", Kind::time},
                        {"spread", "spread", Kind::number},
                        {"enqueue_ns", "enqueueing", Kind::time},
                        {"gbytes_per_s", "GB/s", Kind::number},
                        {"of_copy_ceiling", "of copy", Kind::number},
                        {"max_error_over_bound", "err/bound", Kind::number},
                        {"runs", "runs", Kind::integer},
                        {"why", "why", Kind::text}});
}

bool bench_chain(const Device& device, const std::vector<MeasuredLayer>& products, const ChainBench& settings,
                 report::Table& table, const std::function<void(const std::string&)>& say) {
  say(fmt::format("{:>6} {:>7} {:>9}  {:<8} {:>14} {:>7} {:>11} {:>8} {:>8} {:>9}  {}\n", "M", "layers", "products",
                  "verdict", "time per layer", "spread", "enqueueing", "GB/s", "of copy", "err/bound", "variants"));
  bool pass = true;
  for (const std::int64_t rows : settings.rows) {
    try {
      pass = measure(device, products, rows, settings, table, say) && pass;
    } catch (const Error& error) {
      if (error.status() != IRONCL_UNSUPPORTED) throw;
      std::vector<report::Cell> row(table.columns().size());
      row[0] = device.uri();
      row[1] = rows;
      row[5] = "unsupported";
      row.back() = error.what();
      table.add(std::move(row));
      say(fmt::format("{:>6} {:>7} {:>9}  {} {}\n", rows, "-", "-", "unsupported", error.what()));
    }
  }
  return pass;
}

}  // namespace ironcl::cli

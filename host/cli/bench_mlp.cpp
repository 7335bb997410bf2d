// SPDX-License-Identifier: Apache-2.0
// A gated MLP as two products, the activation in the first, beside the same in three steps: product, activation,
// product.
#include <optional>

#include "backends/numerics/casts.h"
#include "host/cli/bench.h"
#include "host/layer/expected.h"
#include "host/layer/synthetic.h"

namespace ironcl::cli {
namespace {

using layer::MadeOperands;
using numerics::DType;

std::vector<Weights> prepare(const Gemm& plan, const Device& device, const report::Problem& problem,
                             const MadeOperands& of, std::size_t copies) {
  const WeightsDesc desc{.n = problem.b_rows(),
                         .k = problem.k,
                         .dtype = static_cast<ironcl_dtype>(problem.b),
                         .scale = report::to_desc(problem.b_scale),
                         .data = of.b,
                         .scales = of.b_scale};
  std::vector<Weights> all;
  while (all.size() < copies) all.emplace_back(device, desc, &plan);
  return all;
}

/// The three, on buffers of its own.
class Three {
 public:
  Three(const Device& device, const report::Problem& both, const report::Problem& down, const MadeOperands& of_both,
        const MadeOperands& of_down, std::size_t copies)
      : rows_(both.m), queue_(device) {
    report::Problem totals = both, last = down;
    totals.n = both.b_rows();
    totals.activation = numerics::Activation::none;
    totals.d = DType::f32;
    totals.d_scale = {};
    last.a_source = DType::none;
    both_ = Gemm(device, report::to_gemm_desc(totals));
    down_ = Gemm(device, report::to_gemm_desc(last));
    const ActivateDesc desc{.rows = rows_,
                            .cols = both.n,
                            .gate_ld = totals.n,
                            .up_ld = totals.n,
                            .x = IRONCL_F32,
                            .y = static_cast<ironcl_dtype>(down.a),
                            .scale = report::to_desc(down.a_scale)};
    activate_ = Activate(device, desc);
    of_both_ = prepare(both_, device, totals, of_both, copies);
    of_down_ = prepare(down_, device, last, of_down, copies);
    const auto bytes = [&](DType type, std::int64_t cols) { return layer::bytes_of_matrix(type, rows_, cols); };
    x_ = Buffer(device, of_both.a.size());
    totals_ = Buffer(device, bytes(DType::f32, totals.n));
    h_ = Buffer(device, bytes(down.a, both.n));
    scales_ = Buffer(device, bytes(DType::f32, down.a_scale.grid.scale_cols(both.n)));
    d_ = Buffer(device, bytes(down.d, down.n));
    half_ = layer::bytes_of_matrix(DType::f32, 1, both.n);
    queue_.write(x_, std::span(of_both.a)).wait();
  }

  void submit(Queue& queue) {
    const std::size_t copy = next_++ % of_both_.size();
    queue.submit(both_, {.m = rows_, .weights = of_both_[copy], .a = x_, .d = totals_});
    const ironcl_span gate = totals_.span(0, totals_.size() - half_),
                      up = totals_.span(half_, totals_.size() - half_);
    queue.submit(activate_, {.rows = rows_, .gate = gate, .up = up, .y = h_, .scales = scales_});
    queue.submit(down_, {.m = rows_, .weights = of_down_[copy], .a = h_, .a_scale = scales_, .d = d_});
  }

  std::vector<std::byte> compute() {
    submit(queue_);
    std::vector<std::byte> d(d_.size());
    queue_.read(d_, std::span(d)).wait();
    return d;
  }
  std::string variants() const { return std::string(both_.info().variant) + ", activation, " + down_.info().variant; }

 private:
  std::int64_t rows_;
  Queue queue_;
  Gemm both_, down_;
  Activate activate_;
  std::vector<Weights> of_both_, of_down_;
  Buffer x_, totals_, h_, scales_, d_;
  std::uint64_t half_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

bool bench_mlp(const Device& device, const MeasuredLayer& gate_up, const MeasuredLayer& then, std::int64_t rows,
               std::size_t layers, const BenchSettings& settings, double copy_bytes_per_second, BenchTable& table) {
  report::Problem both = gate_up.problem, down = then.problem;
  both.m = down.m = rows;
  both.n /= 2;
  both.activation = numerics::Activation::silu;
  const bool codes = layer::hands_on_codes(&device, rows, static_cast<double>(rows));
  both.d = codes ? down.a : DType::f32;
  if (codes) both.d_scale = {DType::f32, {1, down.a_scale.grid.group_cols}};
  down.a_source = codes ? DType::none : DType::f32;
  const layer::Graph list = layer::graph_of(both, down);
  const MadeOperands of_both = layer::make_operands(both, settings.seed),
                     of_down = layer::make_operands(down, settings.seed + 1);
  layer::Oracle oracle(
      [&](const layer::ProductOp& op, std::int64_t) {
        const MadeOperands& of = op.matrix == layer::Projection::down ? of_down : of_both;
        return layer::StackedMatrices{1, op.problem.b_rows(), op.problem.k, of.b, of.b_scale};
      },
      rows, {{"x", of_both.a}});
  const layer::Expected expected = layer::expect(std::move(oracle), list, settings.check_rows);
  const double bytes = tuning::least_bytes_of(both) + tuning::least_bytes_of(down);
  const auto attempt = [&](const char* form, std::int64_t products, const auto& fill) {
    return table.attempt({{"device", device.uri()}, {"m", rows}, {"form", form}, {"products", products}}, fill);
  };
  std::vector<layer::PlanInfo> plans;
  const bool two = attempt("two products", 2, [&](BenchRow& row) {
    layer::Runner runner(device, list, rows);
    for (std::size_t copy = 0; copy < layers; ++copy) {
      runner.prepare(0, of_both.b, of_both.b_scale);
      runner.prepare(1, of_down.b, of_down.b_scale);
    }
    plans = runner.plans();
    layer::Execution call(device, runner, rows, {{"x", of_both.a}});
    const layer::Output output = call.compute();
    add_check(row, layer::check(expected, output.d, output.unwritten, plans));
    row["variants"] = plans[0].variant + ", " + plans[1].variant;
    time_chain(
        device, [&](Queue& queue) { call.submit(queue); }, layers, bytes, settings, copy_bytes_per_second, row);
  });
  return attempt("activation between", 2,
                 [&](BenchRow& row) {
                   Three three(device, both, down, of_both, of_down, layers);
                   add_check(row, layer::check(expected, three.compute(), 0, plans));
                   row["variants"] = three.variants();
                   time_chain(
                       device, [&](Queue& queue) { three.submit(queue); }, layers, bytes, settings,
                       copy_bytes_per_second, row);
                 }) &&
         two;
}

}  // namespace ironcl::cli

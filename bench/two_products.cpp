// SPDX-License-Identifier: Apache-2.0
// Two products one after the other, H to I and back: the first one's D leaves in codes that the second one reads,
// beside the detour by way of bf16 that the second plan quantises. Both are lists of host/layer that run in turns and
// are compared with products of the same x that round nothing in between; the one with codes is judged by the oracle
// as well.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "host/layer/oracle.h"
#include "host/layer/synthetic.h"
#include "host/tuning/ceilings.h"

namespace {

using namespace ironcl;
using namespace ironcl::layer;
using numerics::DType;
using report::Problem;

struct Shape {
  std::int64_t m = 0, hidden = 0, inner = 0;
};

constexpr numerics::ScaleGrid kToken{1, 128}, kBlock{128, 128};

Problem product(std::int64_t m, std::int64_t n, std::int64_t k, bool from_codes, DType d) {
  Problem p;
  p.m = m, p.n = n, p.k = k;
  p.a_source = from_codes ? DType::none : DType::bf16;
  p.a = p.b = DType::e4m3fn, p.d = d;
  p.a_scale = {DType::f32, kToken}, p.b_scale = {DType::f32, kBlock};
  if (numerics::is_quantized(d)) p.d_scale = {DType::f32, kToken};
  return p;
}

/// x -> h -> d, h in codes or in bf16.
Graph list_of(const Shape& s, bool codes) {
  Graph list;
  const DType between = codes ? DType::e4m3fn : DType::bf16;
  Value h{"h", between, s.inner};
  if (codes) h.scales = {DType::f32, kToken};
  const ValueId x = list.add({"x", DType::bf16, s.hidden}), at_h = list.add(h),
                d = list.add({"d", DType::bf16, s.hidden});
  list.values[x].brought = list.values[d].brought = true;
  const auto add = [&](const char* name, Problem problem, ValueId a, ValueId out) {
    ProductOp op;
    op.problem = std::move(problem);
    op.matrices = {Projection::whole};
    list.operations.push_back({name, std::move(op), {a, kNoValue, kNoValue, kNoValue}, {out}});
  };
  add("up", product(s.m, s.inner, s.hidden, false, between), x, at_h);
  add("down", product(s.m, s.hidden, s.inner, codes, DType::bf16), at_h, d);
  list.result = d;
  return list;
}

/// One way on the device.
struct Way {
  Runner runner;
  Queue queue;
  Buffer x, d;
  Call call;
  std::vector<double> ns;

  Way(const Device& device, const Shape& s, bool codes, const std::array<MadeOperands, 2>& made)
      : runner(device, list_of(s, codes), s.m), queue(device), x(device, made[0].a.size()), d(device, bytes(s)) {
    for (std::size_t i = 0; i < made.size(); ++i) runner.prepare(i, made[i].b, made[i].b_scale);
    queue.write(x.span(0, made[0].a.size()), std::span(made[0].a)).wait();
    call.tokens = s.m;
    call.bound = {{runner.graph().find("x"), x.span(0, made[0].a.size()), {}, true},
                  {runner.graph().result, d.span(0, bytes(s)), {}, false}};
  }
  static std::uint64_t bytes(const Shape& s) { return bytes_of_matrix(DType::bf16, s.m, s.hidden); }
  void run() {
    const auto start = std::chrono::steady_clock::now();
    runner.enqueue(queue, call).wait();
    ns.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::vector<double> result(const Shape& s) {
    std::vector<std::byte> bytes_of_d(bytes(s));
    queue.read(d.span(0, bytes_of_d.size()), std::span(bytes_of_d)).wait();
    std::vector<double> values(static_cast<std::size_t>(s.m * s.hidden));
    numerics::decode(DType::bf16, bytes_of_d.data(), std::span(values));
    return values;
  }
};

StackedMatrices stacked(const Problem& p, const MadeOperands& made) { return {1, p.n, p.k, made.b, made.b_scale}; }

/// d of x in bf16, nothing rounded between.
std::vector<double> unrounded(const Shape& s, const std::array<MadeOperands, 2>& made) {
  const auto multiply = [&](numerics::Operand a, std::int64_t n, std::int64_t k, const MadeOperands& of) {
    StackedMatrices b = stacked(product(s.m, n, k, false, DType::f32), of);
    return numerics::oracle(a, operand_of({DType::e4m3fn, {DType::f32, kBlock}}, b)).value;
  };
  const auto operand = [&](DType type, const void* data, std::int64_t k) {
    numerics::Operand a;
    a.dtype = type, a.data = data, a.rows = s.m, a.cols = a.ld = k;
    return a;
  };
  const std::vector<double> h =
      multiply(operand(DType::bf16, made[0].a.data(), s.hidden), s.inner, s.hidden, made[0]);
  return multiply(operand(DType::f64, h.data(), s.inner), s.hidden, s.inner, made[1]);
}

void measure(const Device& device, const Shape& s, int rounds) {
  const std::array<MadeOperands, 2> made = {make_operands(product(s.m, s.inner, s.hidden, false, DType::bf16), 1),
                                            make_operands(product(s.m, s.hidden, s.inner, false, DType::bf16), 2)};
  std::array<std::unique_ptr<Way>, 2> ways;
  for (const bool codes : {false, true}) ways[codes] = std::make_unique<Way>(device, s, codes, made);
  const std::vector<double> exact = unrounded(s, made);
  for (int round = 0; round < rounds + 2; ++round) {
    for (auto& way : ways) {
      if (round == 2) way->ns.clear();  // The first two warm up.
      way->run();
    }
  }
  for (const bool codes : {false, true}) {
    Way& way = *ways[codes];
    const std::vector<double> got = way.result(s);
    std::string verdict;
    double error = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      error += (got[i] - exact[i]) * (got[i] - exact[i]);
      size += exact[i] * exact[i];
    }
    if (codes) {
      Oracle oracle(
          [&](const ProductOp& op, std::int64_t) {
            return stacked(op.problem, made[op.problem.a_source != DType::none ? 0 : 1]);
          },
          s.m, {{"x", made[0].a}});
      const Graph& list = way.runner.graph();
      const auto judged = compare(got, oracle.evaluate(list, way.runner.plans())[list.result]);
      verdict = fmt::format(", {:.3g} of the bound: {}", judged.max_error_over_bound, judged.pass ? "pass" : "FAIL");
    }
    fmt::print("{:>5} x {} x {}  {:<12} {:>10.1f} us  NMSE {:.3e}{}  ({}, {})\n", s.m, s.hidden, s.inner,
               codes ? "codes" : "through bf16", tuning::summarize(way.ns).median / 1e3, error / size, verdict,
               way.runner.plans()[0].variant, way.runner.plans()[1].variant);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("two products one after the other, codes between them beside bf16");
  std::string uri = "opencl:0";
  std::vector<std::int64_t> rows = {1, 16, 128};
  Shape shape{0, 4096, 11008};
  int rounds = 30;
  app.add_option("--device", uri)->capture_default_str();
  app.add_option("--m", rows)->delimiter(',');
  app.add_option("--hidden", shape.hidden)->capture_default_str();
  app.add_option("--inner", shape.inner)->capture_default_str();
  app.add_option("--rounds", rounds)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    const Device device = Registry::discover().device(uri);
    for (shape.m = 0; const std::int64_t m : rows) {
      shape.m = m;
      measure(device, shape, rounds);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "two products: {}\n", error.what());
    return 1;
  }
}

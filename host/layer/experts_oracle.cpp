// SPDX-License-Identifier: Apache-2.0
// A layer of experts in f64, step by step, with its bounds.
#include "host/layer/experts_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "backends/numerics/casts.h"
#include "backends/numerics/collector.h"
#include "backends/numerics/elements.h"
#include "backends/numerics/experts_oracle.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "host/layer/experts_requantize.h"
#include "host/layer/operands.h"

namespace ironcl::layer {
namespace {

using numerics::BoundTerms;
using numerics::DType;
using numerics::Operand;
using numerics::OracleResult;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnit = 0x1p-24;
/// The steepest slope of x / (1 + exp(-x)), at x = 2.3994: 1.09984.
constexpr double kSteepest = 1.1;
constexpr double kSecondOrder = 1 + 0x1p-10;
/// Of what errors of the operands make of an element, what they may add to its cut (docs/numerics.md, a layer of
/// experts).
constexpr double kCutOfError = 0x1p-4;

/// Rows of x, or of what lies between the products, as a product takes them.
struct Rows {
  DType dtype = DType::none;
  std::vector<std::byte> values;
  std::vector<float> scales;
  numerics::ScaleGrid grid{};
  std::int64_t rows = 0, cols = 0;

  Operand operand() const {
    Operand a;
    a.dtype = dtype;
    a.data = values.data();
    a.rows = rows;
    a.cols = a.ld = cols;
    if (!scales.empty()) {
      a.scale_dtype = DType::f32;
      a.scales = scales.data();
      a.grid = grid;
      a.scale_ld = grid.scale_cols(cols);
    }
    return a;
  }

  Rows gathered(const std::vector<std::int64_t>& from) const {
    Rows some{dtype, {}, {}, grid, static_cast<std::int64_t>(from.size()), cols};
    const auto width = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(cols) * numerics::size_of(dtype));
    const auto scale_cols = scales.empty() ? 0 : static_cast<std::ptrdiff_t>(grid.scale_cols(cols));
    for (const std::int64_t row : from) {
      const auto at = values.begin() + static_cast<std::ptrdiff_t>(row) * width;
      some.values.insert(some.values.end(), at, at + width);
      const auto scale = scales.begin() + static_cast<std::ptrdiff_t>(row) * scale_cols;
      some.scales.insert(some.scales.end(), scale, scale + scale_cols);
    }
    return some;
  }
};

Rows rows_of_x(const ExpertsForm& form, DType type, std::span<const std::byte> x, std::int64_t tokens) {
  Rows rows{type, {}, {}, form.x.grid, tokens, form.hidden};
  if (form.x.code == DType::none) {
    rows.values.assign(x.begin(), x.end());
    return rows;
  }
  rows.dtype = form.x.code;
  rows.values.resize(bytes_of_matrix(form.x.code, tokens, form.hidden));
  rows.scales.resize(static_cast<std::size_t>(tokens * form.x.grid.scale_cols(form.hidden)));
  numerics::quantize(type, x.data(), tokens, form.hidden, form.hidden, form.x.code, form.x.grid, form.x.quantizer,
                     {reinterpret_cast<std::uint8_t*>(rows.values.data()), rows.values.size()}, rows.scales);
  return rows;
}

BoundTerms terms_of(const ExpertsPlanInfo& plan, std::int64_t k) {
  return {DType::f32, plan.accuracy, k, plan.accumulation_length};
}

/// A product with the bound of its elements; columns [first, first + cols) of it.
Bounded columns(const OracleResult& product, const BoundTerms& terms, std::int64_t first, std::int64_t cols) {
  Bounded all{product.rows, cols, {}, {}};
  for (std::int64_t row = 0; row < product.rows; ++row) {
    for (std::int64_t col = first; col < first + cols; ++col) {
      const auto at = static_cast<std::size_t>(row * product.cols + col);
      all.value.push_back(product.value[at]);
      all.bound.push_back(numerics::element_bound(terms, product.value[at], product.sizes(at)));
    }
  }
  return all;
}

/// silu(gate) * up, and how far a device's may be from it: the errors of gate and up as far as the function lets them
/// through, and its own.
Bounded activated(const Bounded& gate, const Bounded& up) {
  Bounded h{gate.rows, gate.cols, {}, {}};
  for (std::size_t i = 0; i < gate.value.size(); ++i) {
    const double g = gate.value[i], u = up.value[i], dg = gate.bound[i], du = up.bound[i];
    const numerics::Within own = numerics::activation_oracle(numerics::Activation::silu, g, u, 0);
    const double silu = std::fabs(g / (1 + std::exp(-g)));
    const double through = kSteepest * dg * (std::fabs(u) + du) + silu * du;
    h.value.push_back(own.value);
    h.bound.push_back(std::isfinite(own.value) ? kSecondOrder * (through + own.error) : kInfinity);
  }
  return h;
}

/// h as the second product takes it; `h` keeps values and bounds of exactly that.
Rows requantized(const ExpertsActivations& form, Bounded& h) {
  Rows rows{form.code, {}, {}, form.grid, h.rows, h.cols};
  if (form.code == DType::none) {
    // Unquantised, in f32.
    rows.dtype = DType::f64;
    for (std::size_t i = 0; i < h.value.size(); ++i) h.bound[i] += kUnit * (std::fabs(h.value[i]) + h.bound[i]);
    const auto bytes = std::as_bytes(std::span(h.value));
    rows.values.assign(bytes.begin(), bytes.end());
    return rows;
  }
  rows.values.resize(h.value.size());
  rows.scales.resize(static_cast<std::size_t>(h.rows * form.grid.scale_cols(h.cols)));
  const std::int64_t width = form.grid.resolved(1, h.cols).group_cols;
  auto* codes = reinterpret_cast<std::uint8_t*>(rows.values.data());
  std::size_t at_scale = 0;
  for (std::int64_t row = 0; row < h.rows; ++row) {
    for (std::int64_t col = 0; col < h.cols; col += width) {
      const auto at = static_cast<std::size_t>(row * h.cols + col);
      const auto count = static_cast<std::size_t>(std::min(width, h.cols - col));
      quantize_group(form, std::span(h.value).subspan(at, count), std::span(h.bound).subspan(at, count), codes + at,
                     rows.scales[at_scale++]);
    }
  }
  return rows;
}

/// The second product: its own error, and what the first steps' errors become in it: sum over i of bound[i] |b[i]|.
Bounded down_product(const Rows& rows, const Bounded& h, const Operand& b, const BoundTerms& terms) {
  const OracleResult product = numerics::oracle(rows.operand(), b, DType::none, nullptr, terms.accuracy);
  Operand errors;
  std::vector<double> finite = h.bound;
  for (double& bound : finite) bound = std::isfinite(bound) ? bound : 0;  // such rows are NaN, and have no bound
  errors.dtype = DType::f64;
  errors.data = finite.data();
  errors.rows = h.rows;
  errors.cols = errors.ld = h.cols;
  const OracleResult through = numerics::oracle(errors, b);
  Bounded down{product.rows, product.cols, product.value, {}};
  for (std::size_t i = 0; i < product.value.size(); ++i) {
    const double before = through.magnitude[i];
    const numerics::Sizes sizes = product.sizes(i);
    const double own = numerics::element_bound(terms, std::fabs(product.value[i]) + before,
                                               {sizes.magnitude + before, 2 * sizes.cut + kCutOfError * before});
    down.bound.push_back(std::isfinite(product.value[i]) ? own + before : kInfinity);
  }
  return down;
}

class Oracle {
 public:
  Oracle(const ExpertsSource& source, const Rows& x, const ExpertsArithmetic& arithmetic)
      : source_(source), form_(source.form()), x_(x), arithmetic_(arithmetic) {}

  MlpOracle mlp(bool shared, std::int64_t expert, const std::vector<std::int64_t>& tokens) const {
    const GatedForm& gated = shared ? *form_.shared : form_.experts;
    const Rows rows = x_.gathered(tokens);
    const BoundTerms terms = terms_of(shared ? arithmetic_.shared_gate : arithmetic_.gate, form_.hidden);
    MlpOracle steps;
    const auto product = [&](Projection projection) {
      const StackedMatrices matrix = source_.matrix(shared, projection, expert);
      return numerics::oracle(rows.operand(), operand_of(gated.gate, matrix), DType::none, nullptr, terms.accuracy);
    };
    if (gated.stored_fused) {
      const OracleResult both = product(Projection::gate_up);
      steps.gate = columns(both, terms, 0, gated.width);
      steps.up = columns(both, terms, gated.width, gated.width);
    } else {
      steps.gate = columns(product(Projection::gate), terms, 0, gated.width);
      steps.up = columns(product(Projection::up), terms, 0, gated.width);
    }
    steps.h = activated(steps.gate, steps.up);
    const Rows between = requantized(form_.between, steps.h);
    const StackedMatrices down = source_.matrix(shared, Projection::down, expert);
    steps.down = down_product(between, steps.h, operand_of(gated.down, down),
                              terms_of(shared ? arithmetic_.shared_down : arithmetic_.down, gated.width));
    return steps;
  }

 private:
  const ExpertsSource& source_;
  const ExpertsForm& form_;
  const Rows& x_;
  const ExpertsArithmetic& arithmetic_;
};

/// A weighted sum in f32: products and sums, each rounded, as many as there are terms of each.
class WeightedSum {
 public:
  void add(double weight, double weight_error, double value, double error) {
    if (!std::isfinite(value) || !std::isfinite(error)) undefined_ = true;
    sum_ += weight * value;
    error_ += std::fabs(weight) * error + weight_error * (std::fabs(value) + error);
    magnitude_ += (std::fabs(weight) + weight_error) * (std::fabs(value) + error);
    ++terms_;
  }
  void finish(DType out, double& value, double& bound) const {
    value = undefined_ ? std::numeric_limits<double>::quiet_NaN() : sum_;
    const double rounding = (static_cast<double>(terms_) + 1) * kUnit * kSecondOrder * magnitude_;
    const double before = error_ + rounding;
    bound = undefined_ ? kInfinity
                       : before + numerics::unit_roundoff(out) * (std::fabs(sum_) + before) +
                             numerics::smallest_subnormal(out) / 2;
  }

 private:
  double sum_ = 0, error_ = 0, magnitude_ = 0;
  int terms_ = 0;
  bool undefined_ = false;
};

double ratio_of(double error, double bound) { return error == 0 ? 0 : bound > 0 ? error / bound : kInfinity; }

double ratio_of(double got, const Bounded& all, std::size_t i) {
  const double want = all.value[i], bound = all.bound[i];
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(got) && (got > 0) == (want > 0) && std::fabs(want) + bound >= all.overflow) return 0;
  return std::isfinite(got) ? ratio_of(std::fabs(got - want), bound) : kInfinity;
}

}  // namespace

ExpertsArithmetic arithmetic_of(const Experts& experts) {
  ExpertsArithmetic all;
  all.gate = experts.gate_plan(false);
  all.down = experts.down_plan(false);
  all.router = experts.router_plan();
  if (!experts.form().shared) return all;
  all.shared_gate = experts.gate_plan(true);
  all.shared_down = experts.down_plan(true);
  return all;
}

ExpertsOracle experts_oracle(const ExpertsSource& source, DType x_dtype, std::span<const std::byte> x,
                             std::int64_t tokens, const RoutedTokens& routed, DType out,
                             const ExpertsArithmetic& arithmetic) {
  const ExpertsForm& form = source.form();
  const std::int64_t top_k = form.routing.top_k;
  const auto slots = static_cast<std::size_t>(tokens * top_k);
  if (x.size() != bytes_of_matrix(x_dtype, tokens, form.hidden) || routed.ids.size() != slots ||
      routed.weights.size() != slots)
    throw std::invalid_argument("experts_oracle: x, ids or weights have another size than the tokens");
  const Rows rows = rows_of_x(form, x_dtype, x, tokens);
  const Oracle oracle(source, rows, arithmetic);
  std::map<std::int64_t, std::vector<std::int64_t>> by_expert;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::int32_t id = routed.ids[slot];
    if (id >= 0 && id < form.routing.experts) by_expert[id].push_back(static_cast<std::int64_t>(slot));
  }
  ExpertsOracle all;
  std::vector<std::pair<const MlpOracle*, std::int64_t>> at(slots);  // where a slot's row is
  all.experts.reserve(by_expert.size());
  for (auto& [expert, own] : by_expert) {
    std::vector<std::int64_t> of_tokens;
    for (const std::int64_t slot : own) of_tokens.push_back(slot / top_k);
    ExpertOracle& one = all.experts.emplace_back();
    one.expert = expert;
    one.mlp = oracle.mlp(false, expert, of_tokens);
    one.slots = std::move(own);
    for (std::size_t r = 0; r < one.slots.size(); ++r)
      at[static_cast<std::size_t>(one.slots[r])] = {&one.mlp, static_cast<std::int64_t>(r)};
  }
  std::vector<double> shared_error;
  if (form.shared) {
    std::vector<std::int64_t> each;
    for (std::int64_t t = 0; t < tokens; ++t) each.push_back(t);
    all.shared = oracle.mlp(true, 0, each);
    all.shared_weight.assign(static_cast<std::size_t>(tokens), 1);
    shared_error.assign(static_cast<std::size_t>(tokens), 0);
  }
  if (form.shared_gate) {
    const Bounded logits = router_oracle(source, x_dtype, x, tokens, arithmetic.router);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto last = static_cast<std::size_t>((t + 1) * logits.cols - 1);
      const auto logit = static_cast<float>(logits.value[last]);
      const numerics::Within score = numerics::score_oracle(numerics::Score::sigmoid, {&logit, 1}).front();
      all.shared_weight[static_cast<std::size_t>(t)] = score.value;
      // The slope of a sigmoid is 1/4 at most; the logit above is rounded too.
      shared_error[static_cast<std::size_t>(t)] =
          score.error + (logits.bound[last] + kUnit * std::fabs(logits.value[last])) / 4;
    }
  }
  all.y = {tokens, form.hidden, {}, {}, numerics::element_of(out).overflow_threshold};
  all.y.value.resize(static_cast<std::size_t>(tokens * form.hidden));
  all.y.bound.resize(all.y.value.size());
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t col = 0; col < form.hidden; ++col) {
      WeightedSum sum;
      for (std::int64_t j = 0; j < top_k; ++j) {
        const auto slot = static_cast<std::size_t>(t * top_k + j);
        if (at[slot].first == nullptr) continue;
        const Bounded& down = at[slot].first->down;
        const auto element = static_cast<std::size_t>(at[slot].second * form.hidden + col);
        sum.add(routed.weights[slot], 0, down.value[element], down.bound[element]);
      }
      const auto element = static_cast<std::size_t>(t * form.hidden + col);
      if (form.shared)
        sum.add(all.shared_weight[static_cast<std::size_t>(t)], shared_error[static_cast<std::size_t>(t)],
                all.shared.down.value[element], all.shared.down.bound[element]);
      sum.finish(out, all.y.value[element], all.y.bound[element]);
    }
  }
  return all;
}

Bounded router_oracle(const ExpertsSource& source, DType x_dtype, std::span<const std::byte> x, std::int64_t tokens,
                      const ExpertsPlanInfo& plan) {
  const ExpertsForm& form = source.form();
  const std::vector<std::byte> router = source.router();
  Operand a, b;
  a.dtype = x_dtype;
  a.data = x.data();
  a.rows = tokens;
  a.cols = a.ld = form.hidden;
  b.dtype = form.router;
  b.data = router.data();
  b.rows = form.logits();
  b.cols = b.ld = form.hidden;
  return columns(numerics::oracle(a, b), terms_of(plan, form.hidden), 0, form.logits());
}

RoutedTokens route_on_host(const ExpertsSource& source, const Bounded& logits) {
  const ExpertsForm& form = source.form();
  const std::vector<float> bias = source.correction_bias();
  const auto experts = static_cast<std::size_t>(form.routing.experts),
             top_k = static_cast<std::size_t>(form.routing.top_k);
  const auto tokens = static_cast<std::size_t>(logits.rows);
  RoutedTokens routed{std::vector<std::int32_t>(tokens * top_k), std::vector<float>(tokens * top_k)};
  std::vector<float> of_token(experts), scores(experts);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t e = 0; e < experts; ++e)
      of_token[e] = static_cast<float>(logits.value[t * static_cast<std::size_t>(logits.cols) + e]);
    numerics::scores(form.routing.score, of_token, scores);
    numerics::choose(form.routing, scores, bias, std::span(routed.ids).subspan(t * top_k, top_k),
                     std::span(routed.weights).subspan(t * top_k, top_k));
  }
  return routed;
}

numerics::Comparison compare(std::span<const double> got, const Bounded& want) {
  if (got.size() != want.value.size()) throw std::invalid_argument("compare: a result of another size");
  numerics::detail::Collector collector(want.cols);
  for (std::size_t i = 0; i < got.size(); ++i)
    collector.add(static_cast<std::int64_t>(i), got[i], want.value[i], ratio_of(got[i], want, i));
  return collector.finish();
}

numerics::Comparison compare(std::span<const double> got, const Bounded& want, std::span<const double> other,
                             const Bounded& other_want) {
  if (got.size() != want.value.size() || other.size() != got.size())
    throw std::invalid_argument("compare: results of different sizes");
  numerics::detail::Collector collector(want.cols);
  for (std::size_t i = 0; i < got.size(); ++i) {
    double ratio = 0;
    if (std::isfinite(got[i]) && std::isfinite(other[i]) && !std::isnan(want.value[i])) {
      ratio = ratio_of(std::fabs(got[i] - other[i]), want.bound[i] + other_want.bound[i]);
    } else {  // With no distance to measure each is judged by itself.
      ratio = std::max(ratio_of(got[i], want, i), ratio_of(other[i], other_want, i)) > 1 ? kInfinity : 0;
    }
    collector.add(static_cast<std::int64_t>(i), got[i], other[i], ratio);
  }
  return collector.finish();
}

}  // namespace ironcl::layer

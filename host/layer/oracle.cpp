// SPDX-License-Identifier: Apache-2.0
// A list in f64, operation by operation, with the bounds of its values.
#include "host/layer/oracle.h"

#include <cmath>
#include <limits>

#include "backends/numerics/experts_oracle.h"

namespace ironcl::layer {
namespace {

using numerics::DType;
using numerics::Operand;
using numerics::OracleResult;

/// Of what errors of the operands make of an element, what they may add to its cut (docs/numerics.md, a layer of
/// experts).
constexpr double kCutOfError = 0x1p-4;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnit = 0x1p-24;  ///< Half a unit in the last place of an f32 of 1.
/// Room for the products of errors that a bound of first order leaves out.
constexpr double kSecondOrder = 1 + 0x1p-10;

float below(double value) {
  const auto near = static_cast<float>(value);
  return near <= value ? near : std::nextafter(near, -std::numeric_limits<float>::infinity());
}
float above(double value) { return -below(-value); }

double value_of(DType type, std::uint8_t code) { return numerics::load_as_f64(type, &code, 0); }

/// A matrix as a product takes it: elements and scales.
struct Rows {
  DType dtype = DType::none;
  std::vector<std::byte> values, scales;
  report::Scales form{};
  std::int64_t rows = 0, cols = 0;

  Operand operand() const { return operand_of(dtype, values.data(), rows, cols, form, scales.data()); }
  /// Some rows of it, whose scales are their own.
  Rows gathered(std::span<const std::int64_t> from) const {
    Rows some{dtype, {}, {}, form, static_cast<std::int64_t>(from.size()), cols};
    const auto copy = [](std::vector<std::byte>& to, const std::vector<std::byte>& all, std::size_t row, auto width) {
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(row * width);
      to.insert(to.end(), at, at + static_cast<std::ptrdiff_t>(width));
    };
    for (const std::int64_t row : from) {
      copy(some.values, values, static_cast<std::size_t>(row), bytes_of_matrix(dtype, 1, cols));
      if (form.dtype != DType::none)
        copy(some.scales, scales, static_cast<std::size_t>(form.grid.row_of(row)),
             bytes_of_matrix(form.dtype, 1, form.grid.scale_cols(cols)));
    }
    if (form.dtype != DType::none) some.form.grid.group_rows = 1;
    return some;
  }
};

Rows quantized(const Rows& x, DType code, const report::Scales& form, const numerics::Quantizer& quantizer) {
  Rows rows{code, {}, {}, form, x.rows, x.cols};
  rows.values.resize(bytes_of_matrix(code, x.rows, x.cols));
  std::vector<float> scales(static_cast<std::size_t>(form.grid.scale_rows(x.rows) * form.grid.scale_cols(x.cols)));
  if (quantizer.given) numerics::decode(form.dtype, x.scales.data(), std::span<float>(scales));
  numerics::quantize(x.dtype, x.values.data(), x.rows, x.cols, x.cols, code, form.grid, quantizer,
                     {reinterpret_cast<std::uint8_t*>(rows.values.data()), rows.values.size()}, scales);
  rows.scales = bytes_of(scales);
  rows.form.dtype = DType::f32;
  return rows;
}

/// Quantises one group of h: `value` becomes codes times scale, `bound` (of |device - h| before) how far a device's
/// codes times its scale may be from that, which reaches to the neighbouring code where a rounding border lies within
/// the error. A group with anything that is not finite is NaN. `codes` and `scale` are the oracle's own.
void quantize_group(DType type, const numerics::Quantizer& quantizer, std::span<double> value,
                    std::span<double> bound, std::uint8_t* codes, float& scale) {
  double amax = 0, error = 0;
  bool finite = true;
  for (std::size_t i = 0; i < value.size(); ++i) {
    finite = finite && std::isfinite(static_cast<float>(value[i])) && std::isfinite(bound[i]);
    amax = std::max(amax, std::fabs(value[i]));
    error = std::max(error, bound[i]);
  }
  if (!finite) {
    scale = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] = std::numeric_limits<double>::quiet_NaN();
      bound[i] = kInfinity;
      codes[i] = numerics::quantize_one(std::numeric_limits<float>::quiet_NaN(), 1, type);
    }
    return;
  }
  const float floor = quantizer.amax_floor;
  const auto scale_for = [&](float of) { return numerics::scale_of(std::max(of, floor), type, quantizer); };
  scale = scale_for(static_cast<float>(amax));
  const float scales[] = {scale_for(below(std::max(amax - error, 0.0))), scale_for(above(amax + error))};
  for (std::size_t i = 0; i < value.size(); ++i) {
    codes[i] = numerics::quantize_one(static_cast<float>(value[i]), scale, type);
    const double here = value_of(type, codes[i]) * static_cast<double>(scale);
    double low = here, high = here;
    for (const float x : {below(value[i] - bound[i]), above(value[i] + bound[i])}) {
      for (const float s : scales) {
        const double code = value_of(type, numerics::quantize_one(x, s, type));
        for (const float other : scales) {
          low = std::min(low, code * static_cast<double>(other));
          high = std::max(high, code * static_cast<double>(other));
        }
      }
    }
    value[i] = here;
    bound[i] = std::max(high - here, here - low);
  }
}

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

  void finish(DType out, Bounded& to) const {
    const double rounding = (static_cast<double>(terms_) + 1) * kUnit * kSecondOrder * magnitude_;
    const double before = error_ + rounding;
    to.value.push_back(undefined_ ? std::numeric_limits<double>::quiet_NaN() : sum_);
    to.bound.push_back(undefined_ ? kInfinity
                                  : before + numerics::unit_roundoff(out) * (std::fabs(sum_) + before) +
                                        numerics::smallest_subnormal(out) / 2);
  }

 private:
  double sum_ = 0, error_ = 0, magnitude_ = 0;
  int terms_ = 0;
  bool undefined_ = false;
};

/// A value of the list: what there is of it besides its bounds.
struct Known {
  Rows rows;
  bool exact = true;
  std::vector<std::int32_t> numbers;  ///< Of s32.
};

}  // namespace

class Oracle::Walk {
 public:
  Walk(Oracle& oracle, const Graph& graph, const std::vector<PlanInfo>& plans)
      : oracle_(oracle), graph_(graph), plans_(plans), known_(graph.values.size()), values_(graph.values.size()) {}

  Values to(ValueId wanted) {
    std::vector<ValueId> given;
    for (const Brought& one : oracle_.brought_) {
      given.push_back(graph_.find(one.value));
      if (given.back() == kNoValue) throw std::invalid_argument("oracle: the list has no value " + one.value);
      take(given.back(), one);
    }
    for (const std::size_t i : graph_.needed(given, wanted)) {
      operation_ = i;
      std::visit([this](const auto& op) { walk(op); }, graph_.operations[i].what);
    }
    return std::move(values_);
  }

 private:
  const Operation& operation() const { return graph_.operations[operation_]; }
  ValueId in(std::size_t at) const { return operation().in[at]; }
  ValueId out(std::size_t at) const { return operation().out[at]; }
  const Value& value(ValueId id) const { return graph_.values[id]; }

  void take(ValueId id, const Brought& one) {
    const Value& of = value(id);
    Known& known = known_[id];
    const std::int64_t rows = of.rows_of(oracle_.tokens_);
    if (one.data.size() != of.bytes(oracle_.tokens_))
      throw std::invalid_argument(
          fmt::format("oracle: {} has another size than {} tokens", of.name, oracle_.tokens_));
    known.rows = {of.dtype, one.data, one.scales, of.scales, rows, of.cols};
    if (of.dtype != DType::s32) return;
    known.numbers.resize(static_cast<std::size_t>(rows * of.cols));
    std::copy_n(reinterpret_cast<const std::int32_t*>(one.data.data()), known.numbers.size(), known.numbers.begin());
  }

  /// Values that every device must have, bit for bit.
  void exact(ValueId id, std::int64_t rows, std::vector<double> values) {
    if (id == kNoValue) return;
    Bounded& to = values_[id];
    to = {rows, value(id).cols, std::move(values), {}, DType::f64};
    to.bound.resize(to.value.size());
  }
  void exact(ValueId id, std::int64_t rows, std::vector<std::int32_t> numbers) {
    if (id == kNoValue) return;
    exact(id, rows, std::vector<double>(numbers.begin(), numbers.end()));
    known_[id].numbers = std::move(numbers);
  }

  /// A value as a product takes it: as it was brought or quantised, else what an operation made.
  const Rows& rows_of(ValueId id) {
    Rows& rows = known_[id].rows;
    if (rows.values.empty() && !values_[id].value.empty())
      rows = {DType::f64, bytes_of(values_[id].value), {}, {}, values_[id].rows, values_[id].cols};
    return rows;
  }

  PlanInfo plan() const { return plans_.empty() ? PlanInfo{} : plans_[operation_]; }

  /// The rows of A for the rows of D, and how many of these each matrix has.
  std::pair<std::vector<std::int64_t>, std::vector<std::int32_t>> schedule(std::int64_t a_rows) const {
    std::vector<std::int32_t> counts = {static_cast<std::int32_t>(a_rows)};
    if (in(ProductOp::kCounts) != kNoValue) counts = known_[in(ProductOp::kCounts)].numbers;
    std::vector<std::int64_t> rows(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    std::iota(rows.begin(), rows.end(), 0);
    if (in(ProductOp::kIndex) != kNoValue) {
      const std::vector<std::int32_t>& index = known_[in(ProductOp::kIndex)].numbers;
      rows.assign(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(rows.size()));
    }
    return {std::move(rows), std::move(counts)};
  }

  static void append(OracleResult& all, const OracleResult& part) {
    all.rows += part.rows;
    all.value.insert(all.value.end(), part.value.begin(), part.value.end());
    all.magnitude.insert(all.magnitude.end(), part.magnitude.begin(), part.magnitude.end());
    all.cut.insert(all.cut.end(), part.cut.begin(), part.cut.end());
  }

  /// The product, and of what has an error already, sum over i of bound[i] |b[i]|.
  OracleResult multiply(const ProductOp& op, const Rows& a, const std::vector<double>* bounds,
                        std::vector<double>& through) const {
    const report::Problem& problem = op.problem;
    const MatrixForm form{problem.b, problem.b_scale};
    // Of a layer of experts biases come with the matrices.
    const Known* bias = in(ProductOp::kBias) == kNoValue ? nullptr : &known_[in(ProductOp::kBias)];
    const auto [rows, counts] = schedule(a.rows);
    OracleResult all;
    all.cols = problem.b_rows();
    std::size_t first = 0;
    for (std::size_t expert = 0; expert < counts.size(); first += static_cast<std::size_t>(counts[expert++])) {
      if (counts[expert] == 0) continue;
      const std::span own = std::span(rows).subspan(first, static_cast<std::size_t>(counts[expert]));
      const Rows some = counts.size() == 1 && own.size() == static_cast<std::size_t>(a.rows) ? a : a.gathered(own);
      StackedMatrices matrix = oracle_.matrices_(op, static_cast<std::int64_t>(expert));
      const Operand b = operand_of(form, matrix);
      const std::byte* bias_row =
          bias == nullptr || !matrix.bias.empty()
              ? matrix.bias.data()
              : bias->rows.values.data() + expert * bytes_of_matrix(problem.bias, 1, all.cols);
      append(all, numerics::oracle(some.operand(), b, problem.bias, bias_row, plan().accuracy));
      if (bounds == nullptr) continue;
      std::vector<double> errors;
      for (const std::int64_t row : own)
        for (std::int64_t k = 0; k < a.cols; ++k) {
          const double bound = (*bounds)[static_cast<std::size_t>(row * a.cols + k)];
          errors.push_back(std::isfinite(bound) ? bound : 0);  // such rows are NaN, and have no bound
        }
      const OracleResult part = numerics::oracle(operand_of(DType::f64, errors.data(), std::ssize(own), a.cols), b);
      through.insert(through.end(), part.magnitude.begin(), part.magnitude.end());
    }
    return all;
  }

  void walk(const ProductOp& op) {
    const Known& a = known_[in(ProductOp::kA)];
    const report::Problem& problem = op.problem;
    const bool quantizes_d = numerics::is_quantized(problem.d);
    const bool activates = problem.activation != numerics::Activation::none;
    const numerics::BoundTerms terms{quantizes_d || activates ? DType::f32 : problem.d, plan().accuracy, problem.k,
                                     plan().accumulation_length};
    const Rows* rows = &rows_of(in(ProductOp::kA));
    Rows codes;
    Bounded h;  // What the plan quantises, where that has an error already.
    if (plan_quantizes(op.problem)) {
      if (a.exact) {
        codes = quantized(*rows, op.problem.a, op.problem.a_scale, op.problem.a_quantizer);
      } else {
        h = values_[in(ProductOp::kA)];
        Value to{"", op.problem.a, op.problem.k};
        to.scales = op.problem.a_scale;
        requantize(op.problem.a_quantizer, to, h, codes);
      }
      rows = &codes;
    }
    std::vector<double> through;
    OracleResult inexact;
    const OracleResult* all = &inexact;
    if (a.exact) {
      const auto [at, missing] =
          oracle_.products_.try_emplace({operation().name, terms.accuracy == numerics::AccuracyClass::tensor14});
      if (missing) at->second = multiply(op, *rows, nullptr, through);
      all = &at->second;
    } else {
      inexact = multiply(op, *rows, h.rows != 0 ? &h.bound : &values_[in(ProductOp::kA)].bound, through);
    }
    const auto part = [&](std::int64_t first, std::int64_t cols) {
      Bounded to{all->rows, cols, {}, {}, terms.out};
      for (std::int64_t row = 0; row < to.rows; ++row)
        for (std::int64_t col = first; col < first + cols; ++col) {
          const auto i = static_cast<std::size_t>(row * all->cols + col);
          const double r = all->value[i];
          const numerics::Sizes sizes = all->sizes(i);
          to.value.push_back(r);
          if (a.exact) {
            to.bound.push_back(numerics::element_bound(terms, r, sizes));
          } else {
            const double own =
                numerics::element_bound(terms, std::fabs(r) + through[i],
                                        {sizes.magnitude + through[i], 2 * sizes.cut + kCutOfError * through[i]});
            to.bound.push_back(std::isfinite(r) ? own + through[i] : kInfinity);
          }
        }
      return to;
    };
    const ValueId id = out(0);
    if (activates)
      activate(problem.activation, problem.activation_limit, part(0, problem.n), part(problem.n, problem.n), id);
    else
      values_[id] = part(0, problem.n);
    known_[id].exact = false;
    if (quantizes_d)
      requantize(problem.d_quantizer, value(id), values_[id], known_[id].rows);
    else if (activates)
      round(values_[id], problem.d);
  }

  void walk(const QuantizeOp& op) {
    const Value& to = value(out(0));
    Known& known = known_[out(0)];
    known.rows = quantized(known_[in(0)].rows, to.dtype, to.scales, op.quantizer);
    exact(out(0), known.rows.rows, numerics::decode_operand(known.rows.operand()));
  }

  void walk(const RouteOp& op) {
    const std::int64_t tokens = oracle_.tokens_, top_k = op.routing.top_k, experts = op.routing.experts;
    const auto slots = static_cast<std::size_t>(tokens * top_k);
    std::vector<std::int32_t> ids(slots), counts(static_cast<std::size_t>(experts + op.shared_first)),
        index(static_cast<std::size_t>(value(out(RouteOp::kIndex)).rows_of(tokens))), rows(slots);
    if (in(RouteOp::kIds) != kNoValue) {
      ids = known_[in(RouteOp::kIds)].numbers;
    } else {
      std::vector<float> weights(slots);
      choose(op.routing, ids, weights);
      known_[out(RouteOp::kWeights)].rows = {DType::f32, bytes_of(weights), {}, {}, tokens, top_k};
      exact(out(RouteOp::kWeights), tokens, std::vector<double>(weights.begin(), weights.end()));
      exact(out(RouteOp::kChosenIds), tokens, ids);
    }
    numerics::sort_by_expert(ids, top_k, {0, experts, 0, op.shared_first}, counts, index, rows);
    index.resize(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    const auto sorted = static_cast<std::int64_t>(index.size());
    exact(out(RouteOp::kCounts), 1, std::move(counts));
    exact(out(RouteOp::kIndex), sorted, std::move(index));
    exact(out(RouteOp::kRows), tokens, std::move(rows));
    if (out(RouteOp::kSharedWeights) != kNoValue) weigh_shared();
  }

  /// What the router's logits, rounded to f32, lead to: what every device is then given.
  void choose(const numerics::Routing& routing, std::span<std::int32_t> ids, std::span<float> weights) const {
    const Bounded& logits = values_[in(RouteOp::kLogits)];
    const auto experts = static_cast<std::size_t>(routing.experts), top_k = static_cast<std::size_t>(routing.top_k);
    std::vector<float> of_token(experts), scores(experts), bias;
    if (in(RouteOp::kBias) != kNoValue) bias = values_of<float>(DType::f32, known_[in(RouteOp::kBias)].rows.values);
    for (std::size_t t = 0; t < static_cast<std::size_t>(logits.rows); ++t) {
      for (std::size_t e = 0; e < experts; ++e)
        of_token[e] = static_cast<float>(logits.value[t * static_cast<std::size_t>(logits.cols) + e]);
      numerics::scores(routing.score, of_token, scores);
      numerics::choose(routing, scores, bias, ids.subspan(t * top_k, top_k), weights.subspan(t * top_k, top_k));
    }
  }

  void weigh_shared() {
    const Bounded& logits = values_[in(RouteOp::kLogits)];
    Bounded& to = values_[out(RouteOp::kSharedWeights)];
    to = {logits.rows, 1, {}, {}, DType::f32};
    for (std::int64_t t = 0; t < logits.rows; ++t) {
      const auto last = static_cast<std::size_t>((t + 1) * logits.cols - 1);
      const auto logit = static_cast<float>(logits.value[last]);
      const numerics::Within score = numerics::score_oracle(numerics::Score::sigmoid, {&logit, 1}).front();
      to.value.push_back(score.value);
      // The slope of a sigmoid is 1/4 at most; the logit above is rounded too.
      to.bound.push_back(score.error + (logits.bound[last] + kUnit * std::fabs(logits.value[last])) / 4);
    }
  }

  /// Value `id` becomes activation(gate, up), in f32.
  void activate(numerics::Activation function, float limit, const Bounded& gate, const Bounded& up, ValueId id) {
    Bounded& h = values_[id];
    h = {gate.rows, gate.cols, {}, {}, DType::f32};
    for (std::size_t i = 0; i < gate.value.size(); ++i) {
      const numerics::Within own = numerics::activation_oracle(
          function, {gate.value[i], gate.bound[i]}, {up.value[i], up.bound[i]}, static_cast<double>(limit));
      h.value.push_back(own.value);
      h.bound.push_back(own.error);
    }
  }

  /// Adds what rounding to `type` may add.
  static void round(Bounded& h, DType type) {
    h.dtype = type;
    for (std::size_t i = 0; i < h.value.size(); ++i)
      h.bound[i] += numerics::unit_roundoff(type) * (std::fabs(h.value[i]) + h.bound[i]) +
                    (type == DType::f32 ? 0 : numerics::smallest_subnormal(type) / 2);
  }

  void walk(const ActivateOp& op) {
    activate(op.function, op.limit, values_[in(ActivateOp::kGate)], values_[in(ActivateOp::kUp)], out(0));
    known_[out(0)].exact = false;
    if (value(out(0)).scales.dtype != DType::none)
      requantize(op.quantizer, value(out(0)), values_[out(0)], known_[out(0)].rows);
    else
      round(values_[out(0)], DType::f32);
  }

  /// h, with scales of single rows, as the next product takes it; `h` keeps values and bounds of exactly that.
  static void requantize(numerics::Quantizer quantizer, const Value& to, Bounded& h, Rows& rows) {
    if (to.scales.dtype == DType::e8m0) quantizer.rounding = numerics::ScaleRounding::power_of_two;
    rows = {to.dtype, {}, {}, to.scales, h.rows, h.cols};
    rows.form.dtype = DType::f32;
    const numerics::ScaleGrid grid = to.scales.grid;
    rows.values.resize(h.value.size());
    std::vector<float> scales(static_cast<std::size_t>(h.rows * grid.scale_cols(h.cols)));
    const std::int64_t width = grid.resolved(1, h.cols).group_cols;
    auto* codes = reinterpret_cast<std::uint8_t*>(rows.values.data());
    std::size_t at_scale = 0;
    for (std::int64_t row = 0; row < h.rows; ++row) {
      for (std::int64_t col = 0; col < h.cols; col += width) {
        const auto at = static_cast<std::size_t>(row * h.cols + col);
        const auto count = static_cast<std::size_t>(std::min(width, h.cols - col));
        quantize_group(to.dtype, quantizer, std::span(h.value).subspan(at, count),
                       std::span(h.bound).subspan(at, count), codes + at, scales[at_scale++]);
      }
    }
    rows.scales = bytes_of(scales);
  }

  void walk(const CombineOp&) {
    const Bounded& x = values_[in(CombineOp::kX)];
    const ValueId add = in(CombineOp::kAdd), add_weights = in(CombineOp::kAddWeights);
    const std::vector<std::int32_t>& rows = known_[in(CombineOp::kRows)].numbers;
    const std::vector<float> weights = values_of<float>(DType::f32, known_[in(CombineOp::kWeights)].rows.values);
    Bounded& y = values_[out(0)];
    y = {oracle_.tokens_, value(out(0)).cols, {}, {}, value(out(0)).dtype};
    const std::size_t top_k = y.rows == 0 ? 0 : rows.size() / static_cast<std::size_t>(y.rows);
    for (std::int64_t t = 0; t < y.rows; ++t) {
      for (std::int64_t col = 0; col < y.cols; ++col) {
        WeightedSum sum;
        for (std::size_t slot = static_cast<std::size_t>(t) * top_k; slot < static_cast<std::size_t>(t + 1) * top_k;
             ++slot) {
          if (rows[slot] < 0) continue;
          const auto i = static_cast<std::size_t>(rows[slot] * x.cols + col);
          sum.add(static_cast<double>(weights[slot]), 0, x.value[i], x.bound[i]);
        }
        if (add != kNoValue) {
          const auto i = static_cast<std::size_t>(t * y.cols + col), token = static_cast<std::size_t>(t);
          const bool weighed = add_weights != kNoValue;
          sum.add(weighed ? values_[add_weights].value[token] : 1, weighed ? values_[add_weights].bound[token] : 0,
                  values_[add].value[i], values_[add].bound[i]);
        }
        sum.finish(y.dtype, y);
      }
    }
  }

  Oracle& oracle_;
  const Graph& graph_;
  const std::vector<PlanInfo>& plans_;
  std::size_t operation_ = 0;
  std::vector<Known> known_;
  Values values_;
};

Values Oracle::evaluate(const Graph& graph, const std::vector<PlanInfo>& plans, ValueId wanted) {
  return Walk(*this, graph, plans).to(wanted == kNoValue ? graph.result : wanted);
}

void Oracle::take(const std::vector<std::int64_t>& tokens, Graph& list) {
  for (Brought& one : brought_) {
    Value& value = list.values[list.find(one.value)];
    if (value.rows_per_token != 0) {
      Rows some{value.dtype, std::move(one.data), std::move(one.scales), value.scales, tokens_, value.cols};
      some = some.gathered(tokens);
      one.data = std::move(some.values);
      one.scales = std::move(some.scales);
      value.scales = some.form;
    } else if (value.dtype == DType::s32) {  // Rows of each matrix, of those that are taken.
      auto* counts = reinterpret_cast<std::int32_t*>(one.data.data());
      std::int64_t end = 0;
      auto from = tokens.begin();
      for (std::int64_t i = 0; i < value.cols; ++i) {
        const auto to = std::lower_bound(from, tokens.end(), end += counts[i]);
        counts[i] = static_cast<std::int32_t>(to - from);
        from = to;
      }
    }
  }
  tokens_ = std::ssize(tokens);
}

Oracle oracle_of(const report::Problem& problem, const Operands& operands) {
  std::vector<Brought> brought = {{"x", bytes_of(operands.a), bytes_of(operands.a_scale)}};
  if (problem.bias != DType::none) brought.push_back({"bias", bytes_of(operands.bias)});
  if (problem.grouping != Grouping::none) brought.push_back({"counts", bytes_of(operands.counts)});
  Operands b;
  b.b = operands.b;
  b.b_scale = operands.b_scale;
  b.b_global = operands.b_global;
  return {[problem, b](const ProductOp&, std::int64_t matrix) {
            const Operands one = of_matrix(problem, b, matrix);
            const std::span<const float> global = one.b_global;
            return StackedMatrices{
                problem.b_rows(), problem.k, bytes_of(one.b), bytes_of(one.b_scale), {global.begin(), global.end()}};
          },
          problem.m, std::move(brought)};
}

RoutedTokens routed_of(const Graph& graph, const Values& values) {
  const std::vector<double>&ids = values[graph.find("ids")].value, &weights = values[graph.find("weights")].value;
  return {{ids.begin(), ids.end()}, {weights.begin(), weights.end()}};
}

}  // namespace ironcl::layer

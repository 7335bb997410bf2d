// SPDX-License-Identifier: Apache-2.0
// Numbers drawn from Student's t with four degrees of freedom.
#include "host/layer/synthetic.h"

#include <cmath>
#include <random>
#include <tuple>

namespace ironcl::layer {
namespace {

using numerics::DType;

constexpr double kOutlierShare = 0.01;
constexpr double kOutlierFactor = 20;

/// In (0, 1), never at its ends. std::uniform_real_distribution differs between standard libraries; this does not.
double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

/// The quantile at 0 < p < 1, in closed form: W. T. Shaw, Sampling Student's T distribution, J. Computational Finance
/// 9, 2006.
double student_t4(double p) {
  const double root = std::sqrt(4 * p * (1 - p));
  const double q = std::cos(std::acos(std::min(root, 1.0)) / 3) / root;
  return std::copysign(2 * std::sqrt(std::max(q - 1, 0.0)), p - 0.5);
}

constexpr std::size_t kTable = 1u << 16;

/// The distribution at 65536 equal steps of its distribution function.
std::array<float, kTable> quantiles() {
  std::array<float, kTable> table{};
  for (std::size_t i = 0; i < kTable; ++i)
    table[i] = static_cast<float>(student_t4((static_cast<double>(i) + 0.5) / kTable));
  return table;
}

/// Writes `count` elements of `Width` bytes, each from the place of the table that 16 bits say: four for each number
/// drawn. A width that the compiler knows makes this several times as fast.
template <std::size_t Width>
void pick(const std::byte* table, std::size_t count, std::mt19937_64& random, std::byte* to) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i, bits >>= 16) {
    if (i % 4 == 0) bits = random();
    std::memcpy(to + i * Width, table + (bits & 0xffffu) * Width, Width);
  }
}

/// Fills [elements] of `type` by drawing 16 bits for each from a table of the distribution in that type.
std::vector<std::byte> draw(DType type, std::int64_t elements, std::mt19937_64& random) {
  static const std::array<float, kTable> t4 = quantiles();
  const std::size_t width = numerics::size_of(type);
  std::vector<std::byte> table(kTable * width);
  if (numerics::is_quantized(type)) {
    // As a quantised group looks: its largest member uses the largest code.
    const float scale = t4.back() / static_cast<float>(numerics::largest(type));
    for (std::size_t i = 0; i < kTable; ++i) table[i] = std::byte{numerics::quantize_one(t4[i] * 8.0f, scale, type)};
  } else if (numerics::is_float(type)) {
    numerics::encode(type, t4, table.data());
  } else {
    throw std::invalid_argument("operands cannot be generated in " + std::string(numerics::name_of(type)));
  }
  std::vector<std::byte> values(
      static_cast<std::size_t>(numerics::checked_mul(elements, static_cast<std::int64_t>(width))));
  const auto count = static_cast<std::size_t>(elements);
  if (width == 1)
    pick<1>(table.data(), count, random, values.data());
  else if (width == 2)
    pick<2>(table.data(), count, random, values.data());
  else
    pick<4>(table.data(), count, random, values.data());
  if (type != DType::e2m1) return values;
  std::vector<std::byte> pairs(numerics::bytes_of(type, count));
  for (std::size_t i = 0; i < count; ++i) pairs[i / 2] |= values[i] << (i % 2 * 4);
  return pairs;
}

std::vector<std::byte> draw_scales(const report::Scales& scales, std::int64_t rows, std::int64_t cols,
                                   std::mt19937_64& random) {
  if (scales.dtype == DType::none) return {};
  const std::int64_t count = numerics::checked_mul(scales.grid.scale_rows(rows), scales.grid.scale_cols(cols));
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * numerics::size_of(scales.dtype));
  std::vector<float> values(static_cast<std::size_t>(count));
  const double least = scales.dtype == DType::e4m3fn ? -4 : -10;  // Its smallest is 2^-9.
  for (float& value : values) value = static_cast<float>(std::exp2(least + 4 * uniform(random)));
  numerics::encode(scales.dtype, values, bytes.data());
  return bytes;
}

class MadeExperts final : public ExpertsSource {
 public:
  MadeExperts(const ExpertsForm& form, std::uint64_t seed) : form_(form), seed_(seed) {}

  const ExpertsForm& form() const override { return form_; }

  StackedMatrices matrix(bool shared, Projection projection, std::int64_t expert) const override {
    const GatedForm& gated = shared ? form_.shared.value() : form_.experts;
    const MatrixForm& matrix = projection == Projection::down ? gated.down : gated.gate;
    report::Problem problem;
    std::tie(problem.n, problem.k) = shape_of(form_, gated, projection);
    problem.a = DType::bf16;
    problem.b = matrix.code;
    problem.d = DType::f32;
    problem.b_scale = matrix.scale;
    const auto which = static_cast<std::uint64_t>(expert) * 8 + static_cast<std::uint64_t>(projection) * 2 + shared;
    MadeOperands made = make_operands(problem, seed_ + which * 0x9e3779b97f4a7c15u);
    return {problem.n, problem.k, std::move(made.b), std::move(made.b_scale), std::move(made.b_global)};
  }

  StackedMatrices router() const override {
    std::mt19937_64 random(seed_ ^ 0x726f75746572u);
    std::vector<float> values(static_cast<std::size_t>(form_.logits() * form_.hidden));
    const double scale = 1 / std::sqrt(static_cast<double>(form_.hidden));
    for (float& value : values) value = static_cast<float>(student_t4(uniform(random)) * scale);
    std::vector<std::byte> bytes(values.size() * numerics::size_of(form_.router.code));
    numerics::encode(form_.router.code, values, bytes.data());
    return {form_.logits(), form_.hidden, std::move(bytes), {}};
  }

  std::vector<float> correction_bias() const override {
    if (!form_.correction_bias) return {};
    std::mt19937_64 random(seed_ ^ 0x62696173u);
    std::vector<float> values(static_cast<std::size_t>(form_.routing.experts));
    for (float& value : values) value = static_cast<float>(0.1 * uniform(random));
    return values;
  }

 private:
  ExpertsForm form_;
  std::uint64_t seed_;
};

}  // namespace

std::vector<std::uint16_t> heavy_tailed_activations(std::int64_t m, std::int64_t k, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<double> factors(static_cast<std::size_t>(k));
  for (double& factor : factors) factor = uniform(generator) < kOutlierShare ? kOutlierFactor : 1;
  std::vector<std::uint16_t> x(static_cast<std::size_t>(numerics::checked_mul(m, k)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = student_t4(uniform(generator)) * factors[i % factors.size()];
    x[i] = numerics::encode_bf16(static_cast<float>(value));
  }
  return x;
}

MadeOperands make_operands(const report::Problem& problem, std::uint64_t seed) {
  std::mt19937_64 random(seed), random_b(seed ^ 0x9e3779b97f4a7c15u);
  if (problem.grouping == Grouping::masked)
    throw std::invalid_argument(
        "operands of a masked problem are not generated: how many rows a matrix has is not part of it");
  const auto plain = [](const report::Scales& scales) {
    return scales.grid.row_origin == 0 && scales.grid.col_origin == 0;
  };
  if (problem.a_rows != 0 || problem.a_scale.global || numerics::bits_of(problem.a) < 8 || !plain(problem.a_scale) ||
      !plain(problem.b_scale))
    throw std::invalid_argument(
        "operands are not generated for gathered rows, activations of four bits or with a global scale, or a grid "
        "that begins inside a block");
  MadeOperands operands;
  const std::int64_t matrices = matrices_of(problem);
  const bool dynamic = problem.a_source != DType::none;
  operands.a = draw(dynamic ? problem.a_source : problem.a, numerics::checked_mul(problem.m, problem.k), random);
  if (!dynamic || problem.a_quantizer.given)
    operands.a_scale = draw_scales(problem.a_scale, problem.m, problem.k, random);
  operands.b =
      draw(problem.b, numerics::checked_mul(matrices, numerics::checked_mul(problem.b_rows(), problem.k)), random_b);
  for (std::int64_t g = 0; g < matrices; ++g) {
    const std::vector<std::byte> scales = draw_scales(problem.b_scale, problem.b_rows(), problem.k, random_b);
    operands.b_scale.insert(operands.b_scale.end(), scales.begin(), scales.end());
    if (problem.b_scale.global) operands.b_global.push_back(static_cast<float>(std::exp2(-4 * uniform(random_b))));
  }
  if (problem.bias != DType::none)
    operands.bias = draw(problem.bias, numerics::checked_mul(matrices, problem.b_rows()), random_b);
  if (problem.grouping != Grouping::none) {
    std::mt19937_64 dealt(seed ^ 0x636f756e7473u);
    operands.counts.resize(static_cast<std::size_t>(matrices));
    for (std::int64_t row = 0; row < problem.m; ++row) ++operands.counts[dealt() % operands.counts.size()];
  }
  return operands;
}

std::unique_ptr<ExpertsSource> make_experts(const ExpertsForm& form, std::uint64_t seed) {
  return std::make_unique<MadeExperts>(form, seed);
}

std::vector<std::int32_t> make_ids(std::int64_t tokens, std::int64_t experts, std::int64_t top_k, double skew,
                                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  // Which expert is wanted how much: a shuffled order of ranks.
  std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  std::vector<double> wanted(order.size());
  for (std::size_t r = 0; r < order.size(); ++r)
    wanted[static_cast<std::size_t>(order[r])] = std::pow(static_cast<double>(r + 1), -skew);
  // The k smallest of exponential variables with these rates are k draws without replacement.
  std::vector<std::pair<double, std::int32_t>> keys(order.size());
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::size_t e = 0; e < keys.size(); ++e)
      keys[e] = {-std::log(uniform(random)) / wanted[e], static_cast<std::int32_t>(e)};
    std::partial_sort(keys.begin(), keys.begin() + top_k, keys.end());
    for (std::int64_t j = 0; j < top_k; ++j) ids.push_back(keys[static_cast<std::size_t>(j)].second);
  }
  return ids;
}

ExpertsInput make_experts_input(const ExpertsForm& form, std::int64_t tokens, double skew, std::uint64_t seed) {
  ExpertsInput input;
  input.tokens = tokens;
  input.x = bytes_of(heavy_tailed_activations(tokens, form.hidden, seed));
  input.origin = fmt::format("random (seed {}, skew {})", seed, skew);
  RoutedTokens routed{make_ids(tokens, form.routing.experts, form.routing.top_k, skew, seed ^ 0x6c6f6164u), {}};
  std::mt19937_64 random(seed ^ 0x77656967u);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<double> weights(static_cast<std::size_t>(form.routing.top_k));
    for (double& weight : weights) weight = 0.1 + uniform(random);
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double weight : weights)
      routed.weights.push_back(static_cast<float>(weight / total) * form.routing.scale);
  }
  input.routed = std::move(routed);
  return input;
}

}  // namespace ironcl::layer

// SPDX-License-Identifier: Apache-2.0
// Numbers of a layer of experts from a seed.
#include "host/layer/experts_synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "backends/numerics/casts.h"
#include "host/layer/heavy_tail.h"
#include "host/layer/student_t4.h"
#include "host/layer/synthetic.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

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
    return {1, problem.n, problem.k, std::move(made.b), std::move(made.b_scale)};
  }

  std::vector<std::byte> router() const override {
    std::mt19937_64 random(seed_ ^ 0x726f75746572u);
    std::vector<float> values(static_cast<std::size_t>(form_.logits() * form_.hidden));
    const double scale = 1 / std::sqrt(static_cast<double>(form_.hidden));
    for (float& value : values) value = static_cast<float>(student_t4(uniform(random)) * scale);
    std::vector<std::byte> bytes(values.size() * numerics::size_of(form_.router));
    numerics::encode(form_.router, values, bytes.data());
    return bytes;
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

std::unique_ptr<ExpertsSource> make_experts(const ExpertsForm& form, std::uint64_t seed) {
  return std::make_unique<MadeExperts>(form, seed);
}

ExpertsInput make_experts_input(const ExpertsForm& form, std::int64_t tokens, double skew, std::uint64_t seed) {
  const auto experts = static_cast<std::size_t>(form.routing.experts);
  ExpertsInput input;
  input.tokens = tokens;
  const std::vector<std::uint16_t> x = heavy_tailed_activations(tokens, form.hidden, seed);
  const auto bytes = std::as_bytes(std::span(x));
  input.x.assign(bytes.begin(), bytes.end());
  input.origin = fmt::format("made up (seed {}, skew {})", seed, skew);
  std::mt19937_64 random(seed ^ 0x6c6f6164u);
  std::vector<std::int32_t> order(experts);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = experts; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  std::vector<double> until(experts);
  double sum = 0;
  for (std::size_t i = 0; i < experts; ++i) until[i] = sum += std::pow(static_cast<double>(i + 1), -skew);
  RoutedTokens routed;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::set<std::int32_t> taken;
    double total = 0;
    const std::size_t first = routed.weights.size();
    while (taken.size() < static_cast<std::size_t>(form.routing.top_k)) {
      const auto at = std::lower_bound(until.begin(), until.end(), uniform(random) * sum) - until.begin();
      const std::int32_t id = order[std::min(static_cast<std::size_t>(at), experts - 1)];
      if (!taken.insert(id).second) continue;
      routed.ids.push_back(id);
      routed.weights.push_back(static_cast<float>(0.1 + uniform(random)));
      total += static_cast<double>(routed.weights.back());
    }
    for (std::size_t i = first; i < routed.weights.size(); ++i)
      routed.weights[i] = static_cast<float>(static_cast<double>(routed.weights[i]) / total) * form.routing.scale;
  }
  input.routed = std::move(routed);
  return input;
}

std::int64_t experts_hit(const ExpertsForm& form, const RoutedTokens& routed) {
  std::set<std::int32_t> hit;
  for (const std::int32_t id : routed.ids)
    if (id >= 0 && id < form.routing.experts) hit.insert(id);
  return static_cast<std::int64_t>(hit.size());
}

}  // namespace ironcl::layer

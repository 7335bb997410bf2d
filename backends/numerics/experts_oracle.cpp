// SPDX-License-Identifier: Apache-2.0
// The steps between the products of a layer of experts in f64, and their bounds.
#include "backends/numerics/experts_oracle.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace ironcl::numerics {
namespace {

constexpr double kUnit = 0x1p-24;        // of f32
constexpr double kExp = 6 * kUnit;       // exp of a device: 3 ulp, an ulp being up to two units
constexpr double kUnderflow = 0x1p-120;  // exp(x) past the largest f32, or below the smallest normal one
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// exp(-a) / (1 + exp(-a)): how much of an error of exp(-a) is left in 1 + exp(-a).
double left_of_exp(double a) { return 1 / (1 + std::exp(a)); }

double sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

Within softplus_root(double x) {
  const double value = std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
  return {value, std::isfinite(value) ? 16 * kUnit * value + std::sqrt(kUnderflow) : 0};
}

std::vector<Within> softmax_oracle(std::span<const float> logits) {
  std::vector<Within> out(logits.size());
  double top = -kInfinity;
  for (const float x : logits) top = x > top ? x : top;
  double sum = 0, error = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double difference = logits[i] - top;
    out[i].value = std::exp(difference);
    // The difference is rounded once; exp turns its error into a relative one. What is far below vanishes in f32.
    const double own = difference < -80 ? 1 : std::fabs(difference) * kUnit + kExp;
    out[i].error = own * out[i].value + (difference < -80 ? kUnderflow : 0);
    sum += out[i].value;
    error += out[i].error;
  }
  error += static_cast<double>(logits.size()) * kUnit * sum;  // additions, in any order
  for (Within& score : out) {
    const double relative = error / sum + 6 * kUnit;  // of the sum, and of the division (2.5 ulp) and second order
    score.error = score.error / sum + relative * (score.value / sum);
    score.value /= sum;
  }
  return out;
}

/// From where to where a key may be; a NaN is below everything.
struct Range {
  double low = -kInfinity, high = -kInfinity;
};

struct Keys {
  std::vector<Range> of_expert, of_group;
};

Keys key_ranges(const Routing& routing, std::span<const Within> scores, std::span<const float> bias) {
  Keys keys;
  keys.of_expert.resize(scores.size());
  for (std::size_t e = 0; e < scores.size(); ++e) {
    const double key = scores[e].value + (bias.empty() ? 0.0 : static_cast<double>(bias[e]));
    if (std::isnan(key)) continue;
    const double error = std::isfinite(key) ? scores[e].error + (bias.empty() ? 0 : kUnit * std::fabs(key)) : 0;
    keys.of_expert[e] = {key - error, key + error};
  }
  const auto size = static_cast<std::size_t>(routing.experts / routing.expert_groups);
  for (std::size_t g = 0; g < static_cast<std::size_t>(routing.expert_groups); ++g) {
    std::vector<double> low, high;
    for (std::size_t e = g * size; e < (g + 1) * size; ++e) {
      low.push_back(keys.of_expert[e].low);
      high.push_back(keys.of_expert[e].high);
    }
    std::sort(low.rbegin(), low.rend());
    std::sort(high.rbegin(), high.rend());
    Range value{low[0], high[0]};
    if (routing.best_of_two) {
      const double rounding = kUnit * (std::fabs(high[0]) + std::fabs(high[1]));
      value = {low[0] + low[1] - (std::isfinite(rounding) ? rounding : 0),
               high[0] + high[1] + (std::isfinite(rounding) ? rounding : 0)};
    }
    keys.of_group.push_back(value);
  }
  return keys;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Checks the choice of one token; each part says what is wrong, or nothing.
class Judge {
 public:
  Judge(const Routing& routing, std::span<const float> logits, std::span<const float> bias,
        std::span<const std::int32_t> ids)
      : routing_(routing),
        logits_(logits),
        bias_(bias),
        ids_(ids),
        scores_(score_oracle(routing.score, logits)),
        keys_(key_ranges(routing, scores_, bias)) {}

  std::string distinct() const {
    std::vector<std::int32_t> sorted(ids_.begin(), ids_.end());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      if (sorted[j] < 0 || sorted[j] >= routing_.experts) {
        return "id " + std::to_string(sorted[j]) + " is no expert of " + std::to_string(routing_.experts);
      }
      if (j != 0 && sorted[j] == sorted[j - 1]) return "expert " + std::to_string(sorted[j]) + " is chosen twice";
    }
    return {};
  }

  std::string order() const {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      for (std::size_t j = i + 1; j < ids_.size(); ++j) {
        if (must_precede(ids_[j], ids_[i])) return before(ids_[j], ids_[i], "comes after");
      }
    }
    return {};
  }

  /// Nobody was left out who had to be there.
  std::string left_out() const {
    std::vector<bool> chosen(static_cast<std::size_t>(routing_.experts)), used(keys_.of_group.size());
    for (const std::int32_t id : ids_) {
      chosen[static_cast<std::size_t>(id)] = true;
      used[group_of(id)] = true;
    }
    for (std::size_t g = 0; g < used.size(); ++g) {
      if (used[g] && surely_better(g) >= routing_.top_groups) {
        return "group " + std::to_string(g) + " is used, but " + std::to_string(surely_better(g)) +
               " groups are better";
      }
    }
    for (std::int32_t e = 0; e < routing_.experts; ++e) {
      if (chosen[static_cast<std::size_t>(e)] || !(used[group_of(e)] || surely_stays(group_of(e)))) continue;
      for (const std::int32_t id : ids_) {
        if (must_precede(e, id)) return before(e, id, "is left out for");
      }
    }
    return {};
  }

  std::string weights(std::span<const float> got) const {
    double sum = 0, error = 0;
    for (const std::int32_t id : ids_) {
      sum += scores_[static_cast<std::size_t>(id)].value;
      error += scores_[static_cast<std::size_t>(id)].error;
    }
    for (std::size_t j = 0; j < ids_.size(); ++j) {
      const Within& score = scores_[static_cast<std::size_t>(ids_[j])];
      double want = score.value, allowed = score.error;
      if (routing_.normalize && sum != 0) {
        const double relative = error / sum + static_cast<double>(ids_.size() + 6) * kUnit;
        allowed = allowed / sum + relative * (want / sum);
        want /= sum;
      }
      want *= routing_.scale;
      allowed = allowed * std::fabs(routing_.scale) + kUnit * std::fabs(want) + 0x1p-126;
      const bool same = std::isnan(want) ? std::isnan(got[j]) : got[j] == want;  // infinities too
      const bool right = same || std::fabs(got[j] - want) <= allowed;
      if (!right) {
        return "the weight of expert " + std::to_string(ids_[j]) + " is " + shown(got[j]) + ", expected " +
               shown(want) + " within " + shown(allowed);
      }
    }
    return {};
  }

 private:
  std::size_t group_of(std::int32_t expert) const {
    return static_cast<std::size_t>(expert / (routing_.experts / routing_.expert_groups));
  }
  bool equal(std::int32_t a, std::int32_t b) const {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return same(logits_[i], logits_[j]) && (bias_.empty() || same(bias_[i], bias_[j]));
  }
  bool must_precede(std::int32_t a, std::int32_t b) const {
    const Range &left = keys_.of_expert[static_cast<std::size_t>(a)],
                &right = keys_.of_expert[static_cast<std::size_t>(b)];
    if (equal(a, b) || (left.high == -kInfinity && right.high == -kInfinity)) return a < b;
    return left.low > right.high;
  }
  /// Groups that are better than g whatever the errors are.
  std::int64_t surely_better(std::size_t g) const {
    return std::count_if(keys_.of_group.begin(), keys_.of_group.end(),
                         [&](const Range& other) { return other.low > keys_.of_group[g].high; });
  }
  bool surely_stays(std::size_t g) const {
    std::int64_t rivals = 0;
    for (std::size_t other = 0; other < keys_.of_group.size(); ++other) {
      if (other != g && keys_.of_group[other].high >= keys_.of_group[g].low) ++rivals;
    }
    return rivals < routing_.top_groups;
  }
  std::string before(std::int32_t first, std::int32_t second, const char* relation) const {
    return "expert " + std::to_string(first) + " (logit " + shown(logits_[static_cast<std::size_t>(first)]) + ") " +
           relation + " expert " + std::to_string(second) + " (logit " +
           shown(logits_[static_cast<std::size_t>(second)]) + "), which is worth less or has the larger id";
  }

  const Routing& routing_;
  std::span<const float> logits_, bias_;
  std::span<const std::int32_t> ids_;
  std::vector<Within> scores_;
  Keys keys_;
};

}  // namespace

std::vector<Within> score_oracle(Score score, std::span<const float> logits) {
  if (score == Score::softmax) return softmax_oracle(logits);
  std::vector<Within> out(logits.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = logits[i];
    if (score == Score::sqrt_softplus) {
      out[i] = std::isnan(x) ? Within{x, 0} : softplus_root(x);
    } else {
      const double value = std::isnan(x) ? x : sigmoid64(x);
      out[i] = {value, 16 * kUnit * value + kUnderflow};
    }
  }
  return out;
}

std::string judge_choice(const Routing& routing, std::span<const float> logits, std::span<const float> bias,
                         std::span<const std::int32_t> ids, std::span<const float> weights) {
  if (std::ssize(logits) != routing.experts || std::ssize(ids) != routing.top_k || weights.size() != ids.size() ||
      (!bias.empty() && bias.size() != logits.size())) {
    throw std::invalid_argument("judge_choice: lengths do not fit " + std::to_string(routing.experts) +
                                " experts, of which " + std::to_string(routing.top_k) + " are chosen");
  }
  const Judge judge(routing, logits, bias, ids);
  for (const auto part : {&Judge::distinct, &Judge::order, &Judge::left_out})
    if (std::string wrong = (judge.*part)(); !wrong.empty()) return wrong;
  return judge.weights(weights);
}

Within activation_oracle(Activation activation, double gate, double up, double limit) noexcept {
  if (limit != 0) {
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up < -limit ? -limit : up;
  }
  const bool oai = activation == Activation::swiglu_oai;
  const double inner = oai ? static_cast<double>(1.702f) * gate : gate;
  const double outer = oai ? up + 1 : up;
  if (!std::isfinite(gate) || !std::isfinite(up)) {
    return {gate / (1 + std::exp(-inner)) * outer, 0};  // what IEEE arithmetic makes of it
  }
  const double value = gate * sigmoid64(inner) * outer;
  // exp (3 ulp) and, of swiglu_oai, its rounded argument; 1 +, a division (2.5 ulp), two products, up + 1.
  const double relative = (6 + (oai ? std::fabs(inner) : 0)) * left_of_exp(inner) + 11;
  return {value, relative * kUnit * std::fabs(value) + kUnderflow * std::max(1.0, std::fabs(outer))};
}

Within activation_oracle(Activation activation, const Within& gate, const Within& up, double limit) noexcept {
  constexpr double kSteepest = 1.1;             // slope of x / (1 + exp(-x)), at x = 2.3994: 1.09984
  constexpr double kSecondOrder = 1 + 0x1p-10;  // products of errors
  const double infinity = std::numeric_limits<double>::infinity(), most = limit == 0 ? infinity : limit;
  const Within own = activation_oracle(activation, gate.value, up.value, limit);
  if (!std::isfinite(own.value)) return {own.value, infinity};
  // Both functions are g / (1 + exp(-steep g)) times up, or up + 1, and clamping makes no error larger.
  const bool oai = activation == Activation::swiglu_oai;
  const double least = std::min(gate.value, most), factor = std::clamp(up.value, -most, most) + (oai ? 1 : 0);
  const double silu = std::fabs(least / (1 + std::exp(-(oai ? 1.702 : 1) * least)));
  const double through = kSteepest * gate.error * (std::fabs(factor) + up.error) + silu * up.error;
  return {own.value, kSecondOrder * (through + own.error)};
}

}  // namespace ironcl::numerics

// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/search.h"

#include <cmath>
#include <random>

#include "host/report/units.h"

namespace ironcl::tuning {
namespace {

using layer::Check;
using layer::Execution;
using layer::Expected;
using layer::Operands;
using layer::WeightsPool;

constexpr double kSlow = 2.5;          ///< Times the best: not worth a check.
constexpr std::size_t kFinalists = 3;  ///< Beside the rule of thumb.
constexpr double kFinalShare = 0.2;    ///< Of the budget, kept for the finalists.
constexpr double kLeastGain = 0.01;    ///< A winner is at least so much faster.
constexpr int kGiveUpAfter = 4;        ///< Samples of a variant that were all slow: no more of it.
constexpr int kQuickRuns = 3;          ///< Timed ones of a trial,
constexpr int kFinalRuns = 9;          ///< and of a finalist, where time allows.
constexpr double kManyFlops = 0x1p33;  ///< Calls that long find no weights in a cache anyway.

/// Standard error of a median, from the quartiles, as for a normal distribution.
double error_of(const Summary& s) {
  return s.count == 0 ? 0 : 0.93 * (s.high - s.low) / std::sqrt(static_cast<double>(s.count));
}

/// By the medians, and by the quicker quarter of the runs too, which other load on the machine touches least.
bool faster_by_more_than_noise(const Summary& a, const Summary& b) {
  const double noise = 2 * std::hypot(error_of(a), error_of(b));
  if (a.low + kLeastGain * b.low >= b.low) return false;
  return a.median + std::max(noise, kLeastGain * b.median) < b.median;
}

/// The order in which a sample visits the space: each variant shuffled, variants in turn.
std::vector<std::size_t> sample_order(const Space& space, std::uint64_t seed) {
  std::map<std::string, std::vector<std::size_t>> by_variant;
  for (std::size_t i = 0; i < space.candidates.size(); ++i) by_variant[space.candidates[i].variant].push_back(i);
  std::mt19937_64 random(seed);
  for (auto& [variant, indices] : by_variant)  // std::shuffle differs between libraries
    for (std::size_t i = indices.size(); i > 1; --i) std::swap(indices[i - 1], indices[random() % i]);
  std::vector<std::size_t> order;
  for (std::size_t round = 0; order.size() < space.candidates.size(); ++round)
    for (const auto& [variant, indices] : by_variant)
      if (round < indices.size()) order.push_back(indices[round]);
  return order;
}

/// Whether two configurations of the space, of one variant, differ in one option only, and there by one step of the
/// values that the space has for it.
class Neighbourhood {
 public:
  explicit Neighbourhood(const Space& space) {
    for (const Configuration& c : space.candidates)
      for (const auto& [name, value] : c.options) values_[{c.variant, name}].insert(std::atof(value.c_str()));
  }
  bool holds(const Configuration& a, const Configuration& b) const {
    if (a.variant != b.variant || a.options.size() != b.options.size()) return false;
    int steps = 0;
    for (std::size_t i = 0; i < a.options.size(); ++i) {
      if (a.options[i] == b.options[i]) continue;
      if (a.options[i].first != b.options[i].first || ++steps > 1) return false;
      const auto& values = values_.at({a.variant, a.options[i].first});
      const auto at_a = values.find(std::atof(a.options[i].second.c_str()));
      const auto at_b = values.find(std::atof(b.options[i].second.c_str()));
      if (std::next(at_a) != at_b && std::next(at_b) != at_a) return false;
    }
    return steps == 1;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::set<double>> values_;
};

/// A candidate that was right, ready to run again.
struct Live {
  std::size_t index = 0;
  double quick_ns = 0;
  std::unique_ptr<Execution> execution;
};

/// One search: what search() was given, and how far it is.
struct Search {
  const Device& device_;
  const report::Problem& problem_;
  const Operands& operands_;
  const Expected& expected_;
  const Space& space_;
  WeightsPool& pool_;
  const SearchSettings& settings_;
  std::vector<bool> tried_ = std::vector<bool>(space_.candidates.size());
  std::vector<Live> live_{};  ///< Fastest first.
  double start_ = now(), trial_seconds_ = 0;
  Found found_{};

  Found run() {
    found_.rule_of_thumb = space_.candidates[space_.rule_of_thumb];
    if (!stopped()) try_one(space_.rule_of_thumb, "rule of thumb");
    for (const Configuration& start : settings_.starts) {
      const auto at = std::find(space_.candidates.begin(), space_.candidates.end(), start);
      if (at != space_.candidates.end())
        try_in_time(static_cast<std::size_t>(at - space_.candidates.begin()), "nearby");
    }
    // Where something won nearby, its neighbours are worth more than a sample.
    sample(settings_.starts.empty() ? 0.3 : 0.1);
    climb();
    sample(1);
    climb();
    finish();
    found_.skipped = static_cast<std::size_t>(std::count(tried_.begin(), tried_.end(), false));
    found_.seconds = elapsed();
    return std::move(found_);
  }

  double now() const { return settings_.now ? settings_.now() : report::now_ns() * 1e-9; }
  double elapsed() const { return now() - start_; }
  bool stopped() {
    if (settings_.stop && settings_.stop()) found_.stopped = true;
    return found_.stopped;
  }
  double best_ns() const { return live_.empty() ? 0 : live_.front().quick_ns; }

  /// Whether another trial ends within this share of the time for trials.
  bool time_for_a_trial(double share) {
    const double mean = found_.trials.empty() ? 0 : trial_seconds_ / static_cast<double>(found_.trials.size());
    double finals = 0;  // the fewest runs of the finalists so far: one to warm up, three timed, one checked
    for (const Live& live : live_) finals += 5e-9 * live.quick_ns;
    const double rest = settings_.budget_seconds - std::max(finals, settings_.budget_seconds * kFinalShare);
    return elapsed() + mean <= rest * share;
  }

  void report(const char* stage) const {
    if (settings_.progress) settings_.progress({stage, found_.trials.size(), best_ns()});
  }

  bool try_in_time(std::size_t index, const char* stage, double share = 1) {
    if (tried_[index] || stopped()) return false;
    if (!time_for_a_trial(share)) {
      if (share >= 1) found_.out_of_time = true;
      return false;
    }
    try_one(index, stage);
    return true;
  }

  void try_one(std::size_t index, const char* stage) {
    const double before = now();
    tried_[index] = true;
    Trial trial{space_.candidates[index], Outcome::failed, 0, {}};
    try {
      measure(index, trial);
    } catch (const ironcl::Error& error) {
      if (error.status() == IRONCL_DEVICE_LOST || error.status() == IRONCL_UNAVAILABLE) throw;
      trial.outcome = error.status() == IRONCL_UNSUPPORTED ? Outcome::refused : Outcome::failed;
      trial.why = error.what();
    }
    found_.trials.push_back(std::move(trial));
    trial_seconds_ += now() - before;
    if (found_.trials.size() == 1) found_.first_trial_seconds = trial_seconds_;
    report(stage);
  }

  void measure(std::size_t index, Trial& trial) {
    const auto end = [&trial](Outcome outcome, const std::string& why) {
      trial.outcome = outcome;
      trial.why = why;
    };
    const Configuration& configuration = space_.candidates[index];
    report::Problem problem = problem_;
    problem.options = configuration.options;
    problem.options.emplace_back("variant", configuration.variant);
    const std::uint64_t rotate_bytes = flops_of(problem) > kManyFlops ? 0 : settings_.rotate_bytes;
    layer::ExecutionSettings settings{rotate_bytes, &pool_, configuration.layout};
    if (settings.layout.empty()) settings.layout = to_text(configuration);
    auto execution = std::make_unique<Execution>(device_, problem, operands_, settings);
    if (static_cast<numerics::AccuracyClass>(execution->plan().info().accuracy_class) > problem_.weakest_accuracy)
      return end(Outcome::refused, "its plan is of a weaker accuracy class than the problem allows");
    const layer::Timing first = execution->run();
    found_.time_kind = first.time_kind;
    if (!live_.empty() && first.ns() > kSlow * best_ns())
      return end(Outcome::slow, fmt::format("its first run took {:.3g} times the best", first.ns() / best_ns()));
    if (const Check check = execution->check(expected_); !check.pass) return end(Outcome::wrong, check.why);
    std::vector<double> times;
    for (int i = 0; i < kQuickRuns; ++i) {
      times.push_back(execution->run().ns());
      if (live_.size() > kFinalists && times.back() > 2 * best_ns()) break;
    }
    trial.time_ns = summarize(times).median;
    // Once more before it becomes what others are judged by: a race may show only now and then.
    if (live_.empty() || trial.time_ns < best_ns()) {
      if (const Check check = execution->check(expected_); !check.pass) return end(Outcome::wrong, check.why);
    }
    trial.outcome = Outcome::measured;
    keep({index, trial.time_ns, std::move(execution)});
  }

  /// Keeps the finalists so far: the fastest, and the rule of thumb.
  void keep(Live live) {
    live_.insert(std::upper_bound(live_.begin(), live_.end(), live,
                                  [](const Live& a, const Live& b) { return a.quick_ns < b.quick_ns; }),
                 std::move(live));
    std::size_t others = 0;
    std::erase_if(live_, [&](const Live& one) { return one.index != space_.rule_of_thumb && ++others > kFinalists; });
  }

  void sample(double share) {
    for (const std::size_t index : sample_order(space_, settings_.seed)) {
      if (tried_[index]) continue;
      const std::string& variant = space_.candidates[index].variant;
      if (given_up(variant)) continue;
      if (!try_in_time(index, "sample", share)) return;
    }
  }

  /// A variant of which nothing but slow, wrong and failing candidates were seen.
  bool given_up(const std::string& variant) const {
    int seen = 0;
    for (const Trial& trial : found_.trials) {
      if (trial.configuration.variant != variant) continue;
      if (trial.outcome == Outcome::measured) return false;
      ++seen;
    }
    return seen >= kGiveUpAfter;
  }

  /// From the best to the best of its neighbours, until none is faster.
  void climb() {
    const Neighbourhood neighbourhood(space_);
    for (bool moved = true; moved && !live_.empty();) {
      const std::size_t centre = live_.front().index;
      for (std::size_t i = 0; i < space_.candidates.size(); ++i) {
        if (tried_[i] || !neighbourhood.holds(space_.candidates[centre], space_.candidates[i])) continue;
        if (!try_in_time(i, "neighbours")) return;
      }
      moved = live_.front().index != centre;
    }
  }

  /// The finalists once more, in turn, then the verdict.
  void finish() {
    if (live_.empty() || found_.stopped) return;
    std::vector<std::vector<double>> times(live_.size());
    for (Live& live : live_) live.execution->run();  // each starts warm
    for (int round = 0; round < kFinalRuns; ++round) {
      if (round >= 3 && elapsed() > settings_.budget_seconds) break;
      for (std::size_t i = 0; i < live_.size(); ++i) {
        const std::size_t at = (i + static_cast<std::size_t>(round)) % live_.size();
        times[at].push_back(live_[at].execution->run().ns());
      }
      report("finalists");
      if (stopped()) return;
    }
    std::vector<std::pair<Summary, const Live*>> ranking;
    const Live* thumb = nullptr;
    for (std::size_t i = 0; i < live_.size(); ++i) {
      // Still right after many runs?
      if (const Check check = live_[i].execution->check(expected_); !check.pass) {
        for (Trial& trial : found_.trials)
          if (trial.configuration == space_.candidates[live_[i].index])
            trial.outcome = Outcome::wrong, trial.why = check.why;
        continue;
      }
      ranking.emplace_back(summarize(times[i]), &live_[i]);
      if (live_[i].index == space_.rule_of_thumb) {
        thumb = &live_[i];
        found_.rule_of_thumb_time = ranking.back().first;
      }
    }
    if (ranking.empty()) return;
    std::ranges::sort(ranking, [](const auto& a, const auto& b) { return a.first.median < b.first.median; });
    const Live* winner = ranking.front().second;
    found_.time = ranking.front().first;
    found_.beats_rule_of_thumb =
        thumb == nullptr || (winner != thumb && faster_by_more_than_noise(found_.time, found_.rule_of_thumb_time));
    if (!found_.beats_rule_of_thumb) {
      winner = thumb;
      found_.time = found_.rule_of_thumb_time;
    }
    found_.winner = space_.candidates[winner->index];
    found_.any = true;
  }
};

}  // namespace

const char* name_of(Outcome outcome) {
  constexpr const char* kNames[] = {"measured", "slow", "wrong", "refused", "failed"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::size_t Found::count(Outcome outcome) const {
  return static_cast<std::size_t>(
      std::count_if(trials.begin(), trials.end(), [&](const Trial& trial) { return trial.outcome == outcome; }));
}

Found search(const Device& device, const report::Problem& problem, const Operands& operands, const Expected& expected,
             const Space& space, WeightsPool& pool, const SearchSettings& settings) {
  return Search{device, problem, operands, expected, space, pool, settings}.run();
}

}  // namespace ironcl::tuning

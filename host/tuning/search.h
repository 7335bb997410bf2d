// SPDX-License-Identifier: Apache-2.0
// Finds the fastest right configuration for one problem within a time. Next door: space.h (what there is to try),
// tables.h (keeps the winners), host/layer/execution.h (runs and checks one).
//
// Stages: the rule of thumb; what won nearby; a sample of the space, spread over its variants, with a fixed seed; the
// neighbours of the best, one tunable per step; then the finalists again, interleaved. Each candidate has one
// unmeasured run, is compared with the oracle, and is measured after that; only what is right can win. A winner must
// beat the rule of thumb by more than the noise of both.
#pragma once

#include "host/layer/execution.h"
#include "host/tuning/ceilings.h"
#include "host/tuning/space.h"

namespace ironcl::tuning {

/// What became of a candidate. Only a measured one can win.
enum class Outcome {
  measured,  ///< Right, and timed.
  slow,      ///< Its unmeasured run took so much longer than the best that it was neither checked nor timed.
  wrong,     ///< Its result disagrees with the oracle.
  refused,   ///< The device does not take it after all (UNSUPPORTED).
  failed,    ///< It could not be built or run.
};
const char* name_of(Outcome outcome);

struct Trial {
  Configuration configuration;
  Outcome outcome = Outcome::failed;
  double time_ns = 0;  ///< Median of the few runs of its trial; 0 where there were none.
  std::string why;     ///< Why it was not measured.
};

struct Progress {
  const char* stage = "";
  std::size_t tried = 0;
  double best_ns = 0;  ///< 0: nothing right yet.
};

struct SearchSettings {
  double budget_seconds = 30;
  std::uint64_t seed = 1;
  std::uint64_t rotate_bytes = std::uint64_t{256} << 20;  ///< Weights pass through that much memory.
  std::vector<Configuration> starts;                      ///< Tried first: what won nearby.
  std::function<double()> now;                            ///< Seconds; default: the steady clock.
  std::function<bool()> stop;                             ///< True: end at once. May be empty.
  std::function<void(const Progress&)> progress;          ///< May be empty.
};

struct Found {
  bool any = false;      ///< False: nothing was right within the time; the rest says why.
  Configuration winner;  ///< The rule of thumb itself where nothing beat it.
  Summary time;          ///< The winner's, in nanoseconds, in the final round.
  Configuration rule_of_thumb;
  Summary rule_of_thumb_time;  ///< count 0: it was not right or not run.
  bool beats_rule_of_thumb = false;
  std::uint32_t time_kind = 0;  ///< IRONCL_TIME_*.
  std::vector<Trial> trials;    ///< In the order of their trials.
  std::size_t skipped =
      0;                 ///< Valid candidates that the time did not reach, or that their variant's results ruled out.
  bool stopped = false;  ///< Ended by `stop`.
  bool out_of_time = false;  ///< The time was up before the stages were through.
  double seconds = 0;
  double first_trial_seconds = 0;  ///< For the rule of thumb: the minimum of a search.

  std::size_t count(Outcome outcome) const;
};

/// Searches `space` for `problem` on `device`. No trial starts that would not end within the budget, judged by those
/// before; the rule of thumb is always tried. `pool` holds prepared copies of the operands' B from search to search.
/// Throws what only the caller can mend (a device that is lost, no memory for the operands); a candidate's own
/// failure is recorded.
Found search(const Device& device, const report::Problem& problem, const layer::Operands& operands,
             const layer::Expected& expected, const Space& space, layer::WeightsPool& pool,
             const SearchSettings& settings);

}  // namespace ironcl::tuning

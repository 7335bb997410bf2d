// SPDX-License-Identifier: Apache-2.0
// A problem on a device, ready to be timed and checked: plan, prepared weights, buffers that rotate so that no call
// finds its weights in a cache. Next door: synthetic.h (operands), statistics.h (medians).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/numerics/bounds.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"
#include "host/tuning/synthetic.h"

namespace ironcl::tuning {

/// What a check found. Rows are sampled evenly, first and last among them; every element of D is looked at for having
/// been written.
struct Check {
  bool pass = false;
  numerics::Comparison comparison;  ///< Of the sampled rows; worst_row counts in D's rows.
  std::int64_t rows_checked = 0;
  std::int64_t unwritten = 0;  ///< Elements that still held the poison.
  std::string why;             ///< Empty where it passed; else a sentence.
};

/// One call, timed.
struct Timing {
  double device_ns = 0;  ///< From the event's profile: start of the first kernel to the end of the last.
  double host_ns = 0;    ///< From before the enqueue to after the wait, on the host's clock.
  std::uint32_t time_kind = IRONCL_TIME_NONE;
};

/// The correct answer for the sampled rows of a problem; shared by all candidates of a search.
struct Expected {
  std::vector<std::int64_t> rows;  ///< Rows of D, ascending.
  numerics::OracleResult oracle;   ///< One row for each of `rows`.
};

/// Rows spread evenly over [0, m), first and last included; all of them where m <= most.
std::vector<std::int64_t> sample_rows(std::int64_t m, std::int64_t most);

/// The oracle of at most `most_rows` rows. Quantises A first where the plan would.
Expected expect(const report::Problem& problem, const Operands& operands, std::int64_t most_rows);

/// Prepared copies of one B on one device, by layout: the candidates of a search share them instead of preparing
/// their own. One thread at a time.
class WeightsPool {
 public:
  using Copies = std::shared_ptr<std::vector<Weights>>;
  /// The copies for `layout`, which the caller has a name for; none yet on the first call.
  Copies& of(const std::string& layout) { return copies_[layout]; }

 private:
  std::map<std::string, Copies> copies_;
};

/// A plan with everything that its calls need. One thread at a time.
class Workload {
 public:
  /// Creates the plan, prepares as many copies of the weights as reach `rotate_bytes` (at least one, at most 64), and
  /// uploads A as often. With a pool, whose B is that of `operands`, copies of the layout of that name are taken from
  /// there or put there. Throws ironcl::Error as the plugin answers.
  Workload(const Device& device, const report::Problem& problem, const Operands& operands, std::uint64_t rotate_bytes,
           WeightsPool* pool = nullptr, const std::string& layout = {});

  /// Runs one call on the next copy and waits for it.
  Timing run();
  /// Poisons D, runs one call and compares it with the oracle.
  Check check(const Expected& expected);

  const Gemm& plan() const noexcept { return plan_; }
  double plan_ns() const noexcept { return plan_ns_; }        ///< Host time of creating the plan.
  double prepare_ns() const noexcept { return prepare_ns_; }  ///< Host time of preparing the weights once.
  std::uint64_t weights_bytes() const { return weights_->front().info().device_bytes; }  ///< Of one copy.
  std::size_t copies() const noexcept { return weights_->size(); }

 private:
  GemmArgs arguments(std::size_t copy) const;

  report::Problem problem_;
  Queue queue_;
  Gemm plan_;
  WeightsPool::Copies weights_;
  std::vector<Buffer> a_, a_scale_;
  Buffer d_, workspace_;
  std::size_t next_ = 0;
  double plan_ns_ = 0, prepare_ns_ = 0;
};

}  // namespace ironcl::tuning

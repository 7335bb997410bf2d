// SPDX-License-Identifier: Apache-2.0
// What `ironcl tune` prints: one line per problem while it runs, a summary, and everything as JSON.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/selection.h"
#include "host/report/problem.h"
#include "host/tuning/search.h"

namespace ironcl::cli {

class TuneReport {
 public:
  using Print = std::function<void(const std::string&)>;
  explicit TuneReport(Print print) : print_(std::move(print)) {}

  void heading() const;
  /// A search came to its end, with or without a winner.
  void found(const report::Problem& problem, const tuning::Space& space, const tuning::Found& found);
  /// The folder's table has the answer already: our member of its entry.
  void known(const report::Problem& problem, const boost::json::object& member);
  /// There was no time for it.
  void not_reached(const report::Problem& problem);
  /// The summary. `ended`: why it ended early; empty where it did not.
  void finish(const ironcl::Device& device, double budget_seconds, double seconds, const std::string& ended);
  void write_json(const std::string& path, const std::vector<layer::LeftOut>& left_out) const;

  /// No problem was searched without finding a configuration that is right.
  bool all_right() const noexcept { return without_answer_ == 0; }

 private:
  Print print_;
  boost::json::object all_;
  boost::json::array rows_;
  std::vector<double> ratios_;  ///< Rule of thumb over tuned, of what was searched now or before.
  std::vector<std::string> not_reached_;
  std::size_t searched_ = 0, known_ = 0, without_answer_ = 0, out_of_time_ = 0;
  std::size_t tried_ = 0, wrong_ = 0, failed_ = 0, skipped_ = 0;
};

}  // namespace ironcl::cli

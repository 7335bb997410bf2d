// SPDX-License-Identifier: Apache-2.0
// Kernel blocks chosen by the model: every legal candidate under the VMEM limit by the closed forms, the best of them
// stepped through.
#pragma once

#include <boost/json/object.hpp>

#include "backends/ironwood/plan.h"

namespace ironcl::ironwood {

struct Candidate {
  Plan plan;
  std::int64_t footprint_bytes = 0;
  double time_ns = 0;  ///< Modelled; stepped through where `stepped`, else by the closed form.
  bool stepped = false;
};

struct SearchResult {
  std::vector<Candidate> frontier;  ///< No other candidate is both faster and smaller; smallest first, best last.
  Candidate aligned;                ///< The blocks to which the published kernel falls back.
  std::int64_t candidates = 0;      ///< Legal ones that were examined.
  std::int64_t over_limit = 0;      ///< Legal ones that do not fit the VMEM.

  const Candidate& best() const { return frontier.back(); }
};

/// Ignores request.blocks and request.mode. Returns the reason where not even the smallest blocks fit. Ties break
/// towards the smaller footprint, then the smaller blocks: the same answer on every host.
std::optional<Refusal> search_blocks(const Problem& problem, const PlanRequest& request, SearchResult* result);

/// The result as JSON: best, frontier, aligned, speed-up.
boost::json::object report_search(const SearchResult& result);

}  // namespace ironcl::ironwood

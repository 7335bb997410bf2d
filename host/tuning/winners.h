// SPDX-License-Identifier: Apache-2.0
// What has won so far, and may win again nearby. Next door: search.h (tries these first).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "host/tuning/space.h"

namespace ironcl::tuning {

class Winners {
 public:
  /// Winners of the last rows of these weights, then of as many rows of other weights; each once, few.
  std::vector<Configuration> starts_for(std::int64_t m) const {
    std::vector<Configuration> starts = last_;
    if (const auto at = of_rows_.find(m); at != of_rows_.end())
      for (const Configuration& winner : at->second)
        if (std::find(starts.begin(), starts.end(), winner) == starts.end()) starts.push_back(winner);
    return starts;
  }

  void remember(std::int64_t m, const Configuration& winner) {
    put(last_, winner, 2);
    put(of_rows_[m], winner, 3);
  }

  /// The next problem has other weights.
  void of_other_weights() { last_.clear(); }

 private:
  static void put(std::vector<Configuration>& list, const Configuration& winner, std::size_t most) {
    std::erase(list, winner);
    list.insert(list.begin(), winner);
    if (list.size() > most) list.pop_back();
  }

  std::vector<Configuration> last_;
  std::map<std::int64_t, std::vector<Configuration>> of_rows_;
};

}  // namespace ironcl::tuning

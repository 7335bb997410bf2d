// SPDX-License-Identifier: Apache-2.0
// A product to be tuned, the entry of a tuned table that its configuration goes into, and where the next search
// starts. Next door: search.h (finds the configuration), tables.h (the files).
#pragma once

#include "host/layer/graph.h"
#include "host/tuning/search.h"
#include "host/tuning/tables.h"

namespace ironcl::tuning {

struct Product {
  report::Problem problem;
  std::int64_t entry = 0;          ///< The entry of the table: rows, of a layer of experts tokens.
  std::int64_t experts_width = 0;  ///< Width of a layer's experts, which names its tables; else 0.
  bool down = false;
};

/// The two products of a layer of experts for some tokens, as the layer enqueues them: with codes of A, in f32.
std::vector<Product> products_of(const layer::ExpertsForm& form, std::int64_t tokens);

/// Whether two products differ in nothing but their rows.
bool of_same_weights(const Product& a, const Product& b);

/// A problem's share of the time, relative to others: for building its kernels, and for running them.
double share_of(const report::Problem& problem);

/// The product's table, with the names by which `space` says that tables speak for the device.
tuned::Key key_of(const Product& product, const Device& device, const Space& space);

/// What an entry keeps of a search that found something: its member "ironcl".
boost::json::object member_of(const Product& product, const Device& device, const Space& space, const Found& found);

/// The table entry's member "ironcl", where it is from this driver and build and for the same problem; else null.
/// Lives as long as the table.
const boost::json::object* known(const tuned::Table& table, const Product& product, const Device& device);

/// The configuration that a member keeps.
Configuration configuration_of(const boost::json::object& member);

/// Configurations that have won so far, and may win again nearby.
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

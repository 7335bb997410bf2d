// SPDX-License-Identifier: Apache-2.0
// Layers that were left out, as JSON. Next door: host/layer/selection.h (the same as text).
#pragma once

#include <boost/json.hpp>
#include <vector>

#include "host/layer/selection.h"

namespace ironcl::cli {

/// [{"count", "layers" (a pattern), "first" (a name), "reason"}, ...]
inline boost::json::array complaints_json(const std::vector<layer::Complaint>& complaints) {
  boost::json::array all;
  for (const layer::Complaint& one : complaints)
    all.push_back({{"count", one.count}, {"layers", one.layers}, {"first", one.first}, {"reason", one.reason}});
  return all;
}

}  // namespace ironcl::cli

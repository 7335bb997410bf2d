// SPDX-License-Identifier: Apache-2.0
// Layers of experts as ironcl inspect shows them: a line each. Next door: inspect_report.h (single matrices).
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string>
#include <unordered_set>

#include "host/checkpoint/model.h"

namespace ironcl::cli {

/// The table of layers of experts, with what its columns mean; empty where there is none. `folded`: those that differ
/// in nothing but the numbers of their names in one line.
std::string experts_text(const checkpoint::Checkpoint& checkpoint, std::size_t width, bool folded);

/// "experts": an object for each layer.
boost::json::array experts_json(const checkpoint::Checkpoint& checkpoint);

/// The matrices that lines of experts_text stand for: those of whole layers, as indices into Checkpoint::layers().
std::unordered_set<std::size_t> matrices_of_experts(const checkpoint::Checkpoint& checkpoint);

/// Whether the problem of a layer of experts is damage, and not a way of routing that is not known: then its matrices
/// can still be used one by one.
bool is_damaged(const checkpoint::ExpertsLayer& layer) noexcept;

}  // namespace ironcl::cli

// SPDX-License-Identifier: Apache-2.0
// A checkpoint as ironcl inspect shows it: every layer or a line for each kind of them, for people and for programs.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <string>

#include "host/checkpoint/model.h"

namespace ironcl::cli {

/// Every layer, every other tensor, and the sums. `width` is that of the terminal; 0: no limit.
std::string inspect_text(const checkpoint::Checkpoint& checkpoint, std::size_t width);

/// Layers and other tensors that differ only in the numbers of their names as one line; who wrote them; bytes by
/// kind.
std::string inspect_summary(const checkpoint::Checkpoint& checkpoint, std::size_t width);

/// Everything, for programs: {"path", "quant_method", "writer", "files", "layers", "experts", "unquantized"}.
boost::json::object inspect_json(const checkpoint::Checkpoint& checkpoint);

/// What is wrong with layers, a line for each pattern of names and reason; empty where nothing is.
std::string inspect_complaints(const checkpoint::Checkpoint& checkpoint);

}  // namespace ironcl::cli

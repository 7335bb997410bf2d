// SPDX-License-Identifier: Apache-2.0
// The options of a plan as text, {"kernel_blocks", "1024,2048,512"} and so on, and what device_query says of them.
#pragma once

#include <string>

#include "backends/ironwood/plan.h"

namespace ironcl::ironwood {

/// Reads options. Throws Error(invalid_argument) for an unknown key, naming the keys, and for a value that does not
/// parse or is out of range, naming the values.
PlanRequest read_options(const backend::Options& options);

/// The options with their values, defaults and meanings, as JSON.
std::string describe_options();

}  // namespace ironcl::ironwood

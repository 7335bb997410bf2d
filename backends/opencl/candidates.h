// SPDX-License-Identifier: Apache-2.0
// What a tuner may try: every valid configuration of every variant for a problem on a device. Next door: variant.h
// (the declarations that this comes from), tuned.h (how a winner is found again).
#pragma once

#include <string>

#include "backends/opencl/select.h"

namespace ironcl::opencl {

/// The answer of query "candidates" as JSON; docs/abi.md has its members. Options of `desc` narrow the space:
/// "variant" to that variant, a tunable to that value. The order is that of the declarations, the same on every call.
/// Nothing is built: what the device cannot run is dropped and counted by reason. Throws Error{unsupported} where no
/// configuration would run `desc`, for example for its types.
std::string candidates_json(const SelectionContext& selection, const backend::GemmDesc& desc);

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// The schedule of a plan in the Chrome trace format, for ui.perfetto.dev or chrome://tracing. Times are modelled.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "backends/ironwood/plan.h"
#include "backends/ironwood/timeline.h"

namespace ironcl::ironwood {

/// Complete events ("ph": "X") in microseconds, one thread a track: DMA in per operand, MXU, VPU, DMA out. Metadata
/// has `plan` in words and says that times are modelled.
boost::json::object chrome_trace(const Timeline& timeline, const Machine& machine, const std::string& plan);

/// Runs the plan (time only) with a timeline of at most `spans` spans.
boost::json::object trace_of(const Plan& plan, std::size_t spans = 50'000);

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// The one place that decides by which steps a plan goes from what the caller gives to D. Next door: steps/, forms/.
#pragma once

#include "backends/opencl/select.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

/// The steps of a plan in order, and the workspace that they booked.
struct Route {
  Steps steps;
  Booking booking;
};

/// The route of `desc` with what was chosen for it. Builds nothing. `features` and the variant outlive the steps.
/// Throws std::overflow_error where the workspace is larger than a number says.
Route route_of(const backend::GemmDesc& desc, const Choice& choice, const Features& features);

}  // namespace ironcl::opencl

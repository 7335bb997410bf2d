// SPDX-License-Identifier: Apache-2.0
// What the model says of a plan, as JSON: times, bytes, counts, VMEM. Next door: search.h (blocks).
#pragma once

#include <boost/json/object.hpp>

#include "backends/ironwood/plan.h"
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {

/// Runs the plan's schedule (time only) and reports it. Every time is modelled.
///   time_us      the simulated kernel, launch included
///   compute_us   MXU time at the published peak, wasted rows and columns of the array included: a floor
///   hbm_us       bytes over the published peak bandwidth: a floor
///   bound        which of the simulation's busy times is longer: transfers, or max(MXU, VPU) step by step
boost::json::object report_model(const Plan& plan);

/// What all reports say of the core in a run that multiplies `flops` operations on types `left` and `right`: its
/// time, its bytes, and how busy its parts were.
boost::json::object report_core(const Machine& machine, numerics::DType left, numerics::DType right, double flops,
                                const CoreTotals& core);

/// The hardware tables and the assumptions.
boost::json::object report_machines();

// --- The schedule in the Chrome trace format, for ui.perfetto.dev or chrome://tracing.

/// Complete events ("ph": "X") in microseconds, one thread a track: DMA in per operand, MXU, VPU, DMA out. Metadata
/// has `plan` in words and says that times are modelled.
boost::json::object chrome_trace(const Timeline& timeline, const Machine& machine, const std::string& plan);

/// Runs the plan (time only) with a timeline of at most `spans` spans.
boost::json::object trace_of(const Plan& plan, std::size_t spans);

}  // namespace ironcl::ironwood

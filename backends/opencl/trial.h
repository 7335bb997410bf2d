// SPDX-License-Identifier: Apache-2.0
// Trials: a variant of which no feature says whether it works is built, run and checked on a tiny problem. Next door:
// variant.h (what asks for one), select.h (what asks whether one went well).
#pragma once

#include "backends/opencl/context.h"

namespace ironcl::opencl {

/// The trials of the device of `context`, which owns them. Each variant is tried once, when it is first asked about,
/// in an OpenCL context of its own: where a kernel faults, drivers fail every later call of its context. Any thread.
std::unique_ptr<Trials> make_trials(const Context& context, backend::Log* log);

/// The problem of a trial as variants see it.
Problem trial_problem(const Trial& trial);

/// All that a trial of `variant` asks of such a device: its problem, codes, form of weights and tunables. Where it is
/// another one, so is the answer.
std::string trial_question(const Variant& variant, const Features& features);

/// One trial of `variant`, here and now, whatever was found before: empty where it was right.
std::string attempt_trial(const Context& context, const Variant& variant, backend::Log* log);

}  // namespace ironcl::opencl

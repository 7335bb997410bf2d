// SPDX-License-Identifier: Apache-2.0
// Trials: a variant of which no feature says whether it works is built, run and checked on a tiny problem; where a
// driver's compiler may end its process over it (Intel's CPU runtime did so over tile instructions, with SIGILL), or
// a kernel that faults takes its context along, in a process of their own (child_trial.cpp). Next door: variant.h
// (what asks for one), select.h (what asks whether one went well).
#pragma once

#include <string>
#include <string_view>

#include "backends/opencl/context.h"

namespace ironcl::opencl {

/// The trials of the device of `context`, which owns them. Each variant is tried once, when it is first asked about,
/// in an OpenCL context of its own: where a kernel faults, drivers fail every later call of its context. Any thread.
std::unique_ptr<Trials> make_trials(const Context& context, backend::Log* log);

/// The problem of a trial as variants see it.
Problem trial_problem(const Variant& variant);

/// All that a trial of `variant` asks of such a device: its problem, codes, form of weights and tunables. Where it is
/// another one, so is the answer.
std::string trial_question(const Variant& variant, const Features& features);

/// One trial of `variant` in this process, whatever was found before: empty where it was right.
std::string attempt_trial(const Context& context, const Variant& variant, backend::Log* log);

/// How the reason begins where a child did not find the device, as where this process has it to itself.
inline constexpr std::string_view kNotSeenByChild = "a child process does not see the device";

/// Tries `variant` in a child process: Config::trial_program, started afresh, because a copy of this process (fork)
/// could not use its driver's threads. Empty where the child found it right; else why not. What would come
/// out again (right, wrong numbers, a program that does not build, the end by a signal of its own making) is kept in
/// the program cache under driver, processor, kernel and trial_question(), and not asked again; what a sandbox denies
/// or a loaded system lacks is not, since other processes share the cache.
std::string try_in_child(const Context& context, const Variant& variant);

/// What the child does: finds the device that `identity` names among all platforms, tries
/// the variant on it and returns the line for try_in_child to read. `kernel` says which text of the variant's kernel
/// is asked about: a child of another build than its parent tries nothing.
std::string answer_of_child(const std::string& variant, const std::string& kernel, const std::string& identity,
                            const Config& config);

}  // namespace ironcl::opencl

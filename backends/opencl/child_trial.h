// SPDX-License-Identifier: Apache-2.0
// Trials in a process of their own: a driver's compiler may end its process over a kernel that it does not expect
// (Intel's CPU runtime did so over tile instructions, with SIGILL), and that must not be the host's; a kernel that
// faults on a GPU takes its context along. Next door: trial.h.
#pragma once

#include <string>
#include <string_view>

#include "backends/opencl/context.h"

namespace ironcl::opencl {

/// How the reason begins where a child did not find the device, as where this process has it to itself.
inline constexpr std::string_view kNotSeenByChild = "a child process does not see the device";

/// Tries `variant` in a child process: Config::trial_program, started afresh, because a copy of this process (fork)
/// could not use its driver's threads. Empty where the child found it right; else why not. What would come
/// out again (right, wrong numbers, a program that does not build, the end by a signal of its own making) is kept in
/// the program cache under driver, processor, kernel and trial_question(), and not asked again; what a sandbox denies
/// or a loaded system lacks is not, since other processes share the cache.
std::string try_in_child(const Context& context, const Variant& variant);

/// Whether there is a program to start and a folder to keep its answer in.
bool can_keep_answer_of_child(const Config& config);

/// What the child does: finds the device that `identity` names among all platforms, tries
/// the variant on it and returns the line for try_in_child to read. `kernel` says which text of the variant's kernel
/// is asked about: a child of another build than its parent tries nothing.
std::string answer_of_child(const std::string& variant, const std::string& kernel, const std::string& identity,
                            const Config& config);

}  // namespace ironcl::opencl

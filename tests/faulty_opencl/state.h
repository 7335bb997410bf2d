// SPDX-License-Identifier: Apache-2.0
// What the wrappers of calls.cpp ask before and tell after each call. Commands and counts; nothing of OpenCL's calls.
#pragma once

#include <CL/cl.h>

#include <cstdint>
#include <optional>

namespace ironcl::faulty {

/// Limits to report and to enforce; absent: the driver's own.
struct Limits {
  std::optional<std::uint64_t> memory, local, group, align, width;
  bool half = true, divide = true, fma = true, binaries = true, gpu = false, late_writes = false, turns = false;
};

enum class Kind { context, queue, buffer, program, kernel, event, device, none };

/// What is to become of a call.
struct Verdict {
  cl_int code = CL_SUCCESS;  ///< Not CL_SUCCESS: this is the answer.
  bool later = false;        ///< The call is accepted and its event ends with `code`.
};

/// Counts a call of `name` and says what becomes of it. `always_passes`: the end of an object or a wait.
Verdict judge(const char* name, bool always_passes);
/// One reference to an object of `kind` more or less.
void count(Kind kind, long change);
/// Takes `bytes` of what `memory` allows; false where it does not. `give_back` returns them.
bool take_memory(std::uint64_t bytes);
void give_back_memory(std::uint64_t bytes);
Limits limits();

}  // namespace ironcl::faulty

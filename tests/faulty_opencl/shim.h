// SPDX-License-Identifier: Apache-2.0
// A faulty OpenCL: libironcl_faulty_opencl.so stands before libOpenCL.so, passes every call on to it, and on command
// fails calls, runs out of memory, loses the device or reports odd limits and enforces them. It also counts objects.
// A program that links it first has it; any other gets it by LD_PRELOAD, with the commands in IRONCL_FAULTY_OPENCL.
//
// Commands, separated by ';' (docs/testing.md says how to use them):
//   fail=CALL:N:CODE   the N-th call of CALL from now on (the first is 1; 0 is every one) answers CODE
//   later=CALL:N:CODE  that enqueue is accepted and its event ends with CODE (kernels, transfers that do not block)
//   lose=N             from the N-th call on, all answer CL_DEVICE_NOT_AVAILABLE but releases and waits, which pass
//   memory=BYTES       buffers together take no more; the device says so, and creating more is refused
//   local=BYTES group=ITEMS align=BYTES width=LANES   limits, reported and enforced
//   nohalf nodivide nofma nobinaries                  abilities that the device lacks and does not claim
//   gpu                the device says that it is a GPU with dedicated local memory
//   latewrites         a write that blocks takes its bytes and returns; they reach the buffer 30 ms later, in
//                      the order of the queue, which is all that OpenCL promises
//   turns              programs and kernels are made and released one at a time, for a driver that needs it
// Next door: calls.cpp (one wrapper a call), walk.cpp (fails every call once).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ironcl::faulty {

/// Forgets all commands and obeys these. Throws std::invalid_argument on a command that it does not know.
__attribute__((visibility("default"))) void command(const std::string& text);

/// True once a `fail`, `later` or `lose` has struck since the last command().
__attribute__((visibility("default"))) bool struck();

/// Starts a record of calls by name; `stop` ends and returns it.
__attribute__((visibility("default"))) void record();
__attribute__((visibility("default"))) std::vector<std::string> stop();

/// References held to objects of OpenCL by kind ("buffer", "event", ...): created and retained less released.
__attribute__((visibility("default"))) std::map<std::string, long> held();

/// The names of all calls that are wrapped.
__attribute__((visibility("default"))) std::vector<std::string> wrapped();

}  // namespace ironcl::faulty

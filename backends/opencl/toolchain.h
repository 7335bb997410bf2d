// SPDX-License-Identifier: Apache-2.0
// How text becomes a program: by the driver's compiler alone, or in two steps with the text changed in between. Next
// door: program.h (who asks, and keeps what was built).
#pragma once

#include <string>
#include <vector>

#include "backends/opencl/api.h"

namespace ironcl::opencl {

/// The input of a toolchain.
struct BuildRequest {
  const cl::Context& context;
  const cl::Device& device;
  std::string source;
  std::string options;  ///< Compiler options, definitions included.
};

/// A build that did not succeed: what the driver answered, and its log.
struct BuildFailure {
  cl_int code = CL_SUCCESS;
  std::string log;
};

/// How text becomes a program: the driver's compiler takes it as it is; or, with `rewrite`, compiles OpenCL C to its
/// own text, which is rewritten and taken as a binary. For instructions that its compiler refuses and its assembler
/// takes. Immutable; any thread, several builds at once.
struct Toolchain {
  /// The driver's binary, rewritten. Throws std::invalid_argument where it is not what the rewriting knows.
  using Rewrite = std::string (*)(const std::string& binary);

  const char* label;         ///< Says which rewriting of which version it is.
  bool is_saved = true;      ///< The program cache keeps what it builds. False: no driver is asked for its binary.
  const char* options = "";  ///< Beside those of a request; of a rewritten text there are no others.
  Rewrite rewrite = nullptr;

  /// A part of the program cache's key: changes whenever the toolchain would make another program of the same text.
  std::string name() const { return std::string(label) + options; }
  /// A built program. Throws BuildFailure, or cl::Error.
  cl::Program build(const BuildRequest& request) const;
  /// The program of a binary that build() left earlier, from the cache. Throws cl::Error.
  cl::Program load(const BuildRequest& request, const std::vector<unsigned char>& binary) const;
};

/// OpenCL C as it is: the driver's compiler.
inline constexpr Toolchain kOpenclC{"opencl-c"};

/// The same, but the driver is not asked for a binary. To give one, a driver may compile every kernel again, for
/// work-groups of any size, which kernels of one processor's own instructions do not all survive: PoCL 5.0's compiler
/// then ends the process. The driver's own cache may keep what it builds.
inline constexpr Toolchain kOpenclCUnsaved{"opencl-c-unsaved", false};

/// PTX for a device of compute capability 9.0 with what belongs to sm_90a alone: lines that the source wrote as PTX
/// comments behind the marker "//sm_90a " become instructions, the target becomes sm_90a, and each kernel with a
/// required work-group size is told to run at least one to a multiprocessor, so that setmaxnreg is honoured. Each
/// marked line ends in a line feed. Throws std::invalid_argument where the text is not PTX for sm_90.
std::string rewrite_to_sm_90a(const std::string& ptx);

/// The toolchain of rewrite_to_sm_90a.
inline constexpr Toolchain kPtxSm90a{"ptx-sm_90a-1", true, " -cl-nv-verbose", rewrite_to_sm_90a};

/// PTX whose kernels leave registers for as many work-groups to a multiprocessor as its text says in one digit behind
/// "//at_once ", and take all that those leave: what OpenCL has no words for. Other text stays as it is.
std::string rewrite_at_once(const std::string& binary);

/// The toolchain of rewrite_at_once.
inline constexpr Toolchain kPtxAtOnce{"ptx-at-once-1", true, " -cl-nv-verbose", rewrite_at_once};

/// The binary of a program that was built for one device; empty where the driver gives none. A program has a place
/// for each device of its context, which may be an application's with several: the others' are empty.
std::vector<unsigned char> binary_of(const cl::Program& program);

}  // namespace ironcl::opencl

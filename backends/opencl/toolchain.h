// SPDX-License-Identifier: Apache-2.0
// How text becomes a program: by the driver's compiler alone, or in two steps with the text changed in between. Next
// door: toolchains/ (one file each), program.h (who asks, and keeps what was built).
#pragma once

#include <string>
#include <vector>

#include "backends/opencl/api.h"

namespace ironcl::opencl {

/// What a toolchain is given.
struct BuildRequest {
  const cl::Context& context;
  const cl::Device& device;
  std::string source;
  std::string options;  ///< Of the compiler, definitions included.
};

/// A build that did not succeed: what the driver answered, and its log.
struct BuildFailure {
  cl_int code = CL_SUCCESS;
  std::string log;
};

/// Immutable; any thread, several builds at once.
class Toolchain {
 public:
  virtual ~Toolchain() = default;
  /// A part of the program cache's key: changes whenever the toolchain would make another program of the same text.
  virtual std::string name() const = 0;
  /// Whether the program cache keeps what it builds. False: the driver is never asked for a program's binary.
  virtual bool is_saved() const { return true; }
  /// A built program. Throws BuildFailure, or cl::Error.
  virtual cl::Program build(const BuildRequest& request) const = 0;
  /// The program of a binary that build() left earlier, from the cache. Throws cl::Error.
  virtual cl::Program load(const BuildRequest& request, const std::vector<unsigned char>& binary) const = 0;
};

/// OpenCL C as it is: the driver's compiler.
const Toolchain& opencl_c();

/// Builds `program` and throws BuildFailure with the driver's log where that fails.
void build_or_throw(const cl::Program& program, const cl::Device& device, const std::string& options);

/// Builds `program` and throws cl::Error where that fails. (The bindings' own build() asks for the log after a
/// success too, and answers with the code of that question.)
void compile(const cl::Program& program, const cl::Device& device, const std::string& options);

/// The binary of a program that was built for one device; empty where the driver gives none. A program has a place
/// for each device of its context, which may be an application's with several: the others' are empty.
std::vector<unsigned char> binary_of(const cl::Program& program);

}  // namespace ironcl::opencl

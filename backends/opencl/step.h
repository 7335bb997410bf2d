// SPDX-License-Identifier: Apache-2.0
// A step of a plan, and the small values that flow from step to step. Next door: steps/ (one file each), route.h
// (which steps a plan has), gemm.h (the plan that builds and launches them).
#pragma once

#include <memory>
#include <string>

#include "backends/opencl/launcher.h"
#include "backends/opencl/probe.h"
#include "backends/opencl/problem.h"
#include "backends/opencl/program.h"
#include "backends/opencl/workspace.h"

namespace ironcl::opencl {

/// What memory an operand of a step lies in; the call says which buffer that is. The counter is the plan's, words
/// that are zero between calls: a kernel that counts in them leaves them so.
enum class Source { none, a, a_scale, a_codes, a_code_scales, a_index, d, bias, matrix_rows, counter, workspace };

/// A place in memory as the plan knows it: before there are buffers.
struct Place {
  Source source = Source::none;
  std::uint64_t at = 0;  ///< Bytes from where the call's span, or the workspace, begins.
};

/// A matrix with its scales, as one step leaves it and the next one reads it.
struct Operand {
  Place data, scales;
  backend::DType element = backend::DType::none;  ///< Of data, as a kernel loads it.
  std::int64_t ld = 0;                            ///< Elements from row to row; of tiles, of the padded k.
  backend::DType scale = backend::DType::none;    ///< Type of scales; none: there are none.
  std::int64_t scale_ld = 0;                      ///< Elements from one row of scales to the next.
  numerics::ScaleGrid grid;                       ///< What of the matrix one scale is for; 0: the whole extent.
  std::string form = "rows";                      ///< The name of an ActivationForm, or "rows" for plain rows.
  bool in_units_of_weights = false;               ///< Values are multiplied by the unit of the weights' decoding.
  bool gathered = false;                          ///< The problem's rows are found among these through the index.
};

// clang-tidy: opencl.hpp calls the assignment of its objects noexcept, although what it releases may answer an error.
/// Packed weights as a kernel reads them.
struct DeviceWeights {  // NOLINT(bugprone-exception-escape)
  cl::Buffer codes, scales;
};

/// One call under way: what a step may set and launch.
class Call : public Launcher {
 public:
  template <class... Launching>
  explicit Call(std::int64_t m, Launching&&... launching)
      : Launcher(std::forward<Launching>(launching)...), m(m), a_rows(m) {}

  std::int64_t m;       ///< Rows; 0 in a dry call.
  std::int64_t a_rows;  ///< Of A in memory: m, unless rows are gathered or each of many matrices has m of them.
  Memory a, a_scale, a_codes, a_code_scales, a_index, d, bias, matrix_rows, counter, workspace;
  Memory null_buffer;  ///< Bound for operands that the call does not have.
  const DeviceWeights* weights = nullptr;

  Memory at(const Place& place) const;
  bool has(Source source) const;  ///< Whether this call brings that memory; every call does in a dry one.
};

/// A step books its workspace when it is made, which builds nothing: supports() makes steps and drops them. It is
/// built once, with what is constant of its plan bound to its kernels; a launch sets what the call changes.
class Step {
 public:
  virtual ~Step() = default;
  virtual std::string name() const = 0;
  /// Builds the step's kernels. Steps of a plan are built at the same time, each on a thread.
  virtual void build(ProgramBuilder& builder) = 0;
  virtual void launch(Call& call) = 0;
};

using Steps = std::vector<std::unique_ptr<Step>>;

/// What setArg() takes for a value, or for a buffer of a Memory.
template <class T>
const T& argument(const T& value) {
  return value;
}
inline const cl::Buffer& argument(const cl::Buffer* buffer) { return *buffer; }

/// Sets the arguments of `kernel` from number `first` on.
template <class... Args>
void set_args(cl::Kernel& kernel, cl_uint first, const Args&... args) {
  (kernel.setArg(first++, argument(args)), ...);
}

/// Where element 0 of `memory` is, in elements of `size` bytes.
inline cl_ulong element_of(const Memory& memory, std::uint64_t size) { return memory.at / size; }

/// The definitions that every kernel of a device has: what probes showed that its compiler and hardware do.
Defines device_defines(const Features& features);

/// An extent of a scale group as a kernel's literal; a group that spans a dimension gets one that nothing reaches.
int reach(std::int64_t extent);

}  // namespace ironcl::opencl

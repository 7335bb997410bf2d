// SPDX-License-Identifier: Apache-2.0
// Programs whose text is changed between two builds: the driver compiles OpenCL C to its own text, that text is
// rewritten, and the driver takes it as a binary. For instructions that its compiler refuses and its assembler takes.
#pragma once

#include "backends/opencl/toolchain.h"

namespace ironcl::opencl {

class TwoStep final : public Toolchain {
 public:
  /// The driver's binary, rewritten. Throws std::invalid_argument where it is not what the rewriting knows.
  using Rewrite = std::string (*)(const std::string& binary);

  /// `name` says which rewriting of which version it is; `options` are those of the second build.
  TwoStep(std::string name, Rewrite rewrite, std::string options)
      : name_(std::move(name)), rewrite_(rewrite), options_(std::move(options)) {}

  std::string name() const override { return name_ + options_; }
  cl::Program build(const BuildRequest& request) const override;
  cl::Program load(const BuildRequest& request, const std::vector<unsigned char>& binary) const override;

 private:
  std::string name_;
  Rewrite rewrite_;
  std::string options_;
};

/// PTX for a device of compute capability 9.0 with what belongs to sm_90a alone: lines that the source wrote as PTX
/// comments behind the marker "//sm_90a " become instructions, the target becomes sm_90a, and each kernel with a
/// required work-group size is told to run at least one to a multiprocessor, so that setmaxnreg is honoured. Each
/// marked line ends in a line feed. Throws std::invalid_argument where the text is not PTX for sm_90.
std::string rewrite_to_sm_90a(const std::string& ptx);

/// The toolchain of rewrite_to_sm_90a.
const Toolchain& ptx_sm_90a();

}  // namespace ironcl::opencl

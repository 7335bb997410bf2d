// SPDX-License-Identifier: Apache-2.0
// The two-step toolchain of PTX for sm_90a. An OpenCL compiler that targets sm_90 refuses wgmma and setmaxnreg, which
// belong to sm_90a; the same driver's assembler takes them. Operands are substituted in comments as well, so register
// allocation has already seen them.
#include <stdexcept>

#include "backends/opencl/toolchains/two_step.h"

namespace ironcl::opencl {

std::string rewrite_to_sm_90a(const std::string& binary) {
  constexpr std::string_view kTarget = ".target sm_90", kMarker = "//sm_90a ", kRequired = ".reqntid ";
  std::string ptx = binary.substr(0, binary.find('\0'));  // The driver's text ends in zeros.
  const std::size_t target = ptx.find(kTarget);
  if (target == std::string::npos)
    throw std::invalid_argument("the driver's binary is not PTX for sm_90: there is no line \".target sm_90\"");
  const std::size_t behind = target + kTarget.size();
  if (behind >= ptx.size() || (ptx[behind] != 'a' && (ptx[behind] < '0' || ptx[behind] > '9')))
    ptx.insert(behind, "a");
  if (ptx.compare(target, kTarget.size() + 1, ".target sm_90a") != 0)
    throw std::invalid_argument("the driver's PTX is not for sm_90 but for a later one");
  for (std::size_t at = 0; (at = ptx.find(kMarker, at)) != std::string::npos;) ptx.erase(at, kMarker.size());
  for (std::size_t at = 0; (at = ptx.find(kRequired, at)) != std::string::npos;) {
    at = ptx.find('\n', at);
    if (at == std::string::npos) break;
    ptx.insert(at, "\n.minnctapersm 1");
  }
  return ptx + '\0';
}

const Toolchain& ptx_sm_90a() {
  static const TwoStep toolchain("ptx-sm_90a-1", rewrite_to_sm_90a, " -cl-nv-verbose");
  return toolchain;
}

}  // namespace ironcl::opencl

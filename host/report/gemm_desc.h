// SPDX-License-Identifier: Apache-2.0
// A problem as the C++ host API takes it. Next door: problem.h (the problem and its line).
#pragma once

#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"

namespace ironcl::report {

inline GemmDesc to_gemm_desc(const Problem& problem) {
  GemmDesc desc = GemmDesc::from_c(to_desc(problem));
  desc.options = problem.options;
  return desc;
}

}  // namespace ironcl::report

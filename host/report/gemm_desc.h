// SPDX-License-Identifier: Apache-2.0
// A problem as the C++ host API takes it. Next door: problem.h (the problem and its line).
#pragma once

#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"

namespace ironcl::report {

inline Scale to_scale(const Scales& scales) {
  return {static_cast<ironcl_dtype>(scales.dtype), static_cast<std::uint32_t>(scales.grid.group_rows),
          static_cast<std::uint32_t>(scales.grid.group_cols), 0};
}

inline GemmDesc to_gemm_desc(const Problem& problem) {
  const ironcl_gemm_desc c = to_desc(problem);
  GemmDesc desc;
  desc.m = c.m;
  desc.n = c.n;
  desc.k = c.k;
  desc.a_source = c.a_source_dtype;
  desc.a = c.a_dtype;
  desc.b = c.b_dtype;
  desc.d = c.d_dtype;
  desc.bias = c.bias_dtype;
  desc.flags = c.flags;
  desc.weakest_accuracy = c.weakest_accuracy;
  desc.grouping = c.grouping;
  desc.group_count = c.group_count;
  desc.a_scale = to_scale(problem.a_scale);
  desc.b_scale = to_scale(problem.b_scale);
  desc.d_scale = to_scale(problem.d_scale);
  desc.a_quantizer = c.a_quantizer;
  desc.d_quantizer = c.d_quantizer;
  desc.options = problem.options;
  return desc;
}

}  // namespace ironcl::report

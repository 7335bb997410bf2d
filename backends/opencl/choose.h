// SPDX-License-Identifier: Apache-2.0
// From a problem description to a variant with its tuning, or to the reason why not. supports() and create_gemm()
// both ask here, so they never disagree. Next door: kernels.h (declarations), gemm.h (the plan).
#pragma once

#include "backends/opencl/kernels.h"
#include "backends/tuned/table.h"

namespace ironcl::opencl {

struct Choice {
  const Variant* variant = nullptr;
  Tuning tuning;
  Problem problem;
  std::string source;  ///< "options", "rule of thumb", or the entry of a tuned table.
};

/// What runs `desc` on a device. Returns the support answer; fills *choice where its reason is none. Throws
/// invalid_argument for an unknown option or a value out of its list. Builds nothing. Without options `tables` (may
/// be null) is asked before the rule of thumb.
backend::Support choose(const Features& features, const backend::GemmDesc& desc, Choice* choice,
                        const tuned::Tables* tables = nullptr);

/// The layout in which weights are prepared without a plan: that of the variant that a usual problem takes.
Layout usual_layout(const Features& features);

/// The options that plans take, as JSON.
std::string options_json();

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// What the interface can enqueue: products, and around them the quantiser and the steps of a layer of experts, as XLA
// runs them beside a kernel. Their numbers are numerics'; their times are modelled: a launch, and every byte once at
// the HBM's rate (X of the quantiser twice, since the largest magnitudes come first). Nobody publishes a measurement
// of them. The adapter has checked what a call brings. Next door: fused_experts.h (a layer of experts in one kernel).
#pragma once

#include "backends/ironwood/plan.h"
#include "backends/ironwood/workers.h"

namespace ironcl::ironwood {

/// A plan that binds the operands of a call to the arrays that the kernel's program reads.
std::shared_ptr<backend::Gemm> make_gemm(Plan plan, std::shared_ptr<Workers> workers);

/// The modelled time of a quantiser's pass over [rows, cols] of `x`.
double quantizing_ns(const Machine& machine, std::int64_t rows, std::int64_t cols, numerics::DType x,
                     numerics::DType code, const backend::ScaleDesc& scale);

/// Timed on Ironwood. Each throws Error(unsupported) with what would be accepted.
std::shared_ptr<backend::Quantize> make_quantize(const backend::QuantizeDesc& desc);
std::shared_ptr<backend::Route> make_route(const backend::RouteDesc& desc);
std::shared_ptr<backend::Activate> make_activate(const backend::ActivateDesc& desc);
std::shared_ptr<backend::Combine> make_combine(const backend::CombineDesc& desc);

/// The configuration of a plan as text, "kernel_blocks=1024,1024,1024,mode=large,...".
std::string describe(const Plan& plan);

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// The steps of a layer of experts between its products: route, activate, combine, as XLA runs them around a kernel.
// Numbers are numerics/experts.h's. Times are modelled: a launch, and every byte once at the HBM's rate. Next door:
// gemm.h (the products), fused_experts.h (all of it in one kernel).
#pragma once

#include <memory>

#include "backends/interface.h"
#include "backends/ironwood/machine.h"

namespace ironcl::ironwood {

/// Each throws Error(unsupported) with what would be accepted.
std::shared_ptr<backend::Route> make_route(const backend::RouteDesc& desc, const Machine& machine);
std::shared_ptr<backend::Activate> make_activate(const backend::ActivateDesc& desc, const Machine& machine);
std::shared_ptr<backend::Combine> make_combine(const backend::CombineDesc& desc, const Machine& machine);

}  // namespace ironcl::ironwood

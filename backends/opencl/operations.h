// SPDX-License-Identifier: Apache-2.0
// The operations beside products, a file each: a quantiser of matrices (quantize.cpp), and the steps of a layer of
// experts, whose rules are those of numerics/experts.h: router.cpp, activation.cpp, combiner.cpp.
#pragma once

#include "backends/opencl/objects.h"

namespace ironcl::opencl {

// Each builds its kernels. All throw unsupported with what would be accepted.
std::shared_ptr<backend::Quantize> make_quantizer(ContextPtr context, const backend::QuantizeDesc& desc);
std::shared_ptr<backend::Route> make_router(ContextPtr context, const backend::RouteDesc& desc);
std::shared_ptr<backend::Activate> make_activation(ContextPtr context, const backend::ActivateDesc& desc);
std::shared_ptr<backend::Combine> make_combiner(ContextPtr context, const backend::CombineDesc& desc);

/// Throws unsupported where `type` is no type of unquantised values; `what` is the subject of the sentence.
void expect_real(const std::string& what, backend::DType type);

/// Throws invalid_argument where a call of `who` has another number of `what` than 0 to `most`.
void expect_at_most(const std::string& what, std::int64_t count, const std::string& who, std::int64_t most);

}  // namespace ironcl::opencl

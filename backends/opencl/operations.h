// SPDX-License-Identifier: Apache-2.0
// The operations beside products, one file each: a quantiser of matrices (quantize.cpp), and the steps of a layer of
// experts, whose rules are those of numerics/experts.h: router.cpp, activation.cpp, combiner.cpp.
#pragma once

#include "backends/opencl/objects.h"

namespace ironcl::opencl {

/// An operation that can be asked what it is of.
template <class Args, class Desc>
class Described : public backend::Operation<Args> {
 public:
  explicit Described(const Desc& desc) : desc_(desc) {}
  const Desc& desc() const noexcept { return desc_; }

 protected:
  Desc desc_;
};
using DescribedQuantize = Described<backend::QuantizeArgs, backend::QuantizeDesc>;
using DescribedRoute = Described<backend::RouteArgs, backend::RouteDesc>;
using DescribedCombine = Described<backend::CombineArgs, backend::CombineDesc>;

// Each builds its kernels. All throw unsupported with what would be accepted.
std::shared_ptr<backend::Quantize> make_quantizer(ContextPtr context, const backend::QuantizeDesc& desc);
std::shared_ptr<backend::Route> make_router(ContextPtr context, const backend::RouteDesc& desc);
std::shared_ptr<backend::Activate> make_activation(ContextPtr context, const backend::ActivateDesc& desc);
std::shared_ptr<backend::Combine> make_combiner(ContextPtr context, const backend::CombineDesc& desc);

/// A sequence, in which the calls of a layer of experts for few tokens are one launch where the device runs that
/// (fused_experts.cpp).
std::shared_ptr<backend::Sequence> fuse_experts(const ContextPtr& context, std::vector<backend::RecordedCall> calls);

}  // namespace ironcl::opencl

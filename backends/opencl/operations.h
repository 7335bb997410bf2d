// SPDX-License-Identifier: Apache-2.0
// What the operations beside products are made of. A file each makes one, as a method of the device: a quantiser of
// matrices (quantize.cpp), and the steps of a layer of experts, whose rules are those of numerics/experts.h:
// router.cpp, activation.cpp, combiner.cpp.
#pragma once

#include "backends/opencl/objects.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

/// An operation out of `run`, which launches a call that has rows, or tokens: `count`; null: each call.
template <class Args, class Desc>
class RunOperation final : public backend::Operation<Args> {
 public:
  using Run = std::function<void(Call&, const Args&)>;

  RunOperation(ContextPtr context, const Desc& desc, const char* doing, std::int64_t Args::*count, Run run)
      : context_(std::move(context)), desc_(desc), doing_(doing), count_(count), run_(std::move(run)) {}
  const Desc& desc() const noexcept { return desc_; }
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue, const Args& args) override {
    return guarded(doing_, [&] {
      Call call(count_ == nullptr ? 0 : args.*count_, context_, queue, args.wait, args.wants_event);
      if (count_ == nullptr || call.m != 0) run_(call, args);
      return call.done();
    });
  }

 private:
  ContextPtr context_;
  Desc desc_;
  std::string doing_;  ///< For messages.
  std::int64_t Args::*count_;
  Run run_;
};
using RouteOperation = RunOperation<backend::RouteArgs, backend::RouteDesc>;
using QuantizeOperation = RunOperation<backend::QuantizeArgs, backend::QuantizeDesc>;
using ActivateOperation = RunOperation<backend::ActivateArgs, backend::ActivateDesc>;
using CombineOperation = RunOperation<backend::CombineArgs, backend::CombineDesc>;

// Calls of a sequence that become one launch, where the device runs that; `calls` has it in their place. The name of
// the launch's kernel; empty: there is none.
/// A layer of experts for few tokens.
std::string fuse_experts(const ContextPtr& context, std::vector<backend::RecordedCall>& calls);
/// Products of few rows one after another.
std::string fuse_products(const ContextPtr& context, std::vector<backend::RecordedCall>& calls);

}  // namespace ironcl::opencl

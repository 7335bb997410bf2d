// SPDX-License-Identifier: Apache-2.0
// What the operations beside products are made of. A file each makes one, as a method of the device: a quantiser of
// matrices (quantize.cpp), and the steps of a layer of experts, whose rules are those of numerics/experts.h:
// router.cpp, activation.cpp, combiner.cpp.
#pragma once

#include "backends/opencl/objects.h"
#include "backends/opencl/step.h"

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

/// An operation out of `run`, which launches a call that has rows, or tokens: `count`.
template <class Args, class Desc>
class RunOperation final : public Described<Args, Desc> {
 public:
  using Run = std::function<void(Call&, const Args&)>;

  RunOperation(ContextPtr context, const Desc& desc, const char* doing, std::int64_t Args::*count, Run run)
      : Described<Args, Desc>(desc),
        context_(std::move(context)),
        doing_(doing),
        count_(count),
        run_(std::move(run)) {}
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue, const Args& args) override {
    return guarded(doing_, [&] {
      Call call(args.*count_, context_, queue, args.wait, args.wants_event);
      if (call.m != 0) run_(call, args);
      return call.done();
    });
  }

 private:
  ContextPtr context_;
  std::string doing_;  ///< For messages.
  std::int64_t Args::*count_;
  Run run_;
};

// Calls of a sequence that become one launch, where the device runs that; `calls` has it in their place. The name of
// the launch's kernel; empty: there is none.
/// A layer of experts for few tokens.
std::string fuse_experts(const ContextPtr& context, std::vector<backend::RecordedCall>& calls);
/// Products of few rows one after another.
std::string fuse_products(const ContextPtr& context, std::vector<backend::RecordedCall>& calls);

}  // namespace ironcl::opencl

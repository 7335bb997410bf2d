// SPDX-License-Identifier: Apache-2.0
// activation(gate, up) on the device, rounded or quantised: cl/activate.cl.
#include "backends/opencl/operations.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

class Activation final : public backend::Activate {
 public:
  Activation(ContextPtr context, const backend::ActivateDesc& desc)
      : context_(std::move(context)), kernel_(context_->features, desc) {
    guarded("building an activation", [&] { kernel_.build(*context_->builder); });
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::ActivateArgs& args) override {
    return guarded("an activation", [&]() -> std::shared_ptr<backend::Event> {
      Launcher call(context_, queue, args.wait, args.wants_event);
      if (args.rows != 0)
        kernel_.launch(call, args.rows, call.memory(args.gate), call.memory(args.up), call.memory(args.y),
                       call.memory(args.scales), call.memory(args.matrix_rows));
      return call.done();
    });
  }

 private:
  ContextPtr context_;
  ActivateKernel kernel_;
};

}  // namespace

std::shared_ptr<backend::Activate> make_activation(ContextPtr context, const backend::ActivateDesc& desc) {
  return std::make_shared<Activation>(std::move(context), desc);
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// activation(gate, up) on the device, rounded or quantised: one step of a plan by itself.
#include "backends/not_yet.h"
#include "backends/opencl/device.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

std::shared_ptr<backend::Activate> Device::create_activate(const backend::ActivateDesc& desc) {
  backend::refuse_not_yet(desc);
  const std::shared_ptr<Step> step =
      activate_step(desc, context()->features, {Source::a, 0}, {Source::up, 0}, {Source::d, 0}, {Source::d_scale, 0});
  guarded("building an activation", [&] { step->build(*context()->builder); });
  return operation(context(), desc, "an activation", &backend::ActivateArgs::rows,
                   [step](Call& call, const backend::ActivateArgs& args) {
                     call[Source::a] = call.memory(args.gate);
                     call[Source::up] = call.memory(args.up);
                     call[Source::d] = call.memory(args.y);
                     call[Source::d_scale] = call.memory(args.scales);
                     call[Source::matrix_rows] = call.memory(args.matrix_rows);
                     step->launch(call);
                   });
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// A quantiser of matrices on the device: one step of a plan by itself.
#include "backends/not_yet.h"
#include "backends/opencl/device.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

std::shared_ptr<backend::Quantize> Device::create_quantize(const backend::QuantizeDesc& desc) {
  backend::refuse_not_yet(desc.code, desc.scale, "x");
  const Features& f = context()->features;
  expect_countable("columns", desc.cols);
  expect_countable("rows", desc.rows);
  expect_fits(f, "X", numerics::Size(std::max<std::int64_t>(desc.rows, 1)) * desc.x_ld * numerics::size_of(desc.x));
  const std::shared_ptr<Step> step =
      quantize_rows_step(desc, f, {Source::a, 0}, {Source::a_codes, 0}, {Source::a_code_scales, 0});
  guarded("building a quantiser", [&] {
    step->build(*context()->builder);
    const Queue queue(context());
    Call dry(0, context(), queue.native());  // For drivers that compile at the first launch.
    step->launch(dry);
    queue.native().finish();
  });
  return operation(context(), desc, "quantising a matrix", &backend::QuantizeArgs::rows,
                   [step](Call& call, const backend::QuantizeArgs& args) {
                     call[Source::a] = call.memory(args.x);
                     call[Source::a_codes] = call.memory(args.codes);
                     call[Source::a_code_scales] = call.memory(args.scales);
                     step->launch(call);
                   });
}

}  // namespace ironcl::opencl

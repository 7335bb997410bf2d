// SPDX-License-Identifier: Apache-2.0
// A quantiser of matrices on the device: one step of a plan by itself.
#include "backends/opencl/operations.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

namespace {

class MatrixQuantizer final : public DescribedQuantize {
 public:
  /// Launches the kernel once on nothing, for drivers that compile at the first launch.
  MatrixQuantizer(ContextPtr context, const backend::QuantizeDesc& desc)
      : Described(desc), context_(std::move(context)) {
    const Features& f = context_->features;
    expect_countable("columns", desc.cols);
    expect_countable("rows", desc.rows);
    expect_fits(f, "X", numerics::Size(std::max<std::int64_t>(desc.rows, 1)) * desc.x_ld * numerics::size_of(desc.x));
    step_ = quantize_rows_step({.source = desc.x,
                                .code = desc.code,
                                .k = desc.cols,
                                .ld = desc.x_ld,
                                .code_ld = desc.code_ld,
                                .grid = desc.scale.grid,
                                .quantizer = desc.quantizer,
                                .fill = desc.cols,
                                .scale_ld = desc.scale.ld,
                                .scale = desc.scale.dtype},
                               f, {Source::a, 0}, {Source::a_codes, 0}, {Source::a_code_scales, 0});
    guarded("building a quantiser", [&] {
      step_->build(*context_->builder);
      const Queue queue(context_);
      Call dry(0, context_, queue.native());
      step_->launch(dry);
      queue.native().finish();
    });
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::QuantizeArgs& args) override {
    return guarded("quantising a matrix", [&]() -> std::shared_ptr<backend::Event> {
      Call call(args.rows, context_, queue, args.wait, args.wants_event);
      if (args.rows == 0) return call.done();
      call[Source::a] = call.memory(args.x);
      call[Source::a_codes] = call.memory(args.codes);
      call[Source::a_code_scales] = call.memory(args.scales);
      step_->launch(call);
      return call.done();
    });
  }

 private:
  ContextPtr context_;
  std::unique_ptr<Step> step_;
};

}  // namespace

std::shared_ptr<backend::Quantize> make_quantizer(ContextPtr context, const backend::QuantizeDesc& desc) {
  return std::make_shared<MatrixQuantizer>(std::move(context), desc);
}

}  // namespace ironcl::opencl

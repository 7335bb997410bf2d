// SPDX-License-Identifier: Apache-2.0
// A quantiser of matrices on the device: one step of a plan by itself. Here too is what operations share.
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

using backend::Error;
using backend::Status;

namespace {

class MatrixQuantizer final : public backend::Quantize {
 public:
  /// Launches the kernel once on nothing, for drivers that compile at the first launch.
  MatrixQuantizer(ContextPtr context, const backend::QuantizeDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::QuantizeArgs& args) override;

 private:
  ContextPtr context_;
  backend::QuantizeDesc desc_;
  std::unique_ptr<Step> step_;
  cl::Buffer null_buffer_;
};

MatrixQuantizer::MatrixQuantizer(ContextPtr context, const backend::QuantizeDesc& desc)
    : context_(std::move(context)), desc_(desc) {
  const Features& f = context_->features;
  expect_countable("columns", desc_.cols);
  expect_countable("rows", desc_.rows);
  expect_fits(f, "X",
              numerics::Size(std::max<std::int64_t>(desc_.rows, 1)) * desc_.x_ld * numerics::size_of(desc_.x));
  step_ = quantize_rows_step({.source = desc_.x,
                              .code = desc_.code,
                              .k = desc_.cols,
                              .ld = desc_.x_ld,
                              .code_ld = desc_.code_ld,
                              .grid = desc_.scale.grid,
                              .quantizer = desc_.quantizer,
                              .fill = desc_.cols,
                              .scale_ld = desc_.scale.ld,
                              .scale = desc_.scale.dtype},
                             f, {Source::a, 0}, {Source::a_codes, 0}, {Source::a_code_scales, 0});
  guarded("building a quantiser", [&] {
    step_->build(*context_->builder);
    const Queue queue(context_);
    null_buffer_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, std::size_t{256});
    Call dry(0, null_buffer_, queue.native());
    step_->launch(dry);
    queue.native().finish();
  });
}

std::shared_ptr<backend::Event> MatrixQuantizer::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                         const backend::QuantizeArgs& args) {
  expect_at_most("rows", args.rows, "the quantiser", desc_.rows);
  return guarded("quantising a matrix", [&]() -> std::shared_ptr<backend::Event> {
    Call call(args.rows, null_buffer_, context_, queue, args.wait, args.wants_event);
    if (args.rows == 0) return call.done();
    const numerics::ScaleGrid& grid = desc_.scale.grid;
    const auto memory = [&](const backend::Span& span, const char* what, std::int64_t rows, std::int64_t ld,
                            std::int64_t cols, backend::DType type) {
      return call.memory(span, what, matrix_bytes(rows, ld, cols, type), null_buffer_);
    };
    call[Source::a] = memory(args.x, "x", args.rows, desc_.x_ld, desc_.cols, desc_.x);
    call[Source::a_codes] = memory(args.codes, "codes", args.rows, desc_.code_ld, desc_.cols, desc_.code);
    call[Source::a_code_scales] = memory(args.scales, "scales", grid.scale_rows(args.rows), desc_.scale.ld,
                                         grid.scale_cols(desc_.cols), desc_.scale.dtype);
    step_->launch(call);
    return call.done();
  });
}

}  // namespace

std::shared_ptr<backend::Quantize> make_quantizer(ContextPtr context, const backend::QuantizeDesc& desc) {
  return std::make_shared<MatrixQuantizer>(std::move(context), desc);
}

void expect_real(const std::string& what, backend::DType type) {
  if (numerics::is_float(type)) return;
  throw Error(Status::unsupported, what + " " + std::string(numerics::name_of(type)) + "; take " +
                                       to_string(types_that(numerics::is_float)));
}

void expect_at_most(const std::string& what, std::int64_t count, const std::string& who, std::int64_t most) {
  if (count >= 0 && count <= most) return;
  throw Error(Status::invalid_argument,
              what + " is " + std::to_string(count) + ", " + who + " takes 0 to " + std::to_string(most));
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/quantize.h"

#include <algorithm>

#include "backends/numerics/checked.h"
#include "backends/opencl/steps/quantize_rows.h"

namespace ironcl::opencl {

using backend::Error;
using backend::Status;

MatrixQuantizer::MatrixQuantizer(ContextPtr context, const backend::QuantizeDesc& desc)
    : context_(std::move(context)), desc_(desc) {
  const Features& f = context_->features;
  expect_countable("columns", desc_.cols);
  expect_countable("rows", desc_.rows);
  const auto bytes = static_cast<std::uint64_t>(numerics::checked_mul(
      numerics::checked_mul(std::max<std::int64_t>(desc_.rows, 1), desc_.x_ld), numerics::size_of(desc_.x)));
  if (bytes > f.max_buffer_bytes) {
    throw Error(Status::unsupported, "X takes " + std::to_string(bytes) + " bytes, a buffer of " + f.name +
                                         " has at most " + std::to_string(f.max_buffer_bytes) +
                                         "; quantise fewer rows at a time");
  }
  step_ = quantize_rows_step({.source = desc_.x,
                              .code = desc_.code,
                              .k = desc_.cols,
                              .ld = desc_.x_ld,
                              .code_ld = desc_.code_ld,
                              .grid = desc_.scale.grid,
                              .quantizer = desc_.quantizer,
                              .fill = desc_.cols,
                              .scale_ld = desc_.scale.ld},
                             f, {Source::a, 0}, {Source::a_codes, 0}, {Source::a_code_scales, 0});
  guarded("building a quantiser", [&] {
    step_->build(*context_->builder);
    const Queue queue(context_);
    Call dry(0, queue.native());
    const Buffer unused(context_, 256);
    dry.a = dry.a_codes = dry.a_code_scales = dry.null_buffer = {&unused.memory(), 0};
    step_->launch(dry);
    queue.native().finish();
  });
}

std::shared_ptr<backend::Event> MatrixQuantizer::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                         const backend::QuantizeArgs& args) {
  if (args.rows < 0 || args.rows > desc_.rows) {
    throw Error(Status::invalid_argument,
                "rows is " + std::to_string(args.rows) + ", the quantiser takes 0 to " + std::to_string(desc_.rows));
  }
  return guarded("quantising a matrix", [&]() -> std::shared_ptr<backend::Event> {
    Call call(args.rows, context_, queue, args.wait, args.wants_event);
    if (args.rows == 0) return call.done();
    const numerics::ScaleGrid& grid = desc_.scale.grid;
    const auto memory = [&](const backend::Span& span, const char* what, std::int64_t rows, std::int64_t ld,
                            std::int64_t cols, backend::DType type) {
      return call.memory(span, what, matrix_bytes(rows, ld, cols, type), null_buffer_);
    };
    call.a = memory(args.x, "x", args.rows, desc_.x_ld, desc_.cols, desc_.x);
    call.a_codes = memory(args.codes, "codes", args.rows, desc_.code_ld, desc_.cols, desc_.code);
    call.a_code_scales = memory(args.scales, "scales", grid.scale_rows(args.rows), desc_.scale.ld,
                                grid.scale_cols(desc_.cols), backend::DType::f32);
    step_->launch(call);
    return call.done();
  });
}

}  // namespace ironcl::opencl

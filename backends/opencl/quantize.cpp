// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/quantize.h"

#include <algorithm>

#include "backends/numerics/checked.h"
#include "backends/opencl/command.h"
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
    Call dry(queue.native(), 0, true);
    const Buffer unused(context_, 256);
    dry.a = dry.a_codes = dry.a_code_scales = dry.nothing = {&unused.memory(), 0};
    step_->launch(dry);
    queue.native().finish();
  });
}

void MatrixQuantizer::check(const backend::QuantizeArgs& args) const {
  if (args.rows < 0 || args.rows > desc_.rows) {
    throw Error(Status::invalid_argument,
                "rows is " + std::to_string(args.rows) + ", the quantiser takes 0 to " + std::to_string(desc_.rows));
  }
  if (args.rows == 0) return;
  const auto need = [&](const backend::Span& span, const char* what, std::int64_t rows, std::int64_t ld,
                        std::int64_t cols, std::uint64_t size) {
    const auto bytes =
        static_cast<std::uint64_t>(numerics::checked_add(numerics::checked_mul(rows - 1, ld), cols)) * size;
    own(span.buffer, *context_, what);
    if (span.size < bytes || span.offset % context_->features.alignment != 0) {
      throw Error(Status::invalid_argument, std::string(what) + " has " + std::to_string(span.size) +
                                                " bytes from byte " + std::to_string(span.offset) +
                                                ", the call needs " + std::to_string(bytes) + " from a multiple of " +
                                                std::to_string(context_->features.alignment));
    }
  };
  const numerics::ScaleGrid& grid = desc_.scale.grid;
  need(args.x, "x", args.rows, desc_.x_ld, desc_.cols, numerics::size_of(desc_.x));
  need(args.codes, "codes", args.rows, desc_.code_ld, desc_.cols, 1);
  need(args.scales, "scales", grid.scale_rows(args.rows), desc_.scale.ld, grid.scale_cols(desc_.cols), 4);
}

std::shared_ptr<backend::Event> MatrixQuantizer::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                         const backend::QuantizeArgs& args) {
  Queue& ours = own(queue, *context_);
  check(args);
  return guarded("quantising a matrix", [&]() -> std::shared_ptr<backend::Event> {
    std::vector<std::shared_ptr<Event>> causes;
    std::vector<cl::Event> wait;
    for (const auto& event : args.wait) {
      causes.push_back(own(event, "an event of the wait list"));
      wait.push_back(native_for(*context_, *causes.back()));
    }
    if (args.rows == 0) {
      cl::Event event;
      ours.native().enqueueMarkerWithWaitList(wait.empty() ? nullptr : &wait, &event);
      return ours.record(std::move(event), std::move(causes));
    }
    const auto memory = [&](const backend::Span& span) {
      return Memory{&own(span.buffer, *context_, "a span").memory(), span.offset};
    };
    Call call(ours.native(), args.rows);
    call.a = memory(args.x);
    call.a_codes = memory(args.codes);
    call.a_code_scales = memory(args.scales);
    call.wait = std::move(wait);
    step_->launch(call);
    return ours.record(std::move(call.launched()), std::move(causes));
  });
}

}  // namespace ironcl::opencl

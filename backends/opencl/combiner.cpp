// SPDX-License-Identifier: Apache-2.0
// The weighted sum of each token's rows on the device: cl/combine.cl.
#include <bit>

#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

using backend::DType;
using numerics::Size;

namespace {

class Combiner final : public backend::Combine {
 public:
  Combiner(ContextPtr context, const backend::CombineDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::CombineArgs& args) override;

 private:
  ContextPtr context_;
  backend::CombineDesc desc_;
  std::int64_t width_ = 1, lanes_ = 1;
  cl::Kernel plain_, weighing_;  ///< weighing_: where what is added has weights.
  cl::Buffer null_buffer_;
};

Combiner::Combiner(ContextPtr context, const backend::CombineDesc& desc) : context_(std::move(context)), desc_(desc) {
  const Features& f = context_->features;
  for (const DType type : {desc_.x, desc_.y, desc_.add == DType::none ? desc_.x : desc_.add})
    expect_real("rows to combine, what is added or their sum are", type);
  expect_countable("columns", desc_.cols);
  expect_countable("rows of x", desc_.rows);
  expect_countable("slots of tokens", Size(desc_.tokens) * desc_.top_k);
  expect_fits(f, "x", Size(desc_.rows) * desc_.x_ld * numerics::size_of(desc_.x));
  width_ = f.prefers_vectors() ? 16 : 1;
  lanes_ = f.prefers_vectors() ? 1 : std::bit_floor(std::min<std::uint64_t>(128, f.max_work_group));
  Defines defines = device_defines(f);
  defines["WIDTH"] = std::to_string(width_);
  defines["X_TYPE"] = kernel_number(desc_.x);
  defines["Y_TYPE"] = kernel_number(desc_.y);
  defines["ADD_TYPE"] = kernel_number(desc_.add);
  guarded("building a combination", [&] {
    null_buffer_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, std::size_t{256});
    const auto make = [&] {
      cl::Kernel kernel(context_->builder->build("combine.cl", defines), "combine");
      bind<CombineArg::cols>(kernel, desc_.cols);
      bind<CombineArg::x_rows>(kernel, desc_.rows);
      bind<CombineArg::top_k>(kernel, desc_.top_k);
      bind<CombineArg::ldx>(kernel, desc_.x_ld);
      bind<CombineArg::ld_add>(kernel, desc_.add_ld);
      bind<CombineArg::ldy>(kernel, desc_.y_ld);
      return kernel;
    };
    plain_ = make();
    if (desc_.add == DType::none) return;
    defines["WEIGH_ADD"] = "1";
    weighing_ = make();
  });
}

std::shared_ptr<backend::Event> Combiner::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                  const backend::CombineArgs& args) {
  expect_at_most("tokens", args.tokens, "the combination", desc_.tokens);
  return guarded("combining", [&]() -> std::shared_ptr<backend::Event> {
    Launcher call(context_, queue, args.wait, args.wants_event);
    if (args.tokens == 0) return call.done();
    const bool weighing = desc_.add != DType::none && args.add_weights;
    const Size slots = Size(args.tokens) * desc_.top_k;
    const auto matrix = [&](const backend::Span& span, const char* what, std::int64_t rows, std::int64_t ld,
                            DType type) {
      return call.memory(span, what, matrix_bytes(rows, ld, desc_.cols, type), null_buffer_);
    };
    const Memory x = matrix(args.x, "x", desc_.rows, desc_.x_ld, desc_.x);
    const Memory add = matrix(args.add, "add", args.tokens, desc_.add_ld, desc_.add);
    const Memory y = matrix(args.y, "y", args.tokens, desc_.y_ld, desc_.y);
    const Memory rows = call.memory(args.rows, "rows", slots * 4, null_buffer_);
    const Memory weights = call.memory(args.weights, "weights", slots * 4, null_buffer_);
    const Memory add_weights =
        call.memory(args.add_weights, "add_weights", weighing ? Size(args.tokens) * 4 : Size(0), null_buffer_);
    cl::Kernel& kernel = weighing ? weighing_ : plain_;
    bind<CombineArg::tokens>(kernel, args.tokens);
    bind_memory<CombineArg::x>(kernel, x, numerics::size_of(desc_.x));
    bind_memory<CombineArg::rows>(kernel, rows, 4);
    bind_memory<CombineArg::weights>(kernel, weights, 4);
    bind_memory<CombineArg::add>(kernel, add, numerics::size_of(desc_.add));
    bind_memory<CombineArg::add_weights>(kernel, add_weights, 4);
    bind_memory<CombineArg::y>(kernel, y, numerics::size_of(desc_.y));
    call.launch(kernel, numerics::ceil_div(desc_.cols, width_ * lanes_), args.tokens, lanes_);
    return call.done();
  });
}

}  // namespace

std::shared_ptr<backend::Combine> make_combiner(ContextPtr context, const backend::CombineDesc& desc) {
  return std::make_shared<Combiner>(std::move(context), desc);
}

}  // namespace ironcl::opencl

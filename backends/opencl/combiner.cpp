// SPDX-License-Identifier: Apache-2.0
// The weighted sum of each token's rows on the device: cl/combine.cl.
#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

using backend::DType;
using numerics::Size;

namespace {

class Combiner final : public DescribedCombine {
 public:
  Combiner(ContextPtr context, const backend::CombineDesc& desc)
      : DescribedCombine(desc), context_(std::move(context)) {
    const Features& f = context_->features;
    expect_countable("columns", desc.cols);
    expect_countable("rows of x", desc.rows);
    expect_countable("slots of tokens", Size(desc.tokens) * desc.top_k);
    expect_fits(f, "x", Size(desc.rows) * desc.x_ld * numerics::size_of(desc.x));
    width_ = f.prefers_vectors() ? 16 : 1;
    lanes_ = lanes_of(f, 128);
    Defines defines = device_defines(f);
    defines["WIDTH"] = std::to_string(width_);
    defines["X_TYPE"] = kernel_number(desc.x);
    defines["Y_TYPE"] = kernel_number(desc.y);
    defines["ADD_TYPE"] = kernel_number(desc.add);
    defines["WEIGH_ADD"] = "0";
    guarded("building a combination", [&] {
      const auto make = [&] {
        cl::Kernel kernel(context_->builder->build("combine.cl", defines), "combine");
        bind<CombineArg::cols>(kernel, desc.cols);
        bind<CombineArg::x_rows>(kernel, desc.rows);
        bind<CombineArg::top_k>(kernel, desc.top_k);
        bind<CombineArg::ldx>(kernel, desc.x_ld);
        bind<CombineArg::ld_add>(kernel, desc.add_ld);
        bind<CombineArg::ldy>(kernel, desc.y_ld);
        return kernel;
      };
      plain_ = make();
      if (desc.add == DType::none) return;
      defines["WEIGH_ADD"] = "1";
      weighing_ = make();
    });
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::CombineArgs& args) override {
    return guarded("combining", [&]() -> std::shared_ptr<backend::Event> {
      Launcher call(context_, queue, args.wait, args.wants_event);
      if (args.tokens == 0) return call.done();
      cl::Kernel& kernel = args.add_weights ? weighing_ : plain_;
      bind<CombineArg::tokens>(kernel, args.tokens);
      bind_memory<CombineArg::x>(kernel, call.memory(args.x), numerics::size_of(desc_.x));
      bind_memory<CombineArg::rows>(kernel, call.memory(args.rows), 4);
      bind_memory<CombineArg::weights>(kernel, call.memory(args.weights), 4);
      bind_memory<CombineArg::add>(kernel, call.memory(args.add), numerics::size_of(desc_.add));
      bind_memory<CombineArg::add_weights>(kernel, call.memory(args.add_weights), 4);
      bind_memory<CombineArg::y>(kernel, call.memory(args.y), numerics::size_of(desc_.y));
      call.launch(kernel, numerics::ceil_div(desc_.cols, width_ * lanes_), args.tokens, lanes_);
      return call.done();
    });
  }

 private:
  ContextPtr context_;
  std::int64_t width_ = 1, lanes_ = 1;
  cl::Kernel plain_, weighing_;  ///< weighing_: where what is added has weights.
};

}  // namespace

std::shared_ptr<backend::Combine> make_combiner(ContextPtr context, const backend::CombineDesc& desc) {
  return std::make_shared<Combiner>(std::move(context), desc);
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// The weighted sum of each token's rows on the device: cl/combine.cl.
#include "backends/opencl/arguments.h"
#include "backends/opencl/device.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"

namespace ironcl::opencl {

using numerics::Size;

std::shared_ptr<backend::Combine> Device::create_combine(const backend::CombineDesc& desc) {
  const Features& f = context()->features;
  expect_countable("columns", desc.cols);
  expect_countable("rows of x", desc.rows);
  expect_countable("slots of tokens", Size(desc.tokens) * desc.top_k);
  expect_fits(f, "x", Size(desc.rows) * desc.x_ld * numerics::size_of(desc.x));
  const std::int64_t width = f.prefers_vectors() ? 16 : 4, lanes = lanes_of(f, 128);
  Defines defines = device_defines(f);
  defines["WIDTH"] = std::to_string(width);
  defines["X_TYPE"] = kernel_number(desc.x);
  defines["Y_TYPE"] = kernel_number(desc.y);
  defines["ADD_TYPE"] = kernel_number(desc.add);
  const auto make = [&](const char* weigh_add) {
    defines["WEIGH_ADD"] = weigh_add;
    cl::Kernel kernel(context()->builder->build("combine.cl", defines), "combine");
    bind<CombineArg::cols>(kernel, desc.cols);
    bind<CombineArg::x_rows>(kernel, desc.rows);
    bind<CombineArg::top_k>(kernel, desc.top_k);
    bind<CombineArg::ldx>(kernel, desc.x_ld);
    bind<CombineArg::ld_add>(kernel, desc.add_ld);
    bind<CombineArg::ldy>(kernel, desc.y_ld);
    return kernel;
  };
  cl::Kernel plain, weighing;  // The second where what is added has weights.
  guarded("building a combination", [&] {
    plain = make("0");
    if (desc.add != backend::DType::none) weighing = make("1");
  });
  return std::make_shared<CombineOperation>(
      context(), desc, "combining", &backend::CombineArgs::tokens,
      [=](Call& call, const backend::CombineArgs& args) mutable {
        cl::Kernel& kernel = args.add_weights ? weighing : plain;
        bind<CombineArg::tokens>(kernel, args.tokens);
        bind_memory<CombineArg::x>(kernel, call.memory(args.x), numerics::size_of(desc.x));
        bind_memory<CombineArg::rows>(kernel, call.memory(args.rows), 4);
        bind_memory<CombineArg::weights>(kernel, call.memory(args.weights), 4);
        bind_memory<CombineArg::add>(kernel, call.memory(args.add), numerics::size_of(desc.add));
        bind_memory<CombineArg::add_weights>(kernel, call.memory(args.add_weights), 4);
        bind_memory<CombineArg::y>(kernel, call.memory(args.y), numerics::size_of(desc.y));
        call.launch(kernel, numerics::ceil_div(desc.cols, width * lanes), args.tokens, lanes);
      });
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// activation(gate, up) on the device, rounded or quantised: cl/activate.cl.
#include <bit>

#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

using backend::DType;
using backend::Grouping;
using numerics::Size;

namespace {

/// Of an unquantised Y: long enough that a work-group is not all overhead.
constexpr std::int64_t kColumnsAtOnce = 512;

class Activation final : public backend::Activate {
 public:
  Activation(ContextPtr context, const backend::ActivateDesc& desc)
      : context_(std::move(context)), desc_(desc), codes_(numerics::is_quantized(desc.y)) {
    const Features& f = context_->features;
    const std::int64_t matrices = masked() ? desc.matrices : 1;
    expect_countable("columns", desc.cols);
    expect_countable("rows", desc.rows);
    expect_fits(f, "gate",
                Size(std::max<std::int64_t>(desc.rows, 1)) * matrices * desc.gate_ld * numerics::size_of(desc.x));
    group_cols_ = codes_ ? desc.scale.grid.group_cols : kColumnsAtOnce;
    lanes_ = lanes_of(f, 64);
    Defines defines = codes_ ? quantizer_defines(f, DType::f32, desc.y, desc.quantizer) : device_defines(f);
    defines["LANES"] = std::to_string(lanes_);
    defines["X_TYPE"] = kernel_number(desc.x);
    if (!codes_) defines["Y_TYPE"] = kernel_number(desc.y);
    defines["ACTIVATION"] = std::to_string(static_cast<std::uint32_t>(desc.activation));
    defines["GROUP_COLS"] = std::to_string(reach(group_cols_));
    defines["GROUPED"] = std::to_string(static_cast<std::uint32_t>(desc.grouping));
    // The same options for every type of y: they say how divisions round, and codes are those of the f32 values.
    guarded("building an activation", [&] {
      kernel_ = cl::Kernel(context_->builder->build("activate.cl", defines, quantizer_options(f)), "activate");
      bind<ActivateArg::cols>(kernel_, desc.cols);
      bind<ActivateArg::matrices>(kernel_, std::max<std::int64_t>(1, desc.matrices));
      bind<ActivateArg::limit>(kernel_, desc.limit);
      bind<ActivateArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(desc.quantizer.amax_floor));
      bind<ActivateArg::ld_gate>(kernel_, desc.gate_ld);
      bind<ActivateArg::ld_up>(kernel_, desc.up_ld);
      bind<ActivateArg::ldy>(kernel_, desc.y_ld);
      bind<ActivateArg::lds>(kernel_, desc.scale.ld);
    });
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::ActivateArgs& args) override {
    return guarded("an activation", [&]() -> std::shared_ptr<backend::Event> {
      Launcher call(context_, queue, args.wait, args.wants_event);
      if (args.rows == 0) return call.done();
      bind<ActivateArg::rows>(kernel_, args.rows);
      bind_memory<ActivateArg::gate>(kernel_, call.memory(args.gate), numerics::size_of(desc_.x));
      bind_memory<ActivateArg::up>(kernel_, call.memory(args.up), numerics::size_of(desc_.x));
      bind_memory<ActivateArg::y>(kernel_, call.memory(args.y), numerics::size_of(desc_.y));
      bind_memory<ActivateArg::scales>(kernel_, call.memory(args.scales), 4);
      bind_memory<ActivateArg::counts>(kernel_, call.memory(args.matrix_rows), 4);
      // Work-groups take units in turn, so that rows which nobody has cost next to nothing.
      const std::int64_t groups = group_cols_ == 0 ? 1 : numerics::ceil_div(desc_.cols, group_cols_);
      const std::int64_t units = (Size(args.rows) * (masked() ? desc_.matrices : 1) * groups).value();
      const std::int64_t most = context_->features.compute_units * (lanes_ == 1 ? 8 : 64);
      call.launch(kernel_, std::min(units, most), 1, lanes_);
      return call.done();
    });
  }

 private:
  bool masked() const noexcept { return desc_.grouping == Grouping::masked; }

  ContextPtr context_;
  backend::ActivateDesc desc_;
  bool codes_;                   ///< Y is quantised.
  std::int64_t group_cols_ = 0;  ///< Columns that a work-group makes at once.
  std::int64_t lanes_ = 1;
  cl::Kernel kernel_;
};

}  // namespace

std::shared_ptr<backend::Activate> make_activation(ContextPtr context, const backend::ActivateDesc& desc) {
  return std::make_shared<Activation>(std::move(context), desc);
}

}  // namespace ironcl::opencl

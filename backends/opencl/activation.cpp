// SPDX-License-Identifier: Apache-2.0
// activation(gate, up) on the device, rounded or quantised: cl/activate.cl.
#include <bit>

#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

using backend::DType;
using backend::Error;
using backend::Grouping;
using backend::Status;
using numerics::Size;

namespace {

/// Of an unquantised Y: long enough that a work-group is not all overhead.
constexpr std::int64_t kColumnsAtOnce = 512;

void check(const backend::ActivateDesc& desc, const Features& f) {
  expect_real("gate and up are", desc.x);
  if (!numerics::is_float(desc.y) && !is_code_of_a_byte(desc.y)) {
    throw Error(Status::unsupported, "y is " + std::string(numerics::name_of(desc.y)) + "; take " +
                                         to_string(types_that(numerics::is_float)) + ", or " +
                                         to_string(types_that(is_code_of_a_byte)));
  }
  if (is_code_of_a_byte(desc.y) && (desc.scale.dtype != DType::f32 || desc.scale.grid.group_rows != 1))
    throw Error(Status::unsupported, "scales of a quantised y are f32, one for some columns of a row");
  const std::int64_t matrices = desc.grouping == Grouping::masked ? desc.matrices : 1;
  expect_countable("columns", desc.cols);
  expect_countable("rows", desc.rows);
  expect_fits(f, "gate",
              Size(std::max<std::int64_t>(desc.rows, 1)) * matrices * desc.gate_ld * numerics::size_of(desc.x));
}

class Activation final : public backend::Activate {
 public:
  Activation(ContextPtr context, const backend::ActivateDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::ActivateArgs& args) override;

 private:
  ContextPtr context_;
  backend::ActivateDesc desc_;
  bool codes_;                   ///< Y is quantised.
  std::int64_t group_cols_ = 0;  ///< Columns that a work-group makes at once.
  std::int64_t lanes_ = 1;
  cl::Kernel kernel_;
  cl::Buffer null_buffer_;
};

Activation::Activation(ContextPtr context, const backend::ActivateDesc& desc)
    : context_(std::move(context)), desc_(desc), codes_(is_code_of_a_byte(desc.y)) {
  const Features& f = context_->features;
  check(desc_, f);
  group_cols_ = codes_ ? desc_.scale.grid.group_cols : kColumnsAtOnce;
  if (!f.prefers_vectors()) lanes_ = std::bit_floor(std::min<std::uint64_t>(64, f.max_work_group));
  Defines defines = codes_ ? quantizer_defines(f, DType::f32, desc_.y, desc_.quantizer) : device_defines(f);
  defines["LANES"] = std::to_string(lanes_);
  defines["X_TYPE"] = kernel_number(desc_.x);
  if (!codes_) defines["Y_TYPE"] = kernel_number(desc_.y);
  defines["ACTIVATION"] = std::to_string(static_cast<std::uint32_t>(desc_.activation));
  defines["GROUP_COLS"] = std::to_string(reach(group_cols_));
  defines["GROUPED"] = std::to_string(static_cast<std::uint32_t>(desc_.grouping));
  // The same options for every type of y: they say how divisions round, and codes are those of the f32 values.
  guarded("building an activation", [&] {
    null_buffer_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, std::size_t{256});
    kernel_ = cl::Kernel(context_->builder->build("activate.cl", defines, quantizer_options(f)), "activate");
    bind<ActivateArg::cols>(kernel_, desc_.cols);
    bind<ActivateArg::matrices>(kernel_, std::max<std::int64_t>(1, desc_.matrices));
    bind<ActivateArg::limit>(kernel_, desc_.limit);
    bind<ActivateArg::floor_bits>(kernel_, std::bit_cast<cl_uint>(desc_.quantizer.amax_floor));
    bind<ActivateArg::ld_gate>(kernel_, desc_.gate_ld);
    bind<ActivateArg::ld_up>(kernel_, desc_.up_ld);
    bind<ActivateArg::ldy>(kernel_, desc_.y_ld);
    bind<ActivateArg::lds>(kernel_, desc_.scale.ld);
  });
}

std::shared_ptr<backend::Event> Activation::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                    const backend::ActivateArgs& args) {
  const bool masked = desc_.grouping == Grouping::masked;
  expect_at_most("rows", args.rows, "the activation", desc_.rows);
  if (masked && args.rows != 0 && args.rows != desc_.rows)
    throw Error(Status::invalid_argument,
                "rows is " + std::to_string(args.rows) + ", the activation takes 0 or " + std::to_string(desc_.rows));
  return guarded("an activation", [&]() -> std::shared_ptr<backend::Event> {
    Launcher call(context_, queue, args.wait, args.wants_event);
    if (args.rows == 0) return call.done();
    const std::int64_t rows = (Size(args.rows) * (masked ? desc_.matrices : 1)).value();
    const auto memory = [&](const backend::Span& span, const char* what, std::int64_t ld, std::int64_t cols,
                            DType type) {
      return call.memory(span, what, matrix_bytes(rows, ld, cols, type), null_buffer_);
    };
    const Memory gate = memory(args.gate, "gate", desc_.gate_ld, desc_.cols, desc_.x);
    const Memory up = memory(args.up, "up", desc_.up_ld, desc_.cols, desc_.x);
    const Memory y = memory(args.y, "y", desc_.y_ld, desc_.cols, desc_.y);
    const Memory scales = memory(args.scales, "scales", desc_.scale.ld, desc_.scale.grid.scale_cols(desc_.cols),
                                 codes_ ? DType::f32 : DType::none);
    const Memory counts =
        call.memory(args.matrix_rows, "matrix_rows",
                    desc_.grouping == Grouping::none ? Size(0) : Size(desc_.matrices) * 4, null_buffer_);
    bind<ActivateArg::rows>(kernel_, args.rows);
    bind_memory<ActivateArg::gate>(kernel_, gate, numerics::size_of(desc_.x));
    bind_memory<ActivateArg::up>(kernel_, up, numerics::size_of(desc_.x));
    bind_memory<ActivateArg::y>(kernel_, y, numerics::size_of(desc_.y));
    bind_memory<ActivateArg::scales>(kernel_, scales, 4);
    bind_memory<ActivateArg::counts>(kernel_, counts, 4);
    // Work-groups take units in turn, so that rows which nobody has cost next to nothing.
    const std::int64_t groups = group_cols_ == 0 ? 1 : numerics::ceil_div(desc_.cols, group_cols_);
    const std::int64_t units = (Size(rows) * groups).value();
    const std::int64_t most = context_->features.compute_units * (lanes_ == 1 ? 8 : 64);
    call.launch(kernel_, std::min(units, most), 1, lanes_);
    return call.done();
  });
}

}  // namespace

std::shared_ptr<backend::Activate> make_activation(ContextPtr context, const backend::ActivateDesc& desc) {
  return std::make_shared<Activation>(std::move(context), desc);
}

}  // namespace ironcl::opencl

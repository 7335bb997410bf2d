// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/gemm.h"

#include <algorithm>
#include <future>
#include <system_error>

#include "backends/numerics/checked.h"

namespace ironcl::opencl {

using backend::DType;
using backend::Error;
using backend::Span;
using backend::Status;
using numerics::checked_mul;

Gemm::Gemm(ContextPtr context, const backend::GemmDesc& desc, Choice choice)
    : context_(std::move(context)),
      desc_(desc),
      choice_(std::move(choice)),
      weight_form_(choice_.variant->weights(choice_.tuning, choice_.problem)),
      route_(route_of(desc_, choice_, context_->features)),
      call_("a call of plan " + choice_.variant->name) {
  guarded("building a plan", [&] {
    null_buffer_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, std::size_t{Booking::kAlignment});
    if (route_.booking.counter()) {
      std::vector<std::byte> zeros(Booking::kAlignment);
      counter_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, zeros.size(), zeros.data());
    }
    build();
    warm_up();
  });
}

void Gemm::build() {
  ProgramBuilder& builder = *context_->builder;
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < route_.steps.size(); ++i) {
    Step& step = *route_.steps[i];
    const auto policy = std::launch::async;
    try {
      others.push_back(std::async(policy, [&step, &builder] { step.build(builder); }));
    } catch (const std::system_error&) {  // No thread is to be had: one after the other, then.
      step.build(builder);
    }
  }
  route_.steps.front()->build(builder);
  for (std::future<void>& other : others) other.get();
}

void Gemm::launch(Call& call) {
  for (const auto& step : route_.steps) step->launch(call);
}

void Gemm::warm_up() {
  const cl::CommandQueue queue(context_->context, context_->device);
  Call call(0, queue);
  call.null_buffer = {&null_buffer_, 0};
  call.a = call.a_scale = call.a_codes = call.a_code_scales = call.a_index = call.null_buffer;
  call.d = call.bias = call.matrix_rows = call.counter = call.workspace = call.null_buffer;
  const DeviceWeights weights{null_buffer_, null_buffer_};
  call.weights = &weights;
  launch(call);
  queue.finish();
}

backend::GemmInfo Gemm::info() const {
  return {choice_.variant->accuracy,
          std::min<std::int64_t>(choice_.problem.k_group, std::max<std::int64_t>(desc_.k, 1)), route_.booking.bytes(),
          choice_.variant->name, to_string(choice_.tuning), weight_form_->name()};
}

std::vector<std::string> Gemm::step_names() const {
  std::vector<std::string> names;
  for (const auto& step : route_.steps) names.push_back(step->name());
  return names;
}

const Weights& Gemm::weights_of(const backend::GemmArgs& args) const {
  const auto* weights = dynamic_cast<const Weights*>(args.weights.get());
  if (weights == nullptr || weights->context() != context_) {
    throw Error(Status::invalid_argument, "the weights are not prepared for device " + context_->features.name);
  }
  const backend::ScaleDesc& has = weights->scale();
  const backend::ScaleDesc& want = desc_.b_scale;
  const std::int64_t matrices = std::max<std::int64_t>(1, choice_.problem.matrices);
  if (weights->matrices() != matrices) {
    throw Error(Status::invalid_argument, "the weights are " + std::to_string(weights->matrices()) +
                                              " matrices, the plan is for " + std::to_string(matrices));
  }
  if (weights->n() != desc_.n || weights->k() != desc_.k || weights->dtype() != desc_.b || has.dtype != want.dtype ||
      (has.dtype != DType::none && has.grid.resolved(desc_.n, desc_.k) != want.grid.resolved(desc_.n, desc_.k))) {
    const auto text = [](std::int64_t n, std::int64_t k, DType type, const backend::ScaleDesc& s) {
      return std::string(numerics::name_of(type)) + " [" + std::to_string(n) + ", " + std::to_string(k) + "] with " +
             std::string(numerics::name_of(s.dtype)) + " scales of " + std::to_string(s.grid.group_rows) + "x" +
             std::to_string(s.grid.group_cols);
    };
    throw Error(Status::invalid_argument, "the weights are " +
                                              text(weights->n(), weights->k(), weights->dtype(), has) +
                                              ", the plan is for " + text(desc_.n, desc_.k, desc_.b, want));
  }
  return *weights;
}

std::int64_t Gemm::a_rows_of(const backend::GemmArgs& args) const {
  if (desc_.a_rows != 0) return args.a_rows;
  return choice_.problem.masked ? checked_mul(choice_.problem.matrices, args.m) : args.m;
}

void Gemm::check(const backend::GemmArgs& args) const {
  if (args.m < 0 || args.m > desc_.m) {
    throw Error(Status::invalid_argument,
                "m is " + std::to_string(args.m) + ", the plan takes 0 to " + std::to_string(desc_.m));
  }
  const bool masked = choice_.problem.masked;
  if (masked && args.m != desc_.m && args.m != 0) {
    throw Error(
        Status::invalid_argument,
        "m is " + std::to_string(args.m) + "; calls of a masked problem have the plan's, " + std::to_string(desc_.m));
  }
  if (args.m == 0) return;
  if (desc_.a_rows != 0 ? args.a_rows < 1 || args.a_rows > desc_.a_rows : args.a_rows != 0) {
    throw Error(Status::invalid_argument, "a_rows is " + std::to_string(args.a_rows) + ", the plan takes " +
                                              (desc_.a_rows != 0 ? "1 to " : "") + std::to_string(desc_.a_rows));
  }
  const std::int64_t matrices = std::max<std::int64_t>(1, choice_.problem.matrices);
  const std::int64_t rows = masked ? checked_mul(matrices, args.m) : args.m;  // Of D, all matrices' together.
  const std::int64_t a_rows = a_rows_of(args);
  const auto need = [&](const Span& span, const char* what, std::int64_t count, std::int64_t ld, std::int64_t cols,
                        DType type) {
    const std::uint64_t size = numerics::size_of(type);
    const auto bytes = static_cast<std::uint64_t>(numerics::checked_add(checked_mul(count - 1, ld), cols)) * size;
    own(span.buffer, *context_, what);
    if (span.size < bytes) {
      throw Error(Status::invalid_argument, std::string(what) + " has " + std::to_string(span.size) +
                                                " bytes, the call needs " + std::to_string(bytes));
    }
    if (span.offset % context_->features.alignment != 0) {
      throw Error(Status::invalid_argument, std::string(what) + " starts at byte " + std::to_string(span.offset) +
                                                "; offsets are multiples of " +
                                                std::to_string(context_->features.alignment));
    }
  };
  need(args.a, "a", a_rows, desc_.lda, desc_.k, desc_.a_source != DType::none ? desc_.a_source : desc_.a);
  need(args.d, "d", rows, desc_.ldd, desc_.n, desc_.d);
  if (desc_.bias != DType::none) need(args.bias, "bias", matrices, desc_.n, desc_.n, desc_.bias);
  if (choice_.problem.grouped()) need(args.matrix_rows, "matrix_rows", 1, matrices, matrices, DType::f32);
  if (desc_.a_rows != 0) need(args.a_index, "a_index", 1, rows, rows, DType::f32);
  const numerics::ScaleGrid& grid = desc_.a_scale.grid;
  if (desc_.a_source == DType::none && desc_.a_scale.dtype != DType::none) {
    need(args.a_scale, "a_scale", grid.scale_rows(a_rows), desc_.a_scale.ld, grid.scale_cols(desc_.k),
         desc_.a_scale.dtype);
  }
  if (args.workspace) {
    own(args.workspace.buffer, *context_, "workspace");
    if (args.workspace.size < route_.booking.bytes() || args.workspace.offset % context_->features.alignment != 0) {
      throw Error(Status::invalid_argument, "the workspace has " + std::to_string(args.workspace.size) +
                                                " bytes from byte " + std::to_string(args.workspace.offset) +
                                                ", the plan needs " + std::to_string(route_.booking.bytes()) +
                                                " from a multiple of " +
                                                std::to_string(context_->features.alignment));
    }
  }
  if (static_cast<bool>(args.a_quantized) != static_cast<bool>(args.a_quantized_scale) ||
      (args.a_quantized && desc_.a_source == DType::none)) {
    throw Error(Status::invalid_argument,
                "a_quantized and a_quantized_scale come together, on a plan that quantises a");
  }
  if (args.a_quantized) {
    need(args.a_quantized, "a_quantized", a_rows, desc_.k, desc_.k, desc_.a);
    need(args.a_quantized_scale, "a_quantized_scale", grid.scale_rows(a_rows), grid.scale_cols(desc_.k),
         grid.scale_cols(desc_.k), DType::f32);
  }
}

Memory Gemm::own_workspace() {
  if (route_.booking.bytes() == 0) return {&null_buffer_, 0};
  if (own_workspace_() == nullptr) own_workspace_ = Buffer(context_, route_.booking.bytes()).memory();
  return {&own_workspace_, 0};
}

std::shared_ptr<backend::Event> Gemm::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                              const backend::GemmArgs& args) {
  own(queue, *context_);
  check(args);
  const Weights& weights = weights_of(args);
  return guarded(call_, [&]() -> std::shared_ptr<backend::Event> {
    Call call(args.m, context_, queue, args.wait, args.wants_event);
    if (args.m == 0) return call.done();
    const auto memory = [&](const Span& span, const Memory& otherwise) {
      return span ? Memory{&own(span.buffer, *context_, "a span").memory(), span.offset} : otherwise;
    };
    call.a_rows = a_rows_of(args);
    call.null_buffer = {&null_buffer_, 0};
    call.a = memory(args.a, call.null_buffer);
    call.a_scale = memory(args.a_scale, call.null_buffer);
    call.a_codes = memory(args.a_quantized, {});
    call.a_code_scales = memory(args.a_quantized_scale, {});
    call.d = memory(args.d, call.null_buffer);
    call.bias = memory(args.bias, call.null_buffer);
    call.a_index = memory(args.a_index, call.null_buffer);
    call.matrix_rows = memory(args.matrix_rows, call.null_buffer);
    call.weights = &weights.in(*weight_form_);
    call.counter = {&counter_, 0};
    call.workspace = args.workspace ? memory(args.workspace, {}) : own_workspace();
    const bool uses_own = route_.booking.counter() || (!args.workspace && route_.booking.bytes() != 0);
    if (uses_own) own_memory_.begin(call);
    launch(call);
    return uses_own ? own_memory_.end(call) : call.done();
  });
}

}  // namespace ironcl::opencl

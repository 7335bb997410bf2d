// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/gemm.h"

#include <algorithm>
#include <future>
#include <system_error>

#include "backends/numerics/checked.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

using backend::DType;
using backend::Error;
using backend::Span;
using backend::Status;
using numerics::checked_mul;

namespace {

/// A as the caller gives it.
Operand given(const Problem& p) {
  Operand a;
  a.data.source = Source::a;
  a.ld = p.lda;
  a.gathered = p.gathers();
  if (p.a_source != DType::none) {
    a.element = p.a_source;
    return a;
  }
  a.element = p.a;
  a.grid = p.a_scale.grid;
  if (p.a_scale.dtype != DType::none) {
    a.scales.source = Source::a_scale;
    a.scale = p.a_scale.dtype;
    a.scale_ld = p.a_scale.ld;
  }
  return a;
}

/// D as the caller takes it; in codes where it is quantised.
Operand wanted(const Problem& p) {
  Operand d;
  d.data.source = Source::d;
  d.element = p.quantizes_d() ? p.d_code : p.d;
  d.ld = p.ldd;
  d.scales.source = Source::d_scale;
  d.scale = p.d_scale.dtype;
  d.scale_ld = p.d_scale.ld;
  d.grid = p.d_scale.grid;
  return d;
}

/// Whether the multiplying kernel makes the codes of D.
bool makes_codes_of_d(const Choice& choice) {
  const std::int64_t group = choice.problem.d_group();
  if (group == 0 || choice.variant->d_columns == nullptr) return false;
  const std::int64_t columns = choice.variant->d_columns(choice.tuning);
  return columns != 0 && (columns % group == 0 || (group > choice.problem.n && columns >= choice.problem.n));
}

[[noreturn]] void invalid(const std::string& text) { throw Error(Status::invalid_argument, text); }

}  // namespace

Route route_of(const Choice& choice, const Features& features) {
  const Problem& p = choice.problem;
  Route route;
  PlanContext plan{features, p, route.booking};
  const auto form = choice.variant->activations(choice.tuning, p);
  if (p.grouped()) {
    const ScheduleShape shape = choice.variant->schedule(choice.tuning);
    plan.scheduled_rows = shape.tile_rows;
    plan.scheduled = book_schedule(shape, plan);
    if (!form->schedules(plan) && !schedules_itself(*choice.variant, choice.tuning, p))
      route.steps.push_back(schedule_step(shape, plan));
  }
  Operand a = given(p);
  if (p.given_source != DType::none) {
    a.data = plan.booking.book("codes of A", plan.rows_in_memory() * p.k);
    route.steps.push_back(quantize_rows_step({.source = p.given_source,
                                              .code = p.a,
                                              .k = p.k,
                                              .ld = p.given_ld,
                                              .code_ld = p.k,
                                              .grid = p.a_scale.grid,
                                              .quantizer = p.a_quantizer,
                                              .scale_ld = p.a_scale.ld,
                                              .scale = p.a_scale.dtype},
                                             features, {Source::a, 0}, a.data, {Source::a_scale, 0}));
  }
  const auto go = [&](StepResult made) {
    route.steps.push_back(std::move(made.step));
    a = made.result;
  };
  if (p.a_source != DType::none) {
    // Tight codes and scales for a caller who asks to see them.
    route.steps.push_back(quantize_rows_step({p.a_source, p.a, p.k, p.lda, p.k, p.a_scale.grid, p.a_quantizer},
                                             features, a.data, {Source::a_codes, 0}, {Source::a_code_scales, 0}));
    if (form->takes_floats(a, plan)) {
      // Nothing between the caller's floats and the kernel.
    } else if (StepResult made = form->quantize(a, plan); made.step != nullptr) {
      go(std::move(made));
    } else {
      go(quantize_rows(a, p.k, plan));
      go(form->pack(a, plan));
    }
  } else if (!form->takes(a, plan)) {
    go(form->pack(a, plan));
  }
  Operand d = wanted(p);
  const bool codes_later = p.quantizes_d() && !makes_codes_of_d(choice);
  if (codes_later) {
    d = Operand{};
    d.element = p.d;
    d.ld = p.n;
    d.data = plan.booking.book("D before it is quantised", plan.rows_of_d() * p.n * numerics::size_of(p.d));
  }
  route.steps.push_back(multiply_step(*choice.variant, choice.tuning, a, d, plan));
  if (codes_later) route.steps.push_back(quantize_d_step(d, plan));
  return route;
}

Gemm::Gemm(ContextPtr context, Choice choice)
    : context_(std::move(context)),
      choice_(std::move(choice)),
      weight_form_(choice_.variant->weights(choice_.tuning, choice_.problem)),
      route_(route_of(choice_, context_->features)),
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
    try {
      others.push_back(std::async(std::launch::async, [&step, &builder] { step.build(builder); }));
    } catch (const std::system_error&) {  // No thread is to be had: one after the other, then.
      step.build(builder);
    }
  }
  route_.steps.front()->build(builder);
  for (std::future<void>& other : others) other.get();
}

void Gemm::warm_up() {
  const cl::CommandQueue queue(context_->context, context_->device);
  Call call(0, null_buffer_, queue);
  const DeviceWeights weights{null_buffer_, null_buffer_};
  call.weights = &weights;
  for (const auto& step : route_.steps) step->launch(call);
  queue.finish();
}

backend::GemmInfo Gemm::info() const {
  return {choice_.variant->accuracy,
          std::min<std::int64_t>(choice_.problem.k_group, std::max<std::int64_t>(choice_.problem.k, 1)),
          route_.booking.bytes(),
          choice_.variant->name,
          to_string(choice_.tuning),
          weight_form_->name()};
}

std::vector<std::string> Gemm::step_names() const {
  std::vector<std::string> names;
  for (const auto& step : route_.steps) names.push_back(step->name());
  return names;
}

const Weights& Gemm::weights_of(const backend::GemmArgs& args) const {
  const auto* weights = dynamic_cast<const Weights*>(args.weights.get());
  if (weights == nullptr || weights->context() != context_)
    invalid("the weights are not prepared for device " + context_->features.name);
  const Problem& p = choice_.problem;
  const std::int64_t matrices = std::max<std::int64_t>(1, p.matrices);
  if (weights->matrices() != matrices) {
    invalid("the weights are " + std::to_string(weights->matrices()) + " matrices, the plan is for " +
            std::to_string(matrices));
  }
  const backend::ScaleDesc &has = weights->scale(), &want = p.b_scale;
  if (weights->n() != p.n || weights->k() != p.k || weights->dtype() != p.b || has.dtype != want.dtype ||
      (has.dtype != DType::none && has.grid.resolved(p.n, p.k) != want.grid.resolved(p.n, p.k))) {
    const auto text = [](std::int64_t n, std::int64_t k, DType type, const backend::ScaleDesc& s) {
      return std::string(numerics::name_of(type)) + " [" + std::to_string(n) + ", " + std::to_string(k) + "] with " +
             std::string(numerics::name_of(s.dtype)) + " scales of " + std::to_string(s.grid.group_rows) + "x" +
             std::to_string(s.grid.group_cols);
    };
    invalid("the weights are " + text(weights->n(), weights->k(), weights->dtype(), has) + ", the plan is for " +
            text(p.n, p.k, p.b, want));
  }
  return *weights;
}

std::int64_t Gemm::a_rows_of(const backend::GemmArgs& args) const {
  const Problem& p = choice_.problem;
  if (p.gathers()) return args.a_rows;
  return p.masked() ? checked_mul(p.matrices, args.m) : args.m;
}

void Gemm::check(const backend::GemmArgs& args) const {
  const Problem& p = choice_.problem;
  if (args.m < 0 || args.m > p.m)
    invalid("m is " + std::to_string(args.m) + ", the plan takes 0 to " + std::to_string(p.m));
  if (p.masked() && args.m != p.m && args.m != 0) {
    invalid("m is " + std::to_string(args.m) + "; calls of a masked problem have the plan's, " + std::to_string(p.m));
  }
  if (args.m == 0) return;
  if (p.gathers() ? args.a_rows < 1 || args.a_rows > p.a_rows : args.a_rows != 0) {
    invalid("a_rows is " + std::to_string(args.a_rows) + ", the plan takes " + (p.gathers() ? "1 to " : "") +
            std::to_string(p.a_rows));
  }
  const std::int64_t matrices = std::max<std::int64_t>(1, p.matrices);
  const std::int64_t rows = p.masked() ? checked_mul(matrices, args.m) : args.m;  // Of D, all matrices' together.
  const std::int64_t a_rows = a_rows_of(args);
  const auto need_bytes = [&](const Span& span, const std::string& what, std::uint64_t bytes) {
    own(span.buffer, *context_, what.c_str());
    if (span.size < bytes) {
      invalid(what + " has " + std::to_string(span.size) + " bytes, the call needs " + std::to_string(bytes));
    }
    if (const std::uint64_t unit = context_->features.alignment; span.offset % unit != 0) {
      invalid(what + " starts at byte " + std::to_string(span.offset) + "; offsets are multiples of " +
              std::to_string(unit));
    }
  };
  const auto need = [&](const Span& span, const char* what, std::int64_t count, std::int64_t ld, std::int64_t cols,
                        DType type) { need_bytes(span, what, matrix_bytes(count, ld, cols, type).bytes()); };
  if (p.given_source != DType::none)
    need(args.a, "a", a_rows, p.given_ld, p.k, p.given_source);
  else
    need(args.a, "a", a_rows, p.lda, p.k, p.a_source != DType::none ? p.a_source : p.a);
  need(args.d, "d", rows, p.ldd, p.n, p.quantizes_d() ? p.d_code : p.d);
  if (p.quantizes_d()) {
    const numerics::ScaleGrid& of_d = p.d_scale.grid;
    need(args.d_scale, "d_scale", of_d.scale_rows(rows), p.d_scale.ld, of_d.scale_cols(p.n), p.d_scale.dtype);
  }
  if (p.bias != DType::none) need(args.bias, "bias", matrices, p.n, p.n, p.bias);
  if (p.grouped()) need(args.matrix_rows, "matrix_rows", 1, matrices, matrices, DType::f32);
  if (p.gathers()) need(args.a_index, "a_index", 1, rows, rows, DType::f32);
  const numerics::ScaleGrid& grid = p.a_scale.grid;
  const std::int64_t scale_rows = grid.scale_rows(a_rows), scale_cols = grid.scale_cols(p.k);
  if (p.a_source == DType::none && p.a_scale.dtype != DType::none)
    need(args.a_scale, "a_scale", scale_rows, p.a_scale.ld, scale_cols, p.a_scale.dtype);
  if (args.workspace) need_bytes(args.workspace, "the workspace", route_.booking.bytes());
  if (static_cast<bool>(args.a_quantized) != static_cast<bool>(args.a_quantized_scale) ||
      (args.a_quantized && p.a_source == DType::none))
    invalid("a_quantized and a_quantized_scale come together, on a plan that quantises a");
  if (args.a_quantized) {
    need(args.a_quantized, "a_quantized", a_rows, p.k, p.k, p.a);
    need(args.a_quantized_scale, "a_quantized_scale", scale_rows, scale_cols, scale_cols, DType::f32);
  }
}

Memory Gemm::own_workspace() {
  if (route_.booking.bytes() == 0) return {};
  if (own_workspace_() == nullptr) own_workspace_ = Buffer(context_, route_.booking.bytes()).memory();
  return {&own_workspace_, 0};
}

std::shared_ptr<backend::Event> Gemm::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                              const backend::GemmArgs& args) {
  own(queue, *context_);
  check(args);
  const Weights& weights = weights_of(args);
  return guarded(call_, [&]() -> std::shared_ptr<backend::Event> {
    Call call(args.m, null_buffer_, context_, queue, args.wait, args.wants_event);
    if (args.m == 0) return call.done();
    for (const auto& [source, span] :
         std::initializer_list<std::pair<Source, const Span&>>{{Source::a, args.a},
                                                               {Source::a_scale, args.a_scale},
                                                               {Source::a_codes, args.a_quantized},
                                                               {Source::a_code_scales, args.a_quantized_scale},
                                                               {Source::d, args.d},
                                                               {Source::d_scale, args.d_scale},
                                                               {Source::bias, args.bias},
                                                               {Source::a_index, args.a_index},
                                                               {Source::matrix_rows, args.matrix_rows},
                                                               {Source::workspace, args.workspace}}) {
      if (span) call[source] = {&own(span.buffer, *context_, "a span").memory(), span.offset};
    }
    if (!args.workspace) call[Source::workspace] = own_workspace();
    call[Source::counter] = {&counter_, 0};
    call.a_rows = a_rows_of(args);
    call.weights = &weights.in(*weight_form_);
    const bool uses_own = route_.booking.counter() || (!args.workspace && route_.booking.bytes() != 0);
    if (uses_own) own_memory_.begin(call);
    for (const auto& step : route_.steps) step->launch(call);
    return uses_own ? own_memory_.end(call) : call.done();
  });
}

}  // namespace ironcl::opencl

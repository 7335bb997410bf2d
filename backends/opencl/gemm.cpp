// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/gemm.h"

#include <algorithm>
#include <future>

#include "backends/numerics/checked.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {

using backend::DType;
using backend::Span;
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
  a.scale = p.a_scale;
  if (a.scale.dtype != DType::none) a.scales.source = Source::a_scale;
  return a;
}

/// D as the caller takes it; in codes where it is quantised.
Operand wanted(const Problem& p) {
  Operand d;
  d.data.source = Source::d;
  d.element = p.d_later != DType::none ? p.d_later : p.d;
  d.ld = p.ldd;
  d.scales.source = Source::d_scale;
  d.scale = p.d_scale;
  return d;
}

}  // namespace

Route route_of(const Choice& choice, const Features& features) {
  const Problem& p = choice.problem;
  Route route;
  PlanContext plan{features, p, route.booking};
  const auto form = choice.variant->activations(choice.tuning, p);
  if (p.grouped()) {
    const ScheduleShape shape = choice.variant->schedule(choice.tuning);
    plan.scheduled_rows = shape.tile_rows;
    plan.scheduled = plan.booking.book(numerics::Size(ScheduleLists(p, p.m, shape).elements) * 4);
    if (!form->schedules(plan) && !schedules_itself(*choice.variant, choice.tuning, p))
      route.steps.push_back(schedule_step(shape, plan));
  }
  Operand a = given(p);
  if (p.given_source != DType::none) {
    a.data = plan.booking.book(plan.rows_in_memory() * p.k);
    route.steps.push_back(quantize_rows_step(quantizing_a(p, p.given_source, p.given_ld, p.k, p.a_scale), features,
                                             {Source::a, 0}, a.data, {Source::a_scale, 0}));
  }
  const auto go = [&](StepResult made) {
    route.steps.push_back(std::move(made.step));
    a = made.result;
  };
  if (p.a_source != DType::none) {
    // Tight codes and scales for a caller who asks to see them.
    route.steps.push_back(quantize_rows_step(quantizing_a(p, p.a_source, p.lda, p.k, {DType::f32, p.a_scale.grid}),
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
  const bool activates = p.gated() && gate_run(*choice.variant, choice.tuning, p) == 0;
  bool codes_later = p.quantizes_d() && (activates || !makes_codes_of_d(*choice.variant, choice.tuning, p));
  Operand d = wanted(p);
  const auto between = [&](std::int64_t columns) {
    d = Operand{};
    d.element = p.d;
    d.ld = columns;
    d.data = plan.booking.book(plan.rows_of_d() * columns * numerics::size_of(p.d));
  };
  if (activates || codes_later) between(activates ? p.n : p.d_cols());
  route.steps.push_back(multiply_step(*choice.variant, choice.tuning, a, d, plan));
  if (activates) {
    const Operand totals = d;
    codes_later = codes_later && !p.activates_to_codes();
    d = wanted(p);
    if (codes_later) between(p.d_cols());
    route.steps.push_back(activate_d_step(totals, d, plan));
  }
  if (codes_later) route.steps.push_back(quantize_d_step(d, plan));
  return route;
}

Gemm::Gemm(ContextPtr context, Choice choice)
    : context_(std::move(context)),
      choice_(std::move(choice)),
      weight_form_(opencl::weights_form(*choice_.variant, choice_.tuning, choice_.problem)),
      route_(route_of(choice_, context_->features)),
      call_("a call of plan " + choice_.variant->name) {
  guarded("building a plan", [&] {
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
    // Where no thread is to be had, get() builds.
    others.push_back(std::async([&step = *route_.steps[i], &builder] { step.build(builder); }));
  }
  route_.steps.front()->build(builder);
  for (std::future<void>& other : others) other.get();
}

void Gemm::warm_up() {
  const cl::CommandQueue queue(context_->context, context_->device);
  Call call(0, context_, queue);
  const DeviceWeights weights{context_->null_buffer, context_->null_buffer};
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

Memory Gemm::own_workspace() {
  if (route_.booking.bytes() == 0) return {};
  if (own_workspace_() == nullptr) own_workspace_ = Buffer(context_, route_.booking.bytes()).memory();
  return {&own_workspace_, 0};
}

std::shared_ptr<backend::Event> Gemm::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                              const backend::GemmArgs& args) {
  const auto& weights = static_cast<const Weights&>(*args.weights);
  return guarded(call_, [&]() -> std::shared_ptr<backend::Event> {
    Call call(args.m, context_, queue, args.wait, args.wants_event);
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
      if (span) call[source] = call.memory(span);
    }
    if (!args.workspace) call[Source::workspace] = own_workspace();
    call[Source::counter] = {&counter_, 0};
    if (const Problem& p = choice_.problem; p.gathers() || p.masked())
      call.a_rows = p.gathers() ? args.a_rows : checked_mul(p.matrices, args.m);
    call.weights = &weights.in(*weight_form_);
    const bool uses_own = route_.booking.counter() || (!args.workspace && route_.booking.bytes() != 0);
    if (uses_own) own_memory_.begin(call);
    for (const auto& step : route_.steps) step->launch(call);
    return uses_own ? own_memory_.end(call) : call.done();
  });
}

}  // namespace ironcl::opencl

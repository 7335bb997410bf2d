// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/route.h"

#include "backends/opencl/steps/multiply.h"
#include "backends/opencl/steps/quantize_rows.h"
#include "backends/opencl/steps/schedule.h"

namespace ironcl::opencl {
namespace {

using backend::DType;
using backend::GemmDesc;

/// A as the caller gives it.
Operand given(const GemmDesc& d) {
  Operand a;
  a.data.source = Source::a;
  a.ld = d.lda;
  a.gathered = d.a_rows != 0;
  if (d.a_source != DType::none) {
    a.element = d.a_source;
    return a;
  }
  a.element = d.a;
  a.grid = d.a_scale.grid;
  if (d.a_scale.dtype != DType::none) {
    a.scales.source = Source::a_scale;
    a.scale = d.a_scale.dtype;
    a.scale_ld = d.a_scale.ld;
  }
  return a;
}

/// D as the caller takes it.
Operand wanted(const GemmDesc& desc) {
  Operand d;
  d.data.source = Source::d;
  d.element = desc.d;
  d.ld = desc.ldd;
  return d;
}

}  // namespace

Route route_of(const GemmDesc& desc, const Choice& choice, const Features& features) {
  Route route;
  PlanContext plan{features, desc, choice.problem, route.booking};
  const auto form = choice.variant->activations(choice.tuning, choice.problem);
  if (choice.problem.grouped()) {
    const ScheduleShape shape = choice.variant->schedule(choice.tuning);
    plan.scheduled_rows = shape.tile_rows;
    plan.scheduled = book_schedule(shape, plan);
    if (!form->schedules(plan)) route.steps.push_back(schedule_step(shape, plan));
  }
  Operand a = given(desc);
  const auto go = [&](StepResult made) {
    route.steps.push_back(std::move(made.step));
    a = made.result;
  };
  if (desc.a_source != DType::none) {
    // Tight codes and scales for a caller who asks to see them.
    route.steps.push_back(
        quantize_rows_step({desc.a_source, desc.a, desc.k, desc.lda, desc.k, desc.a_scale.grid, desc.a_quantizer},
                           features, a.data, {Source::a_codes, 0}, {Source::a_code_scales, 0}));
    if (form->takes_floats(a, plan)) {
      // Nothing between the caller's floats and the kernel.
    } else if (StepResult made = form->quantize(a, plan); made.step != nullptr) {
      go(std::move(made));
    } else {
      go(quantize_rows(a, desc.k, plan));
      go(form->pack(a, plan));
    }
  } else if (!form->takes(a, plan)) {
    go(form->pack(a, plan));
  }
  route.steps.push_back(multiply_step(*choice.variant, choice.tuning, a, wanted(desc), plan));
  return route;
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// The step that quantises floats to rows of codes with a grid of f32 scales: cl/quantize.cl.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// What is quantised, and how. Rows come with each call.
struct RowQuantizer {
  backend::DType source = backend::DType::none, code = backend::DType::none;
  std::int64_t k = 0;
  std::int64_t ld = 0;       ///< Of the source, in elements.
  std::int64_t code_ld = 0;  ///< Of the codes.
  numerics::ScaleGrid grid;
  numerics::Quantizer quantizer;
  std::int64_t fill = 0;      ///< Columns from k to here become zero codes; 0: to code_ld.
  std::int64_t scale_ld = 0;  ///< Of the scales; 0: tight.
};

/// Quantises what lies at `x` to codes at `codes`, with scales at `scales`. A call that does not bring the
/// memory of `codes` leaves the step out.
std::unique_ptr<Step> quantize_rows_step(const RowQuantizer& how, const Features& features, const Place& x,
                                         const Place& codes, const Place& scales);

/// Books codes and scales, rows `code_ld` elements apart.
StepResult quantize_rows(const Operand& x, std::int64_t code_ld, const PlanContext& plan);

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// What a plan costs: how much VMEM it occupies, by the published kernel's formula and truly (native tiles, as the
// engine allocates), and what a grid step takes on the MXU and the vector unit. All times are modelled; rates in
// machine.h.
#pragma once

#include "backends/ironwood/program.h"

namespace ironcl::ironwood {

struct VmemUse {
  std::vector<VmemPart> parts;
  std::int64_t footprint_bytes = 0;  ///< Sum of the parts.
  std::int64_t formula_bytes = 0;    ///< get_vmem_limit of the published kernel, before its clamp; of a
                                     ///< grouped problem gmm_v2's estimate.
};

VmemUse vmem_of(const Plan& plan);

/// Refuses a plan that passes its VMEM limit by its rule, with both numbers.
std::optional<Refusal> check_vmem(const Plan& plan);

/// Modelled work of a step of `plan` on `rows` rows of x. The pipeline's block shape is static, so that a ragged edge
/// costs as much as a full block; the manual kernel passes the rows there are.
/// quantizes: the step quantises its x (it does not find it kept). stores: it finishes its output block.
Work step_work(const Plan& plan, std::int64_t rows, bool quantizes, bool stores);

/// What the MXU multiplies two operands as: two of fp8 at the fp8 rate, two of int8 at the int8 rate where the TPU
/// has one, everything else as bf16.
numerics::DType mxu_type(const Machine& machine, numerics::DType left, numerics::DType right) noexcept;

/// MXU nanoseconds of one dot [rows, depth] x [cols, depth] transposed of those types: every mxu_size x mxu_size tile
/// of the right operand is pushed once and all rows stream through it, so a depth or a width under the array's size
/// wastes the rest of it.
double dot_ns(const Machine& machine, numerics::DType left, numerics::DType right, std::int64_t rows,
              std::int64_t cols, std::int64_t depth);

/// Rows that the MXU is given in a visit: the whole tile; of gmm_v2 and manual_dma those there are, rounded up to a
/// bucket and to a native tile.
std::int64_t rows_multiplied(const Plan& plan, const Visit& visit);

/// Nanoseconds of a whole run, without stepping through it: for supports(). Of a grouped problem with the load that
/// the plan assumes.
double estimate_ns(const Plan& plan, std::int64_t m);

}  // namespace ironcl::ironwood

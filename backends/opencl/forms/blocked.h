// SPDX-License-Identifier: Apache-2.0
// Weights in blocks of columns and runs of k: panels of 32 columns for the vector kernels, all columns at once for
// the tiled one.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// PANEL of cl/register_tile.cl: columns of packed weights whose codes of one k lie side by side.
constexpr std::int64_t kPanel = 32;

/// Columns in blocks of n_block (0: all columns are one block), then k in runs of k_run; inside a run the k of one
/// column are together. Code of (n, k):
/// (((n / n_block) * (k_pad / k_run) + k / k_run) * n_block + n % n_block) * k_run + k % k_run.
/// k is padded with zero codes to a multiple of k_unit.
/// Unquantised weights lie the same way, an element of `type` for each code; so do codes of four bits, two a byte,
/// the first in its lower half.
WeightFormPtr blocked_form(std::int64_t n_block, std::int64_t k_run, std::int64_t k_unit,
                           numerics::DType type = numerics::DType::none);

}  // namespace ironcl::opencl

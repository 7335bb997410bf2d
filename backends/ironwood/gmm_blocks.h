// SPDX-License-Identifier: Apache-2.0
// The tiles that the grouped kernels choose by themselves. Rules of tpu-inference's kernels/megablox: the default of
// gmm's tuned_block_sizes.py, and calculate_tiling of gmm_v2.py.
#pragma once

#include <cstdint>

#include "backends/ironwood/plan.h"

namespace ironcl::ironwood {

/// Rows that gmm_v2's dots come in: 128, halved for narrow weights, doubled for narrow x.
std::int64_t gmm_v2_bucket(const Plan& plan) noexcept;

/// Blocks for the grouped problem of a plan, all multiples of `quantum`.
///   gmm_v1  twice the mean rows of a matrix, rounded up to 128, at most 512 (and no more than there are); o and i up
///           to 2048, cut in equal parts.
///   gmm_v2  up to four buckets of rows; o and i whole, then o halved, thirded, ... down to twice the array's width,
///           then i, until the kernel's own estimate fits nine tenths of the VMEM limit.
KernelBlocks gmm_blocks(const Plan& plan, const KernelBlocks& quantum);

/// Bytes of VMEM by gmm_v2's own estimate: x and out twice, weights three times, their scales twice, the accumulator.
std::int64_t gmm_vmem_estimate(const Plan& plan, const KernelBlocks& blocks);

}  // namespace ironcl::ironwood

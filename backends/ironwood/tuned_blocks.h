// SPDX-License-Identifier: Apache-2.0
// The tuned table of kernel blocks: made by `ironcl model --search` (cl/tuned/ironwood.json), built in, looked up
// when a plan has no blocks of its own. A problem that is not in it gets aligned blocks, as in the published kernel.
#pragma once

#include <optional>

#include "backends/ironwood/plan.h"

namespace ironcl::ironwood {

/// The blocks for a problem on that TPU. The key is N, K, Q, the types of x and out, and whether x is quantised in
/// the kernel; of the batches in the table the smallest that is at least m, else the largest.
std::optional<KernelBlocks> tuned_blocks(const Problem& problem, const Tpu& tpu);

}  // namespace ironcl::ironwood

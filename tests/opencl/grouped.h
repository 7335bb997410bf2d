// SPDX-License-Identifier: Apache-2.0
// What the tests of problems with many matrices share. Next door: tests/products (a problem, its run, the verdict).
#pragma once

#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {

/// The case in the class of the variant that its options name, where they name one of this build.
Case allowed(Case c);

/// Runs on every device that takes the case and expects D to be right; returns how many ran.
int check_grouped(const Case& asked);

/// Runs the case twice by the variant that its options name first, and expects D to be right: `m` rows of all
/// matrices gathered from 17, then masked with room for `capacity` rows of each.
void expect_right_in_both_layouts(backend::Device& device, Case c, std::int64_t m, std::int64_t capacity);

/// How many devices have the local memory that gemm_panel takes at least: more than 32 KiB.
int devices_with_room_for_a_panel();

/// Options that name a variant and tiles that build quickly.
std::vector<backend::Options> grouped_variants();

}  // namespace ironcl::opencl::testing

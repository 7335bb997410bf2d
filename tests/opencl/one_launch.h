// SPDX-License-Identifier: Apache-2.0
// What is expected of a variant that quantises what it multiplies in one launch (cl/one_launch.cl): gemm_amx,
// gemm_bf16.
#pragma once

#include <string>

#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {

/// 70 x 200 x 640 whose activations come as bf16, with `cut`, the variant's tunables but for `floats`, which is 1, so
/// that its kernel quantises; or 0.
Case one_launch_of(const std::string& variant, const backend::Options& cut, const char* floats = "1");

/// Ways to cut D and k.
struct Cuts {
  std::vector<backend::Options> usual;  ///< Each beside the same with a step that quantises before.
  backend::Options narrow;              ///< For e5m2 from f32, groups of 64.
  backend::Options wide;                ///< For int8 from f16, with a bias.
};

/// Quantised by the kernel itself: right, and the bits that D has where a step before it quantises. Panels of several
/// runs of K groups, of one and what is left of another, of none; fewer blocks than cores, and more. Builds a program
/// or two for each cut, for which drivers take seconds.
void expect_one_launch_is_right(backend::Device& device, const std::string& variant, const Cuts& cuts);

/// Words in the workspace say who does what; what is there before a call is not taken for this call's, be it zeros,
/// ones or what the call before left.
void expect_calls_do_not_see_each_other(backend::Device& device, const Case& c);

}  // namespace ironcl::opencl::testing

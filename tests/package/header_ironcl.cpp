// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp alone.
#include <ironcl/ironcl.hpp>

ironcl::GemmDesc ironcl_hpp_alone();
ironcl::GemmDesc ironcl_hpp_alone() { return {.m = 1, .n = 1, .k = 1}; }

// SPDX-License-Identifier: Apache-2.0
// checkpoint.hpp alone.
#include <ironcl/checkpoint.hpp>

ironcl::LayerChoices checkpoint_hpp_alone();
ironcl::LayerChoices checkpoint_hpp_alone() { return {.m = 1}; }

// SPDX-License-Identifier: Apache-2.0
// The layers of experts of known models, at a tensor-parallel size. Next door: shapes.h (their single matrices).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/layer/experts_source.h"

namespace ironcl::tuning {

/// The names that experts_of takes.
std::vector<std::string> models_of_experts();

/// The layer of experts of a known model as one of `tp` devices holds it, its width divided; with `experts` above 0
/// only so many of them, where a whole layer does not fit. Blocks of 128 x 128, token groups of 128.
/// Throws std::invalid_argument listing the names, or saying what does not divide.
layer::ExpertsForm experts_of(std::string_view model, std::int64_t tp, std::int64_t experts = 0);

}  // namespace ironcl::tuning

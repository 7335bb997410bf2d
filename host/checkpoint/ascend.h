// SPDX-License-Identifier: Apache-2.0
// quant_model_description.json of Ascend's msModelSlim: for each tensor the type of its quantisation.
// Next door: writer_configs.h (what config.json of other tools says).
#pragma once

#include <filesystem>

#include "host/checkpoint/quantization_config.h"

namespace ironcl::checkpoint {

/// A group for each type that a weight has, with the layers of that type as its targets; types that are not read
/// refuse their layers by name. Source: msmodelslim's ascendv1.md; vllm-ascend's w8a8_static.py and w8a16.py.
/// Throws Error: io, format, config.
QuantizationConfig read_ascend(const std::filesystem::path& description);

}  // namespace ironcl::checkpoint

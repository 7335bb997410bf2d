// SPDX-License-Identifier: Apache-2.0
// quantization_config of tools that have a form of their own: modelopt, fbgemm, quark, MXFP8 of engines, and those
// that are not read. Next door: quantization_config.h (the two common forms), layer_writers.h (what a layer's file
// says).
#pragma once

#include "host/checkpoint/json_members.h"
#include "host/checkpoint/quantization_config.h"

namespace ironcl::checkpoint {

/// modelopt's quant_algo, where config_groups say nothing: what the algorithm's name means. Appends a group.
void read_modelopt_algorithm(const Members& config, QuantizationConfig& result);

/// fbgemm_fp8 (Meta's): per channel and per token, with an upper bound of the activations' amax. Appends a group.
void read_fbgemm(const Members& config, QuantizationConfig& result);

/// AMD quark: global_quant_config.{weight, input_tensors}. Appends a group.
void read_quark(const Members& config, QuantizationConfig& result);

/// A method without a reader: every layer is refused with what to do. Appends a group.
void refuse_method(QuantizationConfig& result);

}  // namespace ironcl::checkpoint

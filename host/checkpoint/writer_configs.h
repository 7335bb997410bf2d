// SPDX-License-Identifier: Apache-2.0
// quantization_config of tools that have a form of their own, and the words for those that are not read. Next door:
// quantization_config.h (the two common forms), layer_writers.h (what a layer's file says).
#pragma once

#include "host/checkpoint/json_input.h"
#include "host/checkpoint/quantization_config.h"

namespace ironcl::checkpoint {

/// compressed-tensors' config_groups, and modelopt's, which lack a strategy: there the shapes of the scales decide.
/// Appends a group for each.
void read_groups(const Members& config, QuantizationConfig& result);

/// modelopt's quant_algo, where config_groups say nothing: what the algorithm's name means. Appends a group.
void read_modelopt_algorithm(const Members& config, QuantizationConfig& result);

/// modelopt's MIXED_PRECISION, {quantized_layers: {name: {quant_algo}}}: a group for each algorithm, whose targets
/// are the names. False where it is not that.
bool read_quantized_layers(const Members& config, QuantizationConfig& result);

/// fbgemm_fp8 (Meta's): per channel and per token, with an upper bound of the activations' amax. Appends a group.
void read_fbgemm(const Members& config, QuantizationConfig& result);

/// AMD quark: global_quant_config.{weight, input_tensors}. Appends a group.
void read_quark(const Members& config, QuantizationConfig& result);

/// mxfp4 (gpt-oss, transformers): weights of e2m1 beside activations that stay as they come. Appends a group.
void read_mxfp4(const Members& config, QuantizationConfig& result);

/// Activations of four bits, which are not computed: they stay as they come, and their scales are not used.
void leave_activations(QuantizationGroup& group);

/// Per channel and per token: w8a8_int8, w8a8_fp8 (SGLang, vLLM), smooth_quant (LMDeploy, by its quant_dtype).
void read_per_channel(const Members& config, QuantizationConfig& result);

/// blockwise_int8 (SGLang): weight_block_size, and token groups as wide.
void read_block_int8(const Members& config, QuantizationConfig& result);

/// bitsandbytes: LLM.int8 as weight-only, which is what it comes to but for its rounding of x; four bits are refused.
void read_bitsandbytes(const Members& config, QuantizationConfig& result);

/// Mistral's params.json: quantization.{qformat_weight, qscheme_act}.
void read_mistral(const Members& config, QuantizationConfig& result);

/// Every layer is refused with `why`. Appends a group.
void refuse(QuantizationConfig& result, std::string why);

/// A method without a reader: every layer is refused with what it is and what to do. Appends a group.
void refuse_method(QuantizationConfig& result);

}  // namespace ironcl::checkpoint

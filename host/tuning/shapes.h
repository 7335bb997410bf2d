// SPDX-License-Identifier: Apache-2.0
// The linear layers and layers of experts of known models, at a tensor-parallel size: what there is to tune and to
// measure.
// Next door: host/layer/execution.h (running one of them).
#pragma once

#include "host/layer/experts_source.h"

namespace ironcl::tuning {

/// A weight [n, k] of a model as one of `tp` devices holds it.
struct LayerShape {
  std::string layer;  ///< "q_b_proj"; layers of one shape are listed once, their names joined by '+'.
  std::int64_t n = 0, k = 0;
};

/// What the shapes of a decoder depend on; the names are those of published config.json files. 0: absent.
struct ModelConfig {
  std::string name;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  // Mixture of experts.
  std::int64_t moe_intermediate_size = 0;
  bool has_dense_mlp = true;  ///< False where every layer's MLP is experts: intermediate_size is then unused.
  // Multi-head latent attention (DeepSeek): these replace head_dim and num_key_value_heads.
  std::int64_t q_lora_rank = 0;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
};

/// The names that known_model takes.
std::vector<std::string> known_models();

/// The configuration of a known model: "deepseek-v3", "qwen3-8b", "llama-3.1-70b", ... Throws std::invalid_argument
/// listing the names.
ModelConfig known_model(std::string_view name);

/// The configuration in a checkpoint's config.json. Throws checkpoint::Error naming the file and the missing field.
ModelConfig read_model_config(const std::filesystem::path& file);

/// The layers of a model split over `tp` devices: projections into heads and into the MLP split N, projections back
/// split K, low-rank projections are not split (as SGLang's and vLLM's tuners have them). Throws
/// std::invalid_argument where `tp` does not divide a dimension.
std::vector<LayerShape> layers_of(const ModelConfig& model, std::int64_t tp);

/// The names that experts_of takes.
std::vector<std::string> models_of_experts();

/// The layer of experts of a known model as one of `tp` devices holds it, its width divided; with `experts` above 0
/// only so many of them, where a whole layer does not fit. Blocks of 128 x 128, token groups of 128.
/// Throws std::invalid_argument listing the names, or saying what does not divide.
layer::ExpertsForm experts_of(std::string_view model, std::int64_t tp, std::int64_t experts = 0);

}  // namespace ironcl::tuning

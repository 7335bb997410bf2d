// SPDX-License-Identifier: Apache-2.0
// The layers of a model, from a table of published ones or a config.json.
#include "host/tuning/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <stdexcept>

#include "host/checkpoint/json_input.h"

namespace ironcl::tuning {
namespace {

// Sources: the models' published config.json files.
const std::array<ModelConfig, 12>& table() {
  static const std::array<ModelConfig, 12> models{{
      {.name = "deepseek-v3",
       .hidden_size = 7168,
       .intermediate_size = 18432,
       .num_attention_heads = 128,
       .moe_intermediate_size = 2048,
       .q_lora_rank = 1536,
       .kv_lora_rank = 512,
       .qk_nope_head_dim = 128,
       .qk_rope_head_dim = 64,
       .v_head_dim = 128},
      {.name = "qwen3-0.6b",
       .hidden_size = 1024,
       .intermediate_size = 3072,
       .num_attention_heads = 16,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "qwen3-1.7b",
       .hidden_size = 2048,
       .intermediate_size = 6144,
       .num_attention_heads = 16,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "qwen3-4b",
       .hidden_size = 2560,
       .intermediate_size = 9728,
       .num_attention_heads = 32,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "qwen3-8b",
       .hidden_size = 4096,
       .intermediate_size = 12288,
       .num_attention_heads = 32,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "qwen3-14b",
       .hidden_size = 5120,
       .intermediate_size = 17408,
       .num_attention_heads = 40,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "qwen3-32b",
       .hidden_size = 5120,
       .intermediate_size = 25600,
       .num_attention_heads = 64,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "qwen3-30b-a3b",
       .hidden_size = 2048,
       .num_attention_heads = 32,
       .num_key_value_heads = 4,
       .head_dim = 128,
       .moe_intermediate_size = 768},
      {.name = "qwen3-235b-a22b",
       .hidden_size = 4096,
       .num_attention_heads = 64,
       .num_key_value_heads = 4,
       .head_dim = 128,
       .moe_intermediate_size = 1536},
      {.name = "llama-3.1-8b",
       .hidden_size = 4096,
       .intermediate_size = 14336,
       .num_attention_heads = 32,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "llama-3.1-70b",
       .hidden_size = 8192,
       .intermediate_size = 28672,
       .num_attention_heads = 64,
       .num_key_value_heads = 8,
       .head_dim = 128},
      {.name = "llama-3.1-405b",
       .hidden_size = 16384,
       .intermediate_size = 53248,
       .num_attention_heads = 128,
       .num_key_value_heads = 8,
       .head_dim = 128},
  }};
  return models;
}

std::int64_t split(std::int64_t size, std::int64_t tp, const ModelConfig& model, const char* what) {
  if (tp < 1 || size % tp != 0)
    throw std::invalid_argument(model.name + ": " + what + " is " + std::to_string(size) +
                                ", which a tensor-parallel size of " + std::to_string(tp) + " does not divide");
  return size / tp;
}

void add(std::vector<LayerShape>& layers, const char* name, std::int64_t n, std::int64_t k) {
  if (n < 1 || k < 1 || std::max(n, k) > INT32_MAX)
    throw std::invalid_argument(fmt::format(
        "{} would be [{}, {}], expected sizes from 1 to {}; is the config.json whole?", name, n, k, INT32_MAX));
  const auto same =
      std::find_if(layers.begin(), layers.end(), [&](const LayerShape& l) { return l.n == n && l.k == k; });
  if (same != layers.end())
    same->layer += std::string("+") + name;
  else
    layers.push_back({name, n, k});
}

/// Whether some layer's MLP is dense, as a config.json says it: all of them without experts; the first ones
/// (DeepSeek, GLM), those listed, or all but every n-th one (Qwen). A config with experts that names none has none.
template <class Field>
bool has_dense_mlp(const boost::json::object& config, const Field& field) {
  const std::int64_t experts =
      std::max({field("num_experts"), field("n_routed_experts"), field("num_local_experts")});
  if (experts == 0) return true;
  const auto* listed = config.if_contains("mlp_only_layers");
  const bool some_listed = listed != nullptr && listed->is_array() && !listed->as_array().empty();
  return field("first_k_dense_replace") > 0 || some_listed || field("decoder_sparse_step") > 1 ||
         field("moe_layer_freq") > 1 || field("interleave_moe_layer_step") > 1;
}

}  // namespace

std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (const ModelConfig& model : table()) names.push_back(model.name);
  return names;
}

ModelConfig known_model(std::string_view name) {
  for (const ModelConfig& model : table())
    if (model.name == name) return model;
  throw std::invalid_argument(fmt::format("there is no model '{}'; known are {}, or name a config.json", name,
                                          fmt::join(known_models(), ", ")));
}

ModelConfig read_model_config(const std::filesystem::path& file) {
  constexpr std::int64_t kLargest = 1 << 30;  // so that no sum of three products of two of them overflows
  const boost::json::value value = checkpoint::read_json(file);
  if (!value.is_object()) throw std::runtime_error(file.string() + ": is not a JSON object");
  const auto* text_config = value.as_object().if_contains("text_config");  // of a multi-modal model
  const boost::json::object& object =
      text_config != nullptr && text_config->is_object() ? text_config->as_object() : value.as_object();
  const auto field = [&](const char* name) -> std::int64_t {
    const boost::json::value* found = object.if_contains(name);
    if (found == nullptr || found->is_null()) return 0;
    if (!found->is_int64() || found->as_int64() < 0 || found->as_int64() > kLargest)
      throw std::runtime_error(fmt::format("{}: '{}' is {}, expected a size of at most {}", file.string(), name,
                                           boost::json::serialize(*found), kLargest));
    return found->as_int64();
  };
  ModelConfig model;
  model.name = file.string();
  model.hidden_size = field("hidden_size");
  model.intermediate_size = field("intermediate_size");
  model.num_attention_heads = field("num_attention_heads");
  model.num_key_value_heads = field("num_key_value_heads");
  model.head_dim = field("head_dim");
  model.moe_intermediate_size = field("moe_intermediate_size");
  model.has_dense_mlp = has_dense_mlp(object, field);
  // Mixtral and its kin have one size for both.
  const bool experts_of_intermediate = model.moe_intermediate_size == 0 && !model.has_dense_mlp;
  if (experts_of_intermediate) model.moe_intermediate_size = model.intermediate_size;
  model.q_lora_rank = field("q_lora_rank");
  model.kv_lora_rank = field("kv_lora_rank");
  model.qk_nope_head_dim = field("qk_nope_head_dim");
  model.qk_rope_head_dim = field("qk_rope_head_dim");
  model.v_head_dim = field("v_head_dim");
  if (model.hidden_size == 0) throw std::runtime_error(file.string() + ": 'hidden_size' is missing");
  if (model.num_attention_heads == 0) throw std::runtime_error(file.string() + ": 'num_attention_heads' is missing");
  if (model.num_key_value_heads == 0) model.num_key_value_heads = model.num_attention_heads;
  if (model.head_dim == 0) model.head_dim = model.hidden_size / model.num_attention_heads;
  return model;
}

std::vector<LayerShape> layers_of(const ModelConfig& model, std::int64_t tp) {
  std::vector<LayerShape> layers;
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t heads = split(model.num_attention_heads, tp, model, "num_attention_heads");
  if (model.kv_lora_rank != 0) {
    const std::int64_t q_head = model.qk_nope_head_dim + model.qk_rope_head_dim;
    const std::int64_t kv_a = model.kv_lora_rank + model.qk_rope_head_dim;
    if (model.q_lora_rank != 0) {
      add(layers, "q_a_proj", model.q_lora_rank, hidden);
      add(layers, "kv_a_proj_with_mqa", kv_a, hidden);
      add(layers, "fused_qkv_a_proj", model.q_lora_rank + kv_a, hidden);
      add(layers, "q_b_proj", heads * q_head, model.q_lora_rank);
    } else {
      add(layers, "q_proj", heads * q_head, hidden);
      add(layers, "kv_a_proj_with_mqa", kv_a, hidden);
    }
    add(layers, "kv_b_proj", heads * (model.qk_nope_head_dim + model.v_head_dim), model.kv_lora_rank);
    add(layers, "o_proj", hidden, heads * model.v_head_dim);
  } else {
    // Fewer key-value heads than devices: each device holds a copy of one.
    const std::int64_t kv_heads = std::max<std::int64_t>(model.num_key_value_heads / tp, 1);
    add(layers, "qkv_proj", (heads + 2 * kv_heads) * model.head_dim, hidden);
    add(layers, "o_proj", hidden, heads * model.head_dim);
  }
  if (model.intermediate_size != 0 && model.has_dense_mlp) {
    const std::int64_t inter = split(model.intermediate_size, tp, model, "intermediate_size");
    add(layers, "gate_up_proj", 2 * inter, hidden);
    add(layers, "down_proj", hidden, inter);
  }
  if (model.moe_intermediate_size != 0) {
    const std::int64_t inter = split(model.moe_intermediate_size, tp, model, "moe_intermediate_size");
    add(layers, "expert_gate_up_proj", 2 * inter, hidden);
    add(layers, "expert_down_proj", hidden, inter);
  }
  return layers;
}

}  // namespace ironcl::tuning

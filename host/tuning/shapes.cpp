// SPDX-License-Identifier: Apache-2.0
// The layers of a model, from tables of published ones or a config.json.
#include "host/tuning/shapes.h"

#include "backends/words.h"
#include "host/checkpoint/json_input.h"

namespace ironcl::tuning {
namespace {

using checkpoint::Error;
using checkpoint::ErrorKind;

// Sources: the models' published config.json files.

/// A decoder with grouped-query attention, heads of 128, and a dense MLP or experts.
ModelConfig decoder(const char* name, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t intermediate, std::int64_t moe_intermediate = 0) {
  return {.name = name,
          .hidden_size = hidden,
          .intermediate_size = intermediate,
          .num_attention_heads = heads,
          .num_key_value_heads = kv_heads,
          .head_dim = 128,
          .moe_intermediate_size = moe_intermediate};
}

const std::vector<ModelConfig>& table() {
  static const std::vector<ModelConfig> models = {
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
      decoder("qwen3-0.6b", 1024, 16, 8, 3072),
      decoder("qwen3-1.7b", 2048, 16, 8, 6144),
      decoder("qwen3-4b", 2560, 32, 8, 9728),
      decoder("qwen3-8b", 4096, 32, 8, 12288),
      decoder("qwen3-14b", 5120, 40, 8, 17408),
      decoder("qwen3-32b", 5120, 64, 8, 25600),
      decoder("qwen3-30b-a3b", 2048, 32, 4, 0, 768),
      decoder("qwen3-235b-a22b", 4096, 64, 4, 0, 1536),
      decoder("llama-3.1-8b", 4096, 32, 8, 14336),
      decoder("llama-3.1-70b", 8192, 64, 8, 28672),
      decoder("llama-3.1-405b", 16384, 128, 8, 53248),
  };
  return models;
}

using numerics::Score;

/// A layer of experts. Weights are e4m3 in blocks of 128 x 128 without biases, whatever a model is published in
/// (gpt-oss: MXFP4).
struct ExpertsModel {
  std::string_view name;
  std::int64_t hidden, width, shared;
  bool gated;                 ///< The shared expert.
  numerics::Routing routing;  ///< Whose router has a correction bias chooses groups by their two best.
};

constexpr std::array kExpertsModels = {
    ExpertsModel{"deepseek-v3", 7168, 2048, 2048, false, {256, 8, Score::sigmoid, 8, 4, 2.5f, true, true}},
    ExpertsModel{"qwen3-30b-a3b", 2048, 768, 0, false, {128, 8, Score::softmax, 1, 1, 1, true}},
    ExpertsModel{"qwen3-235b-a22b", 4096, 1536, 0, false, {128, 8, Score::softmax, 1, 1, 1, true}},
    ExpertsModel{"qwen3-next-80b-a3b", 2048, 512, 512, true, {512, 10, Score::softmax, 1, 1, 1, true}},
    ExpertsModel{"minimax-m2", 3072, 1536, 0, false, {256, 8, Score::sigmoid, 1, 1, 1, true, true}},
    ExpertsModel{"mixtral-8x7b", 4096, 14336, 0, false, {8, 2, Score::softmax, 1, 1, 1, true}},
    ExpertsModel{"qwen3.8-flash-next", 2560, 640, 0, false, {512, 10, Score::softmax, 1, 1, 1, true}},
    ExpertsModel{"gpt-oss-120b", 2880, 2880, 0, false, {128, 4, Score::softmax, 1, 1, 1, true}},
    ExpertsModel{"gpt-oss-20b", 2880, 2880, 0, false, {32, 4, Score::softmax, 1, 1, 1, true}},
};

std::int64_t split(std::int64_t size, std::int64_t tp, std::string_view model, const char* what) {
  if (tp < 1 || size % tp != 0)
    throw std::invalid_argument(
        fmt::format("{}: {} is {}, which a tensor-parallel size of {} does not divide", model, what, size, tp));
  return size / tp;
}

void add(std::vector<LayerShape>& layers, const char* name, std::int64_t n, std::int64_t k) {
  if (n < 1 || k < 1 || std::max(n, k) > INT32_MAX)
    throw std::invalid_argument(fmt::format(
        "{} would be [{}, {}], expected sizes from 1 to {}; is the config.json whole?", name, n, k, INT32_MAX));
  const auto same = std::ranges::find_if(layers, [&](const LayerShape& l) { return l.n == n && l.k == k; });
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

std::vector<std::string> known_models() { return words::each(table(), &ModelConfig::name); }

ModelConfig known_model(std::string_view name) {
  for (const ModelConfig& model : table())
    if (model.name == name) return model;
  throw std::invalid_argument(fmt::format("there is no model '{}'; known are {}, or name a config.json", name,
                                          fmt::join(known_models(), ", ")));
}

ModelConfig read_model_config(const std::filesystem::path& file) {
  constexpr std::int64_t kLargest = 1 << 30;  // so that no sum of three products of two of them overflows
  const boost::json::object whole = checkpoint::read_object(file);
  const auto* text_config = whole.if_contains("text_config");  // of a multi-modal model
  const boost::json::object& object =
      text_config != nullptr && text_config->is_object() ? text_config->as_object() : whole;
  const auto field = [&](const char* name) -> std::int64_t {
    const boost::json::value* found = object.if_contains(name);
    if (found == nullptr || found->is_null()) return 0;
    if (!found->is_int64() || found->as_int64() < 0 || found->as_int64() > kLargest)
      throw Error(ErrorKind::config, file, "", "'{}' is {}, expected a size of at most {}", name,
                  boost::json::serialize(*found), kLargest);
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
  if (model.hidden_size == 0) throw Error(ErrorKind::config, file, "", "'hidden_size' is missing");
  if (model.num_attention_heads == 0) throw Error(ErrorKind::config, file, "", "'num_attention_heads' is missing");
  if (model.num_key_value_heads == 0) model.num_key_value_heads = model.num_attention_heads;
  if (model.head_dim == 0) model.head_dim = model.hidden_size / model.num_attention_heads;
  return model;
}

std::vector<LayerShape> layers_of(const ModelConfig& model, std::int64_t tp) {
  std::vector<LayerShape> layers;
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t heads = split(model.num_attention_heads, tp, model.name, "num_attention_heads");
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
    const std::int64_t inter = split(model.intermediate_size, tp, model.name, "intermediate_size");
    add(layers, "gate_up_proj", 2 * inter, hidden);
    add(layers, "down_proj", hidden, inter);
  }
  if (model.moe_intermediate_size != 0) {
    const std::int64_t inter = split(model.moe_intermediate_size, tp, model.name, "moe_intermediate_size");
    add(layers, "expert_gate_up_proj", 2 * inter, hidden);
    add(layers, "expert_down_proj", hidden, inter);
  }
  return layers;
}

std::vector<std::string> models_of_experts() {
  return words::each(kExpertsModels, [](const ExpertsModel& model) { return std::string(model.name); });
}

layer::ExpertsForm experts_of(std::string_view name, std::int64_t tp, std::int64_t experts) {
  for (const ExpertsModel& model : kExpertsModels) {
    if (model.name != name) continue;
    layer::ExpertsForm form;
    form.name = model.name;
    form.hidden = model.hidden;
    form.routing = model.routing;
    if (experts > 0) form.routing.experts = experts;
    const numerics::Routing& routing = form.routing;
    if (routing.experts < routing.top_k || routing.experts % routing.expert_groups != 0 ||
        routing.experts / routing.expert_groups * routing.top_groups < routing.top_k)
      throw std::invalid_argument(fmt::format("{}: {} experts; {} per token are chosen in {} groups", name, experts,
                                              routing.top_k, routing.expert_groups));
    form.correction_bias = routing.best_of_two;
    form.shared_gate = model.gated;
    const layer::MatrixForm matrix{numerics::DType::e4m3fn, {numerics::DType::f32, {128, 128}}};
    form.experts = {form.routing.experts, split(model.width, tp, name, "the width of an expert"), matrix, matrix,
                    false};
    if (model.shared != 0)
      form.shared =
          layer::GatedForm{1, split(model.shared, tp, name, "the width of the shared expert"), matrix, matrix, false};
    form.x = form.between = {numerics::DType::e4m3fn, {1, 128}, {}};
    return form;
  }
  throw std::invalid_argument(
      fmt::format("there is no model of experts '{}'; known are {}", name, fmt::join(models_of_experts(), ", ")));
}

}  // namespace ironcl::tuning

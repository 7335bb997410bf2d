// SPDX-License-Identifier: Apache-2.0
// How tokens choose their experts, by model type. Sources: transformers 5.23, configuration_*.py (the defaults),
// modeling_*.py (the arithmetic) and conversion_mapping.py (what is transposed on disk) of each type; DeepSeek-V3,
// inference/model.py; vLLM, models/llama4.py and models/gpt_oss.py.
#include "host/checkpoint/routing.h"

#include <limits>

#include "host/checkpoint/json_input.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

/// Whether the weights of a token are normalised: always, or as norm_topk_prob says, with its default.
enum class Normalize { always, flag_off, flag_on, refused };

struct Family {
  std::string_view model_type;
  RouterScore score;
  Normalize normalize;
  bool bias;    ///< e_score_correction_bias
  bool groups;  ///< Has n_group and topk_group.
  std::int64_t n_group, topk_group;
  double scale;  ///< Default of routed_scaling_factor; 0: the type has none.
  StackedForm stacked;
  std::string_view unsupported{};
  bool shared_gate = false;  ///< Its shared expert has a gate of its own.
};

constexpr auto kRows = StackedForm::rows_first;
constexpr auto kTransposed = StackedForm::transposed;
constexpr auto kSoftmax = RouterScore::softmax;
constexpr auto kSigmoid = RouterScore::sigmoid;

constexpr std::string_view kLlama4 =
    "multiplies the input of an expert by its weight, before it is quantised, which is not computed here";

constexpr std::string_view kDeepSeek4 =
    "scores experts by sqrt(softplus), and its first layers choose them by a hash of token ids, which is not "
    "computed here";

constexpr std::array kFamilies = {
    Family{"deepseek_v2", kSoftmax, Normalize::refused, false, true, 0, 0, 1, kRows},
    Family{"deepseek_v3", kSigmoid, Normalize::flag_on, true, true, 8, 4, 2.5, kRows},
    Family{"deepseek_v32", kSigmoid, Normalize::flag_on, true, true, 8, 4, 2.5, kRows},
    Family{"deepseek_v4", kSigmoid, Normalize::flag_on, true, false, 1, 1, 1.5, kRows, kDeepSeek4},
    Family{"kimi_k2", kSigmoid, Normalize::flag_on, true, true, 8, 4, 2.5, kRows},
    Family{"glm4_moe", kSigmoid, Normalize::flag_on, true, true, 1, 1, 1, kRows},
    Family{"dots1", kSigmoid, Normalize::flag_off, true, true, 1, 1, 1, kRows},
    Family{"minimax_m2", kSigmoid, Normalize::always, true, false, 1, 1, 0, kRows},
    Family{"qwen2_moe", kSoftmax, Normalize::flag_off, false, false, 1, 1, 0, kRows, {}, true},
    Family{"qwen3_moe", kSoftmax, Normalize::flag_off, false, false, 1, 1, 0, kRows},
    Family{"qwen3_next", kSoftmax, Normalize::flag_on, false, false, 1, 1, 0, kRows, {}, true},
    Family{"qwen3_5_moe", kSoftmax, Normalize::always, false, false, 1, 1, 0, kRows, {}, true},
    Family{"qwen3_5_moe_text", kSoftmax, Normalize::always, false, false, 1, 1, 0, kRows, {}, true},
    Family{"qwen3_vl_moe", kSoftmax, Normalize::always, false, false, 1, 1, 0, kTransposed},
    Family{"qwen3_vl_moe_text", kSoftmax, Normalize::always, false, false, 1, 1, 0, kTransposed},
    Family{"mixtral", kSoftmax, Normalize::always, false, false, 1, 1, 0, kRows},
    Family{"llama4", kSigmoid, Normalize::always, false, false, 1, 1, 0, kTransposed, kLlama4},
    Family{"llama4_text", kSigmoid, Normalize::always, false, false, 1, 1, 0, kTransposed, kLlama4},
    Family{"gpt_oss", kSoftmax, Normalize::always, false, false, 1, 1, 0, kTransposed},
};

std::string known_types() {
  std::vector<std::string_view> all;
  for (const Family& family : kFamilies)
    if (family.unsupported.empty()) all.push_back(family.model_type);
  return fmt::format("{}", fmt::join(all, ", "));
}

/// The first of these members that is there.
std::optional<std::int64_t> first_size(const Members& config, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto size = config.size(name)) return size;
  return std::nullopt;
}

/// Whether one of these members is a number above 0.
bool any_above_zero(const Members& config, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&config](std::string_view name) {
    const json::value* value = config.find(name);
    return value != nullptr && value->is_int64() && value->get_int64() > 0;
  });
}

/// The member that says a function by name, where it is there, must say `expected`.
void expect_text(const Members& config, std::string_view member, std::initializer_list<std::string_view> expected,
                 Routing& routing) {
  const auto text = config.text(member);
  if (!text || std::ranges::find(expected, *text) != expected.end()) return;
  if (routing.unsupported.empty())
    routing.unsupported = fmt::format("{} is '{}', and '{}' is what model_type {} is computed with", member, *text,
                                      *expected.begin(), routing.model_type);
}

void read_groups(const Members& config, const Family& family, Routing& routing) {
  routing.expert_groups = config.size("n_group").value_or(std::max<std::int64_t>(family.n_group, 1));
  routing.top_groups = config.size("topk_group").value_or(std::max<std::int64_t>(family.topk_group, 1));
  if (family.model_type == "deepseek_v2") {
    // Only this type chooses between ways; "greedy" looks at all experts.
    const std::string method = config.text("topk_method").value_or("greedy");
    if (method == "greedy") routing.expert_groups = routing.top_groups = 1;
    expect_text(config, "topk_method", {"greedy", "group_limited_greedy"}, routing);
  } else {
    expect_text(config, "topk_method", {"noaux_tc"}, routing);
  }
  if (routing.experts % routing.expert_groups != 0)
    config.fail("n_group", "is {}, which does not divide the {} experts", routing.expert_groups, routing.experts);
  if (routing.top_groups > routing.expert_groups)
    config.fail("topk_group", "is {}, more than the {} groups", routing.top_groups, routing.expert_groups);
  const std::int64_t left = routing.experts / routing.expert_groups * routing.top_groups;
  if (routing.top_k > left)
    config.fail("num_experts_per_tok", "is {}, more than the {} experts of {} groups", routing.top_k, left,
                routing.top_groups);
}

Routing read_family(const Members& config, const Family& family, std::int64_t experts) {
  Routing routing;
  routing.model_type = family.model_type;
  if (!family.unsupported.empty())
    routing.unsupported = fmt::format("model_type {} {}", family.model_type, family.unsupported);
  routing.stacked = family.stacked;
  routing.experts = experts;
  routing.score = family.score;
  routing.has_correction_bias = routing.best_of_two = family.bias;
  routing.has_shared_gate = family.shared_gate;
  routing.has_shared_expert =
      any_above_zero(config, {"n_shared_experts", "shared_expert_intermediate_size", "shared_intermediate_size"});
  const auto top_k = first_size(config, {"num_experts_per_tok", "experts_per_token", "moe_k"});
  if (!top_k) config.fail("num_experts_per_tok", "is missing: it says how many experts a token gets");
  routing.top_k = *top_k;
  if (routing.top_k > experts)
    config.fail("num_experts_per_tok", "is {}, more than the {} experts", routing.top_k, experts);
  const auto flag = config.flag("norm_topk_prob");
  if (family.normalize != Normalize::refused)
    routing.normalize =
        family.normalize == Normalize::always || flag.value_or(family.normalize == Normalize::flag_on);
  else if (flag.value_or(false) && routing.unsupported.empty())
    routing.unsupported = fmt::format(
        "norm_topk_prob is true, which transformers and DeepSeek's own code compute differently for model_type {}",
        family.model_type);
  const double scale = family.scale == 0 ? 1 : config.number("routed_scaling_factor").value_or(family.scale);
  // Devices take it in f32, where 0 would mean that there is none.
  if (!(scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max()))
    config.fail("routed_scaling_factor", "is {}, expected a number above 0 that f32 holds", scale);
  routing.scale = static_cast<float>(scale);
  expect_text(config, "scoring_func", {name_of(family.score)}, routing);
  expect_text(config, "hidden_act", {"silu", "swish"}, routing);
  if (family.groups) read_groups(config, family, routing);
  if (family.model_type == "gpt_oss") {
    routing.interleaved = routing.biases = routing.clamped_swiglu = true;
    routing.activation_limit = config.number("swiglu_limit").value_or(7);
    if (!(routing.activation_limit > 0 && routing.activation_limit <= std::numeric_limits<float>::max()))
      config.fail("swiglu_limit", "is {}, expected a limit above 0", routing.activation_limit);
  }
  return routing;
}

}  // namespace

std::string_view name_of(RouterScore score) noexcept { return score == RouterScore::sigmoid ? "sigmoid" : "softmax"; }

std::optional<Routing> read_routing(const std::filesystem::path& config_json) {
  const json::object root = read_object(config_json);
  Members config(root, config_json, "config");
  const std::string outer = config.text("model_type").value_or("");
  if (const auto text = config.object("text_config")) config = *text;
  const auto experts =
      first_size(config, {"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"});
  if (!experts) return std::nullopt;
  const std::string type = config.text("model_type").value_or(outer);
  const auto family = std::ranges::find(kFamilies, type, &Family::model_type);
  if (family != kFamilies.end()) return read_family(config, *family, *experts);
  Routing unknown;
  unknown.model_type = type;
  unknown.experts = *experts;
  unknown.unsupported =
      fmt::format("model_type is '{}', whose routing of tokens is unknown; known are {}", type, known_types());
  return unknown;
}

}  // namespace ironcl::checkpoint

// SPDX-License-Identifier: Apache-2.0
// The layers of experts of known models. Sources: the models' published config.json files. Sizes are the models',
// weights are e4m3 in blocks of 128 x 128 without biases, whatever a model is published in (gpt-oss: MXFP4).
#include "host/tuning/expert_models.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace ironcl::tuning {
namespace {

using numerics::Score;

struct Model {
  std::string_view name;
  std::int64_t experts, top_k, hidden, width, shared;
  Score score;
  bool bias;
  std::int64_t groups, top_groups;
  float scale;
  bool gated;  ///< The shared expert.
};

constexpr std::array kModels = {
    Model{"deepseek-v3", 256, 8, 7168, 2048, 2048, Score::sigmoid, true, 8, 4, 2.5f, false},
    Model{"qwen3-30b-a3b", 128, 8, 2048, 768, 0, Score::softmax, false, 1, 1, 1, false},
    Model{"qwen3-235b-a22b", 128, 8, 4096, 1536, 0, Score::softmax, false, 1, 1, 1, false},
    Model{"qwen3-next-80b-a3b", 512, 10, 2048, 512, 512, Score::softmax, false, 1, 1, 1, true},
    Model{"minimax-m2", 256, 8, 3072, 1536, 0, Score::sigmoid, true, 1, 1, 1, false},
    Model{"mixtral-8x7b", 8, 2, 4096, 14336, 0, Score::softmax, false, 1, 1, 1, false},
    Model{"qwen3.8-flash-next", 512, 10, 2560, 640, 0, Score::softmax, false, 1, 1, 1, false},
    Model{"gpt-oss-120b", 128, 4, 2880, 2880, 0, Score::softmax, false, 1, 1, 1, false},
    Model{"gpt-oss-20b", 32, 4, 2880, 2880, 0, Score::softmax, false, 1, 1, 1, false},
};

std::int64_t split(std::int64_t width, std::int64_t tp, std::string_view model) {
  if (tp < 1 || width % tp != 0)
    throw std::invalid_argument(std::string(model) + ": a width of " + std::to_string(width) +
                                ", which a tensor-parallel size of " + std::to_string(tp) + " does not divide");
  return width / tp;
}

}  // namespace

std::vector<std::string> models_of_experts() {
  std::vector<std::string> names;
  names.reserve(std::size(kModels));
  for (const Model& model : kModels) names.emplace_back(model.name);
  return names;
}

layer::ExpertsForm experts_of(std::string_view name, std::int64_t tp, std::int64_t experts) {
  for (const Model& model : kModels) {
    if (model.name != name) continue;
    layer::ExpertsForm form;
    form.name = model.name;
    form.hidden = model.hidden;
    form.routing = {.experts = experts > 0 ? experts : model.experts,
                    .top_k = model.top_k,
                    .score = model.score,
                    .expert_groups = model.groups,
                    .top_groups = model.top_groups,
                    .scale = model.scale,
                    .normalize = true,
                    .best_of_two = model.bias};
    if (form.routing.experts < model.top_k || form.routing.experts % model.groups != 0 ||
        form.routing.experts / model.groups * model.top_groups < model.top_k)
      throw std::invalid_argument(std::string(name) + ": " + std::to_string(experts) + " experts; " +
                                  std::to_string(model.top_k) + " a token are chosen in " +
                                  std::to_string(model.groups) + " groups");
    form.correction_bias = model.bias;
    form.shared_gate = model.gated;
    const layer::MatrixForm matrix{numerics::DType::e4m3fn, {numerics::DType::f32, {128, 128}}};
    form.experts = {form.routing.experts, split(model.width, tp, name), matrix, matrix, false};
    if (model.shared != 0) form.shared = layer::GatedForm{1, split(model.shared, tp, name), matrix, matrix, false};
    form.x = form.between = {numerics::DType::e4m3fn, {1, 128}, {}};
    return form;
  }
  throw std::invalid_argument("there is no model of experts '" + std::string(name) + "'; known are " +
                              fmt::format("{}", fmt::join(models_of_experts(), ", ")));
}

}  // namespace ironcl::tuning

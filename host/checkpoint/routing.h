// SPDX-License-Identifier: Apache-2.0
// What config.json says about a mixture of experts: how tokens choose their experts, and how stacked experts lie in
// their tensors. Next door: model.h (the layers themselves), quantization_config.h.
#pragma once

#include <filesystem>
#include <string>

#include "backends/numerics/experts.h"

namespace ironcl::checkpoint {

using RouterScore = numerics::Score;

/// "softmax", "sigmoid".
std::string_view name_of(RouterScore score) noexcept;

/// How experts of one tensor lie in it.
enum class StackedForm {
  unknown,     ///< The model type is not known, or there is none: the shapes of both projections must say it.
  rows_first,  ///< [E, N, K]: as nn.Linear has them.
  transposed,  ///< [E, K, N].
};

/// The routing of every layer of experts of a model.
struct Routing : numerics::Routing {
  std::string model_type;            ///< "deepseek_v3"; empty where config.json has none.
  bool has_correction_bias = false;  ///< The model type has an e_score_correction_bias, added for choosing only.
  bool has_shared_expert = false;    ///< config.json says that there is one, by its size or their number.
  bool has_shared_gate = false;      ///< The model type scales its shared expert by the sigmoid of a gate.
  bool interleaved = false;          ///< Even rows of gate_up_proj are the gate's, odd ones up's.
  bool biases = false;               ///< The model type has biases of its router and of all experts' matrices.
  bool clamped_swiglu = false;       ///< gate sigmoid(1.702 gate) (up + 1), both clamped to activation_limit.
  double activation_limit = 0;       ///< 0: nothing is clamped.
  StackedForm stacked = StackedForm::unknown;
  std::string unsupported;  ///< Why no layer of this model can be run as a whole; empty where it can.
};

/// Reads a config.json; of a multi-modal model its text_config. What it leaves out has the default of transformers. A
/// model without experts gives nothing. Throws Error: io, format, config (a member of the wrong type or out of
/// range).
std::optional<Routing> read_routing(const std::filesystem::path& config_json);

}  // namespace ironcl::checkpoint

// SPDX-License-Identifier: Apache-2.0
// What config.json and the files like it say about quantisation, in one form for all tools. Next door:
// layer_writers.h (what a layer's file says).
#pragma once

#include <array>

#include "backends/numerics/quantize.h"
#include "backends/numerics/scale_grid.h"
#include "host/checkpoint/error.h"
#include "host/checkpoint/names.h"

namespace ironcl::checkpoint {

using numerics::ScaleGrid;
using numerics::ScaleRounding;

/// How a layer's activations are quantised. The values are those of IRONCL_ACTIVATIONS_*.
enum class ActivationScheme {
  none,     ///< Not at all: weight-only.
  dynamic,  ///< Scales computed from the activations, on the fly.
  fixed,    ///< "static": a scale in the checkpoint (`<layer>.input_scale`).
};

/// "none", "dynamic", "static".
std::string_view name_of(ActivationScheme scheme) noexcept;

/// One way of quantising.
struct QuantizationScheme {
  std::optional<ScaleGrid> weight_grid{};             ///< Empty: the config does not say; the shapes decide.
  std::optional<numerics::DType> weight_dtype{};      ///< i8, e2m1, or e4m3fn for either fp8; empty: not said.
  std::optional<ActivationScheme> activations{};      ///< Empty: not said; a static scale in the file decides.
  std::optional<ScaleGrid> activation_grid{};         ///< Scale grid of A [M, K]; empty: not stated.
  std::optional<numerics::DType> activation_dtype{};  ///< Type of A's codes; empty: not stated.
  ScaleRounding activation_rounding = ScaleRounding::exact;
  std::optional<double> activation_limit{};  ///< The scheme clips amax to this value (fbgemm's activation_scale_ub).
  bool input_scale_unused = false;           ///< A static scale in the file means nothing (quanto's 1, W8A8_MIX).
  bool leaves_activations = false;           ///< Activations of e2m1, which is not computed: they stay as they come.
  bool static_int8 = false;                  ///< msModelSlim's W8A8: deq_scale and quant_bias in place of a scale.
  bool asymmetric = false;                   ///< Weights have zero points, which must be there.
  bool offsets = false;                      ///< msModelSlim: weight_offset and input_offset are expected.
  bool cast = false;                         ///< Only cast to fp8: the scale is 1 and stands nowhere.
};

/// A way of quantising the modules that `targets` names.
struct QuantizationGroup : QuantizationScheme {
  ModuleNames targets{};      ///< "Linear" (every linear layer), names, or "re:" and an expression.
  std::string writer{};       ///< "torchao", "quanto", "comfy_quant"; empty: the config's.
  std::string unsupported{};  ///< The part of this group that IronCL does not read; empty: none.

  /// Activations of four bits, which are not computed: they stay as they come, and their scales are not used.
  void leave_activations();
};

struct QuantizationConfig {
  std::string writer;  ///< Tool, with its version where the config has it: "compressed-tensors 0.19.0"; may be empty.
  std::string method;  ///< "fp8", "compressed-tensors", ...; empty: no quantization_config.
  std::filesystem::path file;             ///< The file that declares the method; empty: none.
  std::vector<QuantizationGroup> groups;  ///< In the config's order; none where a layer's own file says how.
  bool mixed = false;                     ///< modelopt's MIXED_PRECISION whose layers hf_quant_config.json lists.
  ModuleNames ignored;                    ///< Modules that stay unquantised.
  std::string ignored_member;             ///< The config's word for them: "modules_to_not_convert", "ignore", ...

  /// The first group that has `layer` itself among its targets, else the first whose targets name it otherwise, else
  /// the first for "Linear"; nullptr where there is none.
  const QuantizationGroup* group_of(std::string_view layer) const;
  /// Every layer is refused with `why`. Appends a group.
  void refuse(std::string why);
};

class Members;
/// compressed-tensors' config_groups, and modelopt's, which lack a strategy: there the shapes of the scales decide.
/// Appends a group for each.
void read_groups(const Members& config, QuantizationConfig& result);

/// The block of "128" (square), "128x256" or "128,256"; empty where the text is none of them.
std::optional<ScaleGrid> parse_block(std::string_view text);

/// The files of a folder that may say how it is quantised; the first that says something is right.
inline constexpr std::array<std::string_view, 6> kQuantizationConfigs = {
    "quant_model_description.json",  // Ascend's msModelSlim: for each tensor the type of its quantisation.
    "config.json",                   // Its quantization_config or compression_config, or that of its text_config.
    "hf_quant_config.json",          // modelopt's, of older versions.
    "params.json",                   // Mistral's.
    "quantization_config.json",      // diffusers: a quantization_config by itself.
    "quantize_config.json",          // GPTQ: likewise.
};

/// Reads one of those, whose name tells which. One that says nothing of it gives method "".
/// Throws Error: io, format (not JSON), config (a member of the wrong type or with a value out of range).
QuantizationConfig read_quantization_config(const std::filesystem::path& file);

}  // namespace ironcl::checkpoint

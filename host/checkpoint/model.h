// SPDX-License-Identifier: Apache-2.0
// The linear layers of a checkpoint: a folder as published models are, or one safetensors file.
// Next door: safetensors.h (the files), quantization_config.h (what config.json says), matrix.h (inputs, outputs).
#pragma once

#include "backends/problem.h"
#include "host/checkpoint/error.h"
#include "host/checkpoint/folder.h"
#include "host/checkpoint/quantization_config.h"
#include "host/checkpoint/routing.h"

namespace ironcl::checkpoint {

/// Where a layer's block sizes come from, in the order in which the sources are asked.
enum class BlockSource {
  config,    ///< quantization_config
  metadata,  ///< The file's metadata: weight_block ("128", "128x128") and x_group ("1x128").
  caller,    ///< OpenOptions::block
  shape,     ///< The only one that fits the shapes of weight and scale.
};

/// "quantization_config", "metadata", "--block", "shape".
std::string_view name_of(BlockSource source) noexcept;

/// What may be too broken to be used; its other fields are filled as far as they are known.
struct MaybeBroken {
  std::optional<Error> problem;  ///< Why a layer cannot be used, or a layer of experts cannot be run as a whole.
  /// Throws the problem, if there is one.
  void check() const {
    if (problem) throw *problem;
  }
};

/// A quantised linear layer: D = A times weight transposed (+ bias). Views stay valid while the Checkpoint lives.
struct LinearLayer : MaybeBroken {
  std::string name;    ///< "model.layers.0.self_attn.q_proj"; "weight" for a lone layer.
  std::int64_t n = 0;  ///< Outputs: rows of the weight. 0 where the layer is broken and n is unknown.
  std::int64_t k = 0;  ///< Inputs: columns of the weight.
  Tensor weight;       ///< [n, k], e4m3fn, e5m2, i8, or e2m1: two codes to a byte, the first in its lower half.
  /// On weight_grid, of f32, f16, bf16 or e8m0 (e4m3fn beside `global`); dimensions of 1 may be absent. Multiplies,
  /// whatever its name says.
  Tensor scale;
  std::optional<double> global;  ///< NVFP4's: multiplies all scales, also where a file has what divides them.
  /// Zero points other than 0, on weight_grid: whole numbers of -128 to 128, subtracted from the codes. Only of i8
  /// beside activations that are not quantised.
  std::optional<Tensor> zero_points;
  ScaleGrid weight_grid;           ///< Meaningless where weight_grid_known is false.
  bool weight_grid_known = false;  ///< False only where the layer has a problem.
  BlockSource block_source = BlockSource::config;
  ActivationScheme activations = ActivationScheme::dynamic;
  bool activations_known = false;  ///< False only where the layer has a problem.
  ScaleGrid activation_grid;       ///< Scale grid of A [m, k]; meaningless where activations is none.
  ScaleRounding activation_rounding = ScaleRounding::exact;
  /// The scheme clips a group's amax to this value (fbgemm's activation_scale_ub).
  std::optional<double> activation_limit;
  std::optional<Tensor> bias;          ///< [n]
  std::optional<Tensor> input_scale;   ///< One value of f32, f16 or bf16, where activations is fixed.
  std::optional<std::int64_t> expert;  ///< Which slice of a tensor [E, n, k] the weight is.
  /// Weight and scale lie as [k, n] and [scale_cols, scale_rows]; host/layer turns them.
  bool transposed = false;
  /// The codes lie with 128 added, in rows of 4 ceil(k / 4) bytes; host/layer unpacks them.
  bool packed = false;
  bool leaves_activations = false;  ///< The scheme has activations of e2m1; here they stay as they come.
  bool cast = false;   ///< Only cast to fp8: scale is one 1 that stands in no file, and activations is none.
  std::string writer;  ///< "compressed-tensors 0.19.0", "torchao", ...; empty if unknown.
  std::vector<std::string> companions;  ///< Names of the tensors that say how the codes are to be read.
  std::uint64_t bytes = 0;              ///< Weight, scale and bias together.

  /// What is multiplied: weight.dtype; of codes with zero points their difference, which bf16 holds exactly.
  DType multiplied() const noexcept { return zero_points ? DType::bf16 : weight.dtype; }
  Scales scales() const { return {scale.dtype, weight_grid, 0, global.has_value()}; }
  /// "FP8 e4m3", "FP8 e5m2" (with " (cast)"), "INT8", "INT8 (asymmetric)", "MXFP8" (e8m0 scales of 1x32 groups),
  /// "MXFP4", "NVFP4"; empty for other weights.
  std::string format() const;
};

/// A tensor that is no part of a quantised linear layer.
struct Unquantized : Tensor {
  std::string why;  ///< "no scale", "listed in modules_to_not_convert", "not a matrix", ...
};

/// The matrices of a gated MLP, one entry for each expert, as indices into Checkpoint::layers(): either gate_up
/// [2 I, H] or gate and up [I, H] each; and down [H, I].
struct GatedMatrices {
  std::vector<std::size_t> gate_up, gate, up, down;
  bool fused() const noexcept { return !gate_up.empty(); }
  /// All of them, role by role.
  std::array<const std::vector<std::size_t>*, 4> roles() const noexcept { return {&gate_up, &gate, &up, &down}; }
};

/// y[t] = sum_j w[t, j] * down_e( silu(gate_e x[t]) * up_e x[t] ), e = ids[t, j], plus the shared expert; biases and
/// another activation as routing says (gpt-oss).
struct ExpertsLayer : MaybeBroken {
  std::string name;         ///< "model.layers.3.mlp", "model.layers.0.block_sparse_moe".
  std::int64_t hidden = 0;  ///< H; 0 where the layer is broken and it is not known.
  std::int64_t width = 0;   ///< I: rows of an expert's gate.
  Routing routing;
  Tensor router;                          ///< [E, H] of F32, F16 or BF16: not quantised.
  std::optional<Tensor> router_bias;      ///< [E] of F32, F16 or BF16: added to the logits.
  std::optional<Tensor> correction_bias;  ///< [E] of F32: e_score_correction_bias.
  GatedMatrices experts;
  std::optional<GatedMatrices> shared;  ///< One entry each.
  std::int64_t shared_width = 0;        ///< I of the shared expert; 0: there is none.
  std::optional<Tensor> shared_gate;    ///< [1, H]: the shared expert's output is scaled by sigmoid(x . gate).
  std::uint64_t bytes = 0;              ///< Bytes of all its tensors.
};

struct OpenOptions {
  /// The weight block of layers for which neither config nor metadata says one. Where they do, they must agree.
  std::optional<ScaleGrid> block = std::nullopt;
  /// Look for NaN, infinite and negative scales (reads every scale once).
  bool check_values = true;
};

/// An open checkpoint. Threads: immutable, any thread. Copies share the mappings.
class Checkpoint {
 public:
  /// Opens a folder or one safetensors file with the configs beside it. Throws Error for what spoils the whole; what
  /// spoils one layer is in that layer's `problem`.
  static Checkpoint open(const std::filesystem::path& path, const OpenOptions& options = {});

  const std::filesystem::path& path() const noexcept { return path_; }
  const QuantizationConfig& config() const noexcept { return config_; }
  const Folder& folder() const noexcept { return folder_; }
  const std::vector<SafetensorsFile>& files() const noexcept { return folder_.files; }
  /// Everything that was read: files(), and what says how to take them (config.json, an index, ...).
  std::vector<std::filesystem::path> sources() const;
  /// Quantised layers in the order of a reader ("layers.2" before "layers.10").
  const std::vector<LinearLayer>& layers() const noexcept { return layers_; }
  const std::vector<Unquantized>& unquantized() const noexcept { return unquantized_; }
  /// Of a folder that names a way of quantising and in which no layer was found: that, as an error.
  const std::optional<Error>& problem() const noexcept { return problem_; }
  /// Layers of experts, whose matrices are among layers() too; in the order of a reader.
  const std::vector<ExpertsLayer>& experts() const noexcept { return experts_; }

  /// The layers whose names match a glob of fnmatch(3), broken ones included.
  /// Throws Error not_found with names that are there where none matches.
  std::vector<const LinearLayer*> match(const std::string& glob) const;
  /// The layer, or the layer of experts, with exactly that name, also a broken one. Throw Error not_found with names
  /// that are near.
  const LinearLayer& layer_named(const std::string& name) const { return named(layers_, name); }
  const ExpertsLayer& experts_named(const std::string& name) const { return named(experts_, name); }
  /// The layer, checked: throws also its problem.
  const LinearLayer& layer(const std::string& name) const;
  /// Throws Error where there is no quantised layer at all: problem(), or not_found.
  void check_any() const;

 private:
  template <class Layer>
  const Layer& named(const std::vector<Layer>& layers, const std::string& name) const;

  std::filesystem::path path_;
  QuantizationConfig config_;
  Folder folder_;
  std::vector<LinearLayer> layers_;
  std::vector<Unquantized> unquantized_;
  std::vector<ExpertsLayer> experts_;
  std::optional<Error> problem_;
};

}  // namespace ironcl::checkpoint

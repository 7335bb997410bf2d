// SPDX-License-Identifier: Apache-2.0
// Layers of experts (mixture of experts): the router, every expert's matrices and the shared expert of one module, as
// one object. Next door: routing.h (how tokens choose), find_experts.h (where they come from), model.h (the
// matrices).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/checkpoint/error.h"
#include "host/checkpoint/routing.h"
#include "host/checkpoint/tensor.h"

namespace ironcl::checkpoint {

/// The matrices of a gated MLP, one entry for each expert, as indices into Checkpoint::layers(): either gate_up
/// [2 I, H] or gate and up [I, H] each; and down [H, I].
struct GatedMatrices {
  std::vector<std::size_t> gate_up, gate, up, down;
  bool fused() const noexcept { return !gate_up.empty(); }
};

/// y[t] = sum_j w[t, j] * down_e( silu(gate_e x[t]) * up_e x[t] ), e = ids[t, j], plus the shared expert; biases and
/// another activation as routing says (gpt-oss).
struct ExpertsLayer {
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
  std::optional<Error> problem;         ///< Why it cannot be run as a whole; what is known is filled.

  /// Throws the problem, if there is one.
  void check() const;
};

}  // namespace ironcl::checkpoint

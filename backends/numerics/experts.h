// SPDX-License-Identifier: Apache-2.0
// The steps of a layer of experts between its products, in f32 as every device computes them: scores, the choice of
// experts, rows sorted by expert, the activation between two products, the weighted sum. docs/experts.md has the
// formulas and their sources. Next door: experts_oracle.h (the same in f64, with bounds and verdicts).
//
// choose, sort_by_expert and combine_token are exact rules: a device gives these ids, rows and bits. scores and
// activate go through exp, which is good to a few ulp on a device; experts_oracle.h says how far results may differ.
#pragma once

#include <span>

#include "backends/numerics/formats.h"

namespace ironcl::numerics {

/// By what a router chooses. The values are those of IRONCL_SCORE_* in ironcl/plugin.h.
enum class Score : std::uint32_t { none = 0, softmax = 1, sigmoid = 2, sqrt_softplus = 3 };

/// How gate and up become one value. The values are those of IRONCL_ACTIVATION_*.
enum class Activation : std::uint32_t { none = 0, silu = 1, swiglu_oai = 2 };

/// How a token's experts are chosen from its scores, and weighed; as in ironcl_route_desc.
struct Routing {
  std::int64_t experts = 0, top_k = 0;
  Score score = Score::softmax;
  std::int64_t expert_groups = 1;  ///< Equal ones; divides experts.
  std::int64_t top_groups = 1;     ///< With at least top_k experts in all.
  float scale = 1;
  bool normalize = false;
  bool best_of_two = false;  ///< A group is worth the sum of its two best instead of its best.
};

/// 1 / (1 + exp(-x)).
float sigmoid(float x) noexcept;

/// The scores of one token. softmax is over all logits, with the largest subtracted first; a logit that is NaN or
/// +infinity makes all its scores NaN. sqrt_softplus does not overflow. `out` is as long as `logits`.
void scores(Score score, std::span<const float> logits, std::span<float> out) noexcept;

/// Chooses routing.top_k experts of one token, best first: by score + bias (no bias: empty), in the groups that stay;
/// ties go to the smaller id, also between groups, and a NaN is smaller than everything. weights: their scores,
/// without the bias, divided by their sum (normalize; not by a sum of 0) and then times routing.scale. Throws
/// std::invalid_argument where a length does not fit or routing contradicts itself.
void choose(const Routing& routing, std::span<const float> scores, std::span<const float> bias,
            std::span<std::int32_t> ids, std::span<float> weights);

/// Which rows there are, and of which experts: those from `first` on, `local` of them.
struct RowLayout {
  std::int64_t first = 0, local = 0;
  std::int64_t capacity = 0;   ///< 0: one after another. Else expert g's rows begin at (g - first) * capacity.
  bool shared_expert = false;  ///< Before all others every token has a row, in order; without a capacity only.
};

/// Sorts slots by expert, within an expert in their order. ids: of slots, top_k per token; ids that are not here get
/// row -1, and so do those past the capacity. counts [local]: rows of each expert; a shared one's come first, one
/// more. token_of_row: [slots], a shared expert's tokens more, or [local * capacity]; elements of no row are left
/// alone. row_of_slot: as long as ids. Throws std::invalid_argument where a length does not fit.
void sort_by_expert(std::span<const std::int32_t> ids, std::int64_t top_k, const RowLayout& layout,
                    std::span<std::int32_t> counts, std::span<std::int32_t> token_of_row,
                    std::span<std::int32_t> row_of_slot);

/// One element: limit 0 clamps nothing, else gate is clamped to at most limit and up to within +-limit. A NaN stays.
float activate(Activation activation, float gate, float up, float limit) noexcept;

/// Rows that each matrix of a grouped problem multiplies, as a device that trusts nothing reads them: negative counts
/// are 0. Contiguous: `rows` in all, cut off at the end. Masked: `rows` for each matrix. `begin` [counts.size()] gets
/// the first row of each (masked: matrix * rows), `used` its number. Throws std::invalid_argument where lengths
/// differ.
void clamp_counts(std::span<const std::int32_t> counts, std::int64_t rows, bool masked, std::span<std::int64_t> begin,
                  std::span<std::int64_t> used);

/// y = 0 + weights[0] * X[rows[0]] + weights[1] * X[rows[1]] + ..., each product and each sum rounded to f32, none
/// fused. X [x_rows, y.size()] of type f32, f16 or bf16; slots whose row is outside of X are left out.
void combine_token(std::span<const std::int32_t> rows, std::span<const float> weights, DType type, const void* x,
                   std::int64_t x_rows, std::int64_t x_ld, std::span<float> y);

/// y += weight * add, likewise.
void add_weighted(float weight, std::span<const float> add, std::span<float> y) noexcept;

}  // namespace ironcl::numerics

// SPDX-License-Identifier: Apache-2.0
// Route, activate and combine of the reference plugin: those of backends/numerics/experts.h, where a fault changes
// what goes in or what comes out.
#include <cmath>
#include <limits>

#include "backends/numerics/casts.h"
#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The elements of a span; none where it is absent.
template <class T>
std::span<T> elements(const backend::Span& span) {
  return {reinterpret_cast<T*>(address_of(span)), span.size / sizeof(T)};
}

/// `count` elements of a matrix from row `row` on.
std::vector<float> decoded(DType type, const backend::Span& from, std::int64_t row, std::int64_t ld,
                           std::int64_t count) {
  std::vector<float> out(at(count));
  numerics::decode(type, address_of(from) + row * ld * numerics::size_of(type), std::span<float>(out));
  return out;
}

/// Experts of one token, and their weights.
void choose(const backend::RouteDesc& d, std::vector<float> logits, std::span<const float> given_bias,
            std::span<std::int32_t> ids, std::span<float> weights) {
  numerics::Routing routing{d.experts,    d.top_k, d.score,     d.expert_groups,
                            d.top_groups, d.scale, d.normalize, d.best_of_two};
  if (fault("groups_are_ignored")) routing.expert_groups = routing.top_groups = 1;
  if (fault("best_of_one")) routing.best_of_two = false;
  if (fault("weights_stay_as_they_are")) routing.normalize = false;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float& x : logits)
    if (x > 88.7f && fault("softplus_overflows")) x = kInfinity;  // as is its exponential
  std::vector<float> scores(logits.size()), bias(given_bias.begin(), given_bias.end());
  numerics::scores(d.score, logits, scores);
  for (float& score : scores)
    if (std::isnan(score) && fault("nan_is_the_largest")) score = kInfinity;
  if (fault("bias_is_weighed")) {
    std::ranges::transform(scores, bias, scores.begin(), std::plus());
    bias.clear();
  }
  const bool from_the_end = fault("ties_go_to_the_larger");
  if (from_the_end) std::ranges::reverse(scores), std::ranges::reverse(bias);
  numerics::choose(routing, scores, bias, ids, weights);
  for (std::int32_t& id : ids)
    if (from_the_end) id = static_cast<std::int32_t>(d.experts - 1 - id);
}

/// Slots to rows, sorted by expert.
void sort_slots(const backend::RouteDesc& d, const backend::RouteArgs& args, std::vector<std::int32_t> ids) {
  const auto counts = elements<std::int32_t>(args.matrix_rows), index = elements<std::int32_t>(args.a_index),
             rows = elements<std::int32_t>(args.rows);
  if (ids.empty() && fault("no_tokens_count_nothing")) return;
  numerics::RowLayout layout{d.first_expert, d.local_experts, d.capacity, d.shared_expert};
  if (fault("rows_in_reverse")) std::ranges::reverse(ids);
  numerics::sort_by_expert(ids, d.top_k, layout, counts, index, rows);
  if (fault("rows_in_reverse")) {
    std::ranges::reverse(rows);
    for (std::int64_t slot = 0; slot < std::ssize(rows); ++slot)
      if (rows[at(slot)] >= 0) index[at(rows[at(slot)])] = static_cast<std::int32_t>(slot / d.top_k);
  }
  if (fault("capacity_is_counted_past")) {
    layout.capacity = 0;
    std::vector<std::int32_t> no_index(ids.size()), no_rows(ids.size());
    numerics::sort_by_expert(ids, d.top_k, layout, counts, no_index, no_rows);
  }
  const bool full = std::ranges::find(rows, std::ssize(index) - 1) != rows.end();
  if (fault("index_is_cleared") && !index.empty() && !full) index.back() = 0;
}

}  // namespace

Stretches clamp_counts(std::vector<std::int32_t> counts, std::int64_t rows, bool masked) {
  for (std::int32_t& count : counts)
    if (count < 0 && fault("negative_counts_are_one")) count = 1;
  Stretches out{std::vector<std::int64_t>(counts.size()), std::vector<std::int64_t>(counts.size())};
  numerics::clamp_counts(counts, rows, masked, out.begin, out.used);
  return out;
}

void route(const backend::RouteDesc& d, const backend::RouteArgs& args) {
  const std::int64_t width = d.experts + (d.shared_gate ? 1 : 0);
  const std::int64_t ld = fault("logits_ld_ignored") ? width : d.logits_ld;
  const auto ids = elements<std::int32_t>(args.ids);
  const auto weights = elements<float>(args.weights), shared = elements<float>(args.shared_weights);
  for (std::int64_t token = 0; token < args.tokens && d.logits != DType::none; ++token) {
    std::vector<float> logits = decoded(d.logits, args.logits, token, ld, width);
    if (d.shared_gate) {
      shared[at(token)] = fault("shared_gate_is_forgotten") ? 1.0f : numerics::sigmoid(logits.back());
      logits.pop_back();
    }
    const std::size_t first = at(token * d.top_k), k = at(d.top_k);
    if (!d.given)
      choose(d, std::move(logits), elements<float>(args.bias), ids.subspan(first, k), weights.subspan(first, k));
  }
  std::vector<std::int32_t> sorted(ids.begin(), ids.end());
  for (std::int32_t& id : sorted)
    if (id < 0 && fault("wild_ids_are_expert_0")) id = 0;
  sort_slots(d, args, std::move(sorted));
}

void activate(const backend::ActivateDesc& d, const backend::ActivateArgs& args) {
  const bool masked = d.grouping == Grouping::masked, oai = d.activation == backend::Activation::swiglu_oai;
  const auto counts = elements<std::int32_t>(args.matrix_rows);
  Stretches rows{{0}, {args.rows}};
  if (d.grouping != Grouping::none) rows = clamp_counts({counts.begin(), counts.end()}, args.rows, masked);
  for (std::size_t g = 0; g < rows.begin.size(); ++g) {
    const std::int64_t end = fault("activates_every_row") && masked ? args.rows : rows.used[g];
    for (std::int64_t r = rows.begin[g]; r < rows.begin[g] + end; ++r) {
      std::vector<float> gate = decoded(d.x, args.gate, r, d.gate_ld, d.cols);
      std::vector<float> up = decoded(d.x, args.up, r, d.up_ld, d.cols), scales;
      if (fault("gate_and_up_are_swapped")) gate.swap(up);
      for (std::size_t c = 0; c < gate.size(); ++c) {
        if (d.limit != 0 && gate[c] < -d.limit && fault("gate_is_clamped_below")) gate[c] = -d.limit;
        if (oai && fault("up_without_1")) up[c] -= 1;
        gate[c] = numerics::activate(d.activation, gate[c], up[c], fault("limit_is_forgotten") ? 0 : d.limit);
        if (d.scale.dtype != DType::none && fault("activation_in_bf16"))
          gate[c] = numerics::decode_bf16(numerics::encode_bf16(gate[c]));
      }
      std::byte* out = address_of(args.y) + r * d.y_ld * numerics::size_of(d.y);
      if (d.scale.dtype == DType::none) {
        numerics::encode(d.y, gate, out);
        continue;
      }
      std::ranges::copy(quantize(d.y, d.quantizer, d.scale.grid, 1, d.cols, gate, scales), out);
      std::ranges::copy(scales, elements<float>(args.scales).begin() + r * d.scale.ld);
    }
  }
}

void combine(const backend::CombineDesc& d, const backend::CombineArgs& args) {
  const auto rows = elements<std::int32_t>(args.rows);
  const auto weights = elements<float>(args.weights), add_weights = elements<float>(args.add_weights);
  for (std::int64_t token = 0; token < args.tokens; ++token) {
    std::vector<float> y(at(d.cols));
    for (std::int64_t i = 0; i < d.top_k; ++i) {
      const std::size_t slot = at(token * d.top_k + (fault("combine_is_backwards") ? d.top_k - 1 - i : i));
      const bool there = rows[slot] >= 0 && rows[slot] < d.rows;
      if (!there && !fault("combine_multiplies_by_zero")) continue;
      const float weight = there ? weights[slot] : 0;
      const std::vector<float> x = decoded(d.x, args.x, there ? rows[slot] : 1 % d.rows, d.x_ld, d.cols);
      if (fault("combine_fuses"))
        for (std::size_t c = 0; c < y.size(); ++c) y[c] = std::fma(weight, x[c], y[c]);
      else
        numerics::add_weighted(weight, x, y);
    }
    const bool weighed = !add_weights.empty() && !fault("add_weights_are_ignored");
    if (d.add != DType::none)
      numerics::add_weighted(weighed ? add_weights[at(token)] : 1.0f,
                             decoded(d.add, args.add, token, d.add_ld, d.cols), y);
    numerics::encode(d.y, y, address_of(args.y) + token * d.y_ld * numerics::size_of(d.y));
  }
}

}  // namespace ironcl::reference

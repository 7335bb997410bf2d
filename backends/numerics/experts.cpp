// SPDX-License-Identifier: Apache-2.0
// The steps between the products of a layer of experts. Built without contraction of floating-point expressions: a
// product and a sum are two roundings here.
#include "backends/numerics/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::numerics {
namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("experts: ") + what);
}

/// Whether a comes before b in falling order, with NaN behind everything.
bool better(float a, float b) noexcept { return std::isnan(b) ? !std::isnan(a) : a > b; }

/// The positions of the `count` best of `values` that `usable` allows, best first; ties go to the smaller one.
std::vector<std::int64_t> best_of(std::span<const float> values, std::int64_t count,
                                  const std::vector<bool>& usable) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (usable[i]) order.push_back(static_cast<std::int64_t>(i));
  }
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const float left = values[static_cast<std::size_t>(a)], right = values[static_cast<std::size_t>(b)];
    return better(left, right) || (!better(right, left) && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
  order.resize(static_cast<std::size_t>(count));
  return order;
}

/// What each group of experts is worth.
std::vector<float> group_values(const Routing& routing, std::span<const float> keys) {
  const auto size = static_cast<std::size_t>(routing.experts / routing.expert_groups);
  std::vector<float> values(static_cast<std::size_t>(routing.expert_groups));
  for (std::size_t g = 0; g < values.size(); ++g) {
    const auto members = keys.subspan(g * size, size);
    const auto best = best_of(members, routing.best_of_two ? 2 : 1, std::vector<bool>(size, true));
    values[g] = members[static_cast<std::size_t>(best[0])];
    if (routing.best_of_two) values[g] += members[static_cast<std::size_t>(best[1])];
  }
  return values;
}

}  // namespace

float sigmoid(float x) noexcept { return 1.0f / (1.0f + std::exp(-x)); }

void scores(Score score, std::span<const float> logits, std::span<float> out) noexcept {
  if (score == Score::sigmoid) {
    std::transform(logits.begin(), logits.end(), out.begin(), sigmoid);
  } else if (score == Score::sqrt_softplus) {
    std::transform(logits.begin(), logits.end(), out.begin(), [](float x) {
      return std::isnan(x) ? x : std::sqrt(std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))));
    });
  } else {
    float top = -std::numeric_limits<float>::infinity();
    for (const float x : logits) top = x > top ? x : top;
    float sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) sum += out[i] = std::exp(logits[i] - top);
    for (std::size_t i = 0; i < logits.size(); ++i) out[i] /= sum;
  }
}

void choose(const Routing& routing, std::span<const float> scores, std::span<const float> bias,
            std::span<std::int32_t> ids, std::span<float> weights) {
  const std::int64_t groups = routing.expert_groups, k = routing.top_k;
  expect(routing.experts > 0 && groups > 0 && routing.experts % groups == 0, "the groups must divide the experts");
  const std::int64_t size = routing.experts / groups;
  expect(routing.top_groups > 0 && routing.top_groups <= groups, "top_groups must be 1 to the number of groups");
  expect(k > 0 && k <= routing.top_groups * size, "top_k must be 1 to the number of experts in the groups that stay");
  expect(!routing.best_of_two || size > 1, "best_of_two needs groups of two experts or more");
  expect(std::ssize(scores) == routing.experts, "scores must have one entry per expert");
  expect(bias.empty() || bias.size() == scores.size(), "the bias must have one entry per expert");
  expect(std::ssize(ids) == k && std::ssize(weights) == k, "ids and weights must have top_k entries");

  std::vector<float> keys(scores.begin(), scores.end());
  for (std::size_t e = 0; e < bias.size(); ++e) keys[e] += bias[e];
  std::vector<bool> usable(keys.size(), true);
  if (groups > 1) {
    usable.assign(keys.size(), false);
    const std::vector<float> values = group_values(routing, keys);
    for (const std::int64_t g : best_of(values, routing.top_groups, std::vector<bool>(values.size(), true))) {
      std::fill_n(usable.begin() + g * size, size, true);
    }
  }
  const std::vector<std::int64_t> chosen = best_of(keys, k, usable);
  float sum = 0;
  for (std::size_t j = 0; j < chosen.size(); ++j) {
    ids[j] = static_cast<std::int32_t>(chosen[j]);
    weights[j] = scores[static_cast<std::size_t>(chosen[j])];
    sum += weights[j];
  }
  for (float& weight : weights) {
    if (routing.normalize && sum != 0) weight /= sum;
    weight *= routing.scale;
  }
}

void sort_by_expert(std::span<const std::int32_t> ids, std::int64_t top_k, const RowLayout& layout,
                    std::span<std::int32_t> counts, std::span<std::int32_t> token_of_row,
                    std::span<std::int32_t> row_of_slot) {
  expect(top_k > 0 && std::ssize(ids) % top_k == 0, "ids must have top_k entries per token");
  const std::int64_t tokens = layout.shared_expert ? std::ssize(ids) / top_k : 0,
                     shared = layout.shared_expert ? 1 : 0;
  const std::int64_t rows =
      layout.capacity == 0 ? tokens + std::ssize(ids) : checked_mul(layout.local, layout.capacity);
  expect(layout.capacity == 0 || !layout.shared_expert, "a shared expert's rows have no capacity");
  expect(std::ssize(counts) == shared + layout.local, "counts must have one entry per local expert");
  expect(std::ssize(token_of_row) >= rows, "token_of_row is too short");
  expect(row_of_slot.size() == ids.size(), "row_of_slot must have one entry per slot");

  const auto here = [&](std::int32_t id) { return id >= layout.first && id < layout.first + layout.local; };
  const auto place = [&](std::int32_t id) { return static_cast<std::size_t>(shared + id - layout.first); };
  std::vector<std::int64_t> found(counts.size()), begin(counts.size());
  if (layout.shared_expert) found[0] = tokens;
  std::iota(token_of_row.begin(), token_of_row.begin() + tokens, 0);
  for (const std::int32_t id : ids) {
    if (here(id)) ++found[place(id)];
  }
  for (std::size_t g = 0; g < counts.size(); ++g) {
    if (layout.capacity != 0) {
      begin[g] = static_cast<std::int64_t>(g) * layout.capacity;
      found[g] = std::min(found[g], layout.capacity);
    } else if (g != 0) {
      begin[g] = begin[g - 1] + found[g - 1];
    }
    counts[g] = static_cast<std::int32_t>(found[g]);
  }
  std::vector<std::int64_t> next(counts.size());
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    row_of_slot[slot] = -1;
    if (!here(ids[slot])) continue;
    const std::size_t g = place(ids[slot]);
    if (next[g] == found[g]) continue;
    const std::int64_t row = begin[g] + next[g]++;
    row_of_slot[slot] = static_cast<std::int32_t>(row);
    token_of_row[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(static_cast<std::int64_t>(slot) / top_k);
  }
}

float activate(Activation activation, float gate, float up, float limit) noexcept {
  if (limit != 0) {
    // Comparisons that a NaN passes through.
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up < -limit ? -limit : up;
  }
  if (activation == Activation::silu) return gate / (1.0f + std::exp(-gate)) * up;
  return gate / (1.0f + std::exp(-(1.702f * gate))) * (up + 1.0f);
}

void clamp_counts(std::span<const std::int32_t> counts, std::int64_t rows, bool masked, std::span<std::int64_t> begin,
                  std::span<std::int64_t> used) {
  expect(begin.size() == counts.size() && used.size() == counts.size(), "counts, begin and used differ in length");
  std::int64_t next = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    begin[g] = masked ? static_cast<std::int64_t>(g) * rows : next;
    used[g] = std::clamp<std::int64_t>(counts[g], 0, masked ? rows : rows - next);
    next += used[g];
  }
}

void combine_token(std::span<const std::int32_t> rows, std::span<const float> weights, DType type, const void* x,
                   std::int64_t x_rows, std::int64_t x_ld, std::span<float> y) {
  expect(rows.size() == weights.size(), "rows and weights differ in length");
  expect(is_float(type), "X is not f32, f16 or bf16");
  std::fill(y.begin(), y.end(), 0.0f);
  std::vector<float> row(y.size());
  for (std::size_t j = 0; j < rows.size(); ++j) {
    if (rows[j] < 0 || rows[j] >= x_rows) continue;
    decode(type, static_cast<const std::byte*>(x) + checked_mul(checked_mul(rows[j], x_ld), size_of(type)),
           std::span<float>(row));
    add_weighted(weights[j], row, y);
  }
}

void add_weighted(float weight, std::span<const float> add, std::span<float> y) noexcept {
  for (std::size_t c = 0; c < y.size(); ++c) y[c] = y[c] + weight * add[c];
}

}  // namespace ironcl::numerics

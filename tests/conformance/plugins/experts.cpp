// SPDX-License-Identifier: Apache-2.0
// Route, activate and combine of the reference plugin: plain loops that share nothing with backends/numerics/experts.
#include <cmath>
#include <limits>

#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// What a span holds; nothing where it is absent.
template <class T>
std::vector<T> copied(const backend::Span& from) {
  std::vector<T> out(from.size / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), address_of(from), out.size() * sizeof(T));
  return out;
}

template <class T>
void put(const backend::Span& to, const std::vector<T>& values) {
  if (!values.empty() && to) std::memcpy(address_of(to), values.data(), values.size() * sizeof(T));
}

/// The position of the best value that is left, or -1: NaN is below everything, ties go to the smaller one.
std::int64_t take_best(const std::vector<float>& values, std::vector<bool>& left) {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    if (!left[at(i)]) continue;
    if (best < 0) {
      best = i;
      continue;
    }
    const float now = values[at(i)], then = values[at(best)];
    const bool larger = now > then || (std::isnan(then) && !std::isnan(now)) ||
                        (fault("nan_is_the_largest") && std::isnan(now) && !std::isnan(then)) ||
                        (fault("ties_go_to_the_larger") && now == then);
    if (larger) best = i;
  }
  if (best >= 0) left[at(best)] = false;
  return best;
}

std::vector<float> scores_of(backend::Score kind, const std::vector<float>& logits) {
  std::vector<float> out(logits.size());
  if (kind == backend::Score::softmax) {
    float top = -std::numeric_limits<float>::infinity(), sum = 0;
    for (const float x : logits) {
      if (x > top) top = x;
    }
    for (std::size_t i = 0; i < logits.size(); ++i) {
      out[i] = std::exp(logits[i] - top);
      sum += out[i];
    }
    for (float& score : out) score /= sum;
    return out;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float x = logits[i];
    if (kind == backend::Score::sigmoid) {
      out[i] = 1.0f / (1.0f + std::exp(-x));
    } else if (fault("softplus_overflows")) {
      out[i] = std::sqrt(std::log(1.0f + std::exp(x)));
    } else {
      out[i] = std::isnan(x) ? x : std::sqrt((x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))));
    }
  }
  return out;
}

/// Experts of one token and their weights.
void choose(const backend::RouteDesc& d, const std::vector<float>& scores, const std::vector<float>& bias,
            std::int32_t* ids, float* weights) {
  std::vector<float> keys = scores;
  for (std::size_t e = 0; e < bias.size(); ++e) keys[e] += bias[e];
  std::vector<bool> left(keys.size(), d.expert_groups == 1 || fault("groups_are_ignored"));
  const std::int64_t size = d.experts / d.expert_groups;
  if (d.expert_groups > 1 && !fault("groups_are_ignored")) {
    std::vector<float> worth;
    for (std::int64_t g = 0; g < d.expert_groups; ++g) {
      const std::vector<float> members(keys.begin() + g * size, keys.begin() + (g + 1) * size);
      std::vector<bool> open(members.size(), true);
      float value = members[at(take_best(members, open))];
      const bool two = d.best_of_two && !fault("best_of_one");
      if (two) value += members[at(take_best(members, open))];
      worth.push_back(value);
    }
    std::vector<bool> open(worth.size(), true);
    for (std::int64_t i = 0; i < d.top_groups; ++i)
      std::fill_n(left.begin() + take_best(worth, open) * size, size, true);
  }
  float sum = 0;
  for (std::int64_t j = 0; j < d.top_k; ++j) {
    const std::int64_t id = take_best(keys, left);
    ids[j] = static_cast<std::int32_t>(id);
    weights[j] = fault("bias_is_weighed") ? keys[at(id)] : scores[at(id)];
    sum += weights[j];
  }
  const bool normalise = d.normalize && !fault("weights_stay_as_they_are");
  for (std::int64_t j = 0; j < d.top_k; ++j) {
    if (normalise && sum != 0) weights[j] /= sum;
    weights[j] *= d.scale;
  }
}

/// Slots to rows, sorted by expert.
void sort_slots(const backend::RouteDesc& d, const backend::RouteArgs& args, const std::vector<std::int32_t>& ids) {
  const std::int64_t slots = std::ssize(ids), local = d.local_experts;
  std::vector<std::int32_t> counts(at(local)), rows(ids.size(), -1);
  std::int64_t next = 0;
  for (std::int64_t g = 0; g < local; ++g) {
    if (d.capacity != 0) next = g * d.capacity;
    for (std::int64_t i = 0; i < slots; ++i) {
      const std::int64_t slot = fault("rows_in_reverse") ? slots - 1 - i : i;
      if (ids[at(slot)] != d.first_expert + g) continue;
      if (d.capacity != 0 && counts[at(g)] == d.capacity) {
        if (fault("capacity_is_counted_past")) break;
        continue;
      }
      ++counts[at(g)];
      const auto token = static_cast<std::int32_t>(slot / d.top_k);
      std::memcpy(address_of(args.a_index) + next * 4, &token, 4);
      rows[at(slot)] = static_cast<std::int32_t>(next++);
    }
  }
  if (fault("capacity_is_counted_past") && d.capacity != 0) {
    std::fill(counts.begin(), counts.end(), 0);
    for (const std::int32_t id : ids) {
      const std::int64_t g = id - d.first_expert;
      if (g >= 0 && g < local) ++counts[at(g)];
    }
  }
  if (fault("index_is_cleared") && slots != 0) {
    const std::int64_t all = d.capacity == 0 ? slots : d.capacity * local;
    const std::int32_t zero = 0;
    if (next < all) std::memcpy(address_of(args.a_index) + (all - 1) * 4, &zero, 4);
  }
  if (slots != 0 || !fault("no_tokens_count_nothing")) put(args.matrix_rows, counts);
  put(args.rows, rows);
}

}  // namespace

void clamp_counts(const std::vector<std::int32_t>& counts, std::int64_t rows, bool masked,
                  std::vector<std::int64_t>* begin, std::vector<std::int64_t>* used) {
  std::int64_t next = 0;
  for (std::int64_t g = 0; g < std::ssize(counts); ++g) {
    std::int64_t count = std::max(counts[at(g)], 0);
    if (counts[at(g)] < 0 && fault("negative_counts_are_one")) count = 1;
    const std::int64_t room = masked ? rows : rows - next;
    begin->push_back(masked ? g * rows : next);
    used->push_back(count > room ? room : count);
    next += used->back();
  }
}

void route(const backend::RouteDesc& d, const backend::RouteArgs& args) {
  const std::int64_t slots = args.tokens * d.top_k, width = d.experts + (d.shared_gate ? 1 : 0);
  const std::int64_t ld = fault("logits_ld_ignored") ? width : d.logits_ld;
  std::vector<std::int32_t> ids(at(slots));
  std::vector<float> weights(at(slots)), shared(d.shared_gate ? at(args.tokens) : 0);
  const std::vector<float> bias = copied<float>(args.bias);
  for (std::int64_t token = 0; token < args.tokens; ++token) {
    const auto logit = [&](std::int64_t e) {
      return decode_one(d.logits, address_of(args.logits) + (token * ld + e) * numerics::size_of(d.logits));
    };
    if (d.shared_gate) shared[at(token)] = 1.0f / (1.0f + std::exp(-logit(d.experts)));
    if (d.given) continue;
    std::vector<float> logits(at(d.experts));
    for (std::int64_t e = 0; e < d.experts; ++e) logits[at(e)] = logit(e);
    choose(d, scores_of(d.score, logits), bias, &ids[at(token * d.top_k)], &weights[at(token * d.top_k)]);
  }
  if (d.given) {
    ids = copied<std::int32_t>(args.ids);
    if (fault("wild_ids_are_expert_0")) {
      for (std::int32_t& id : ids) id = id < 0 ? 0 : id;
    }
  } else {
    put(args.ids, ids);
    put(args.weights, weights);
  }
  if (fault("shared_gate_is_forgotten")) std::fill(shared.begin(), shared.end(), 1.0f);
  put(args.shared_weights, shared);
  sort_slots(d, args, ids);
}

void activate(const backend::ActivateDesc& d, const backend::ActivateArgs& args) {
  if (args.rows == 0) return;
  const bool masked = d.grouping == Grouping::masked;
  std::vector<std::int64_t> begin{0}, used{args.rows};
  if (d.grouping != Grouping::none) {
    begin.clear(), used.clear();
    clamp_counts(copied<std::int32_t>(args.matrix_rows), args.rows, masked, &begin, &used);
  }
  const std::uint32_t x = numerics::size_of(d.x), y = numerics::size_of(d.y);
  std::vector<float> row(at(d.cols)), scales;
  for (std::size_t g = 0; g < begin.size(); ++g) {
    const std::int64_t end = fault("activates_every_row") && masked ? args.rows : used[g];
    for (std::int64_t r = begin[g]; r < begin[g] + end; ++r) {
      for (std::int64_t c = 0; c < d.cols; ++c) {
        float gate = decode_one(d.x, address_of(args.gate) + (r * d.gate_ld + c) * x);
        float up = decode_one(d.x, address_of(args.up) + (r * d.up_ld + c) * x);
        if (fault("gate_and_up_are_swapped")) std::swap(gate, up);
        if (d.limit != 0 && !fault("limit_is_forgotten")) {
          if (gate > d.limit) gate = d.limit;
          if (gate < -d.limit && fault("gate_is_clamped_below")) gate = -d.limit;
          if (up > d.limit) up = d.limit;
          if (up < -d.limit) up = -d.limit;
        }
        const bool oai = d.activation == backend::Activation::swiglu_oai;
        const float inner = oai ? 1.702f * gate : gate;
        float value = gate / (1.0f + std::exp(-inner)) * (oai && !fault("up_without_1") ? up + 1.0f : up);
        if (fault("activation_in_bf16") && d.scale.dtype != DType::none) {
          std::byte narrow[2];
          store_one(DType::bf16, value, narrow);
          value = decode_one(DType::bf16, narrow);
        }
        row[at(c)] = value;
      }
      std::byte* out = address_of(args.y) + r * d.y_ld * y;
      if (d.scale.dtype == DType::none) {
        for (std::int64_t c = 0; c < d.cols; ++c) store_one(d.y, row[at(c)], out + c * y);
        continue;
      }
      const Bytes codes = quantize(d.y, d.quantizer, d.scale.grid, 1, d.cols, row, scales);
      std::memcpy(out, codes.data(), codes.size());
      std::memcpy(address_of(args.scales) + r * d.scale.ld * 4, scales.data(), scales.size() * 4);
    }
  }
}

void combine(const backend::CombineDesc& d, const backend::CombineArgs& args) {
  const std::int64_t k = d.top_k;
  const auto rows = copied<std::int32_t>(args.rows);
  const auto weights = copied<float>(args.weights), add_weights = copied<float>(args.add_weights);
  for (std::int64_t token = 0; token < args.tokens; ++token) {
    for (std::int64_t c = 0; c < d.cols; ++c) {
      volatile float sum = 0;  // so that no compiler fuses a product with a sum
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t slot = token * k + (fault("combine_is_backwards") ? k - 1 - i : i);
        std::int64_t row = rows[at(slot)];
        float weight = weights[at(slot)];
        if (row < 0 || row >= d.rows) {
          if (!fault("combine_multiplies_by_zero")) continue;
          row = 1 % d.rows, weight = 0;
        }
        const float value = decode_one(d.x, address_of(args.x) + (row * d.x_ld + c) * numerics::size_of(d.x));
        volatile float product = weight * value;
        sum = fault("combine_fuses") ? std::fma(weight, value, sum) : sum + product;
      }
      if (d.add != DType::none) {
        const float value =
            decode_one(d.add, address_of(args.add) + (token * d.add_ld + c) * numerics::size_of(d.add));
        const bool weighed = !add_weights.empty() && !fault("add_weights_are_ignored");
        volatile float product = (weighed ? add_weights[at(token)] : 1.0f) * value;
        sum = sum + product;
      }
      store_one(d.y, sum, address_of(args.y) + (token * d.y_ld + c) * numerics::size_of(d.y));
    }
  }
}

}  // namespace ironcl::reference

// SPDX-License-Identifier: Apache-2.0
// A layer of experts as experts_layer.cpp times it: its matrices, the tokens of a round, what both sides read and
// write, and the two sides, a loop of dense plans and grouped problems.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/numerics/experts.h"
#include "bench/experts.h"

namespace ironcl::bench {

using Plan = std::shared_ptr<backend::Gemm>;
using Weights = std::shared_ptr<backend::Weights>;
using Event = std::shared_ptr<backend::Event>;

/// The matrices [n, k] of one product, an expert each, and their prepared weights, which all numbers of tokens share.
class Matrices {
 public:
  Matrices(std::int64_t experts, std::int64_t n, std::int64_t k, std::uint32_t seed)
      : experts_(experts),
        n_(n),
        k_(k),
        codes_(random_codes(experts * n * k, seed)),
        scales_(static_cast<std::size_t>(experts * numerics::ceil_div(n, kBlock) * numerics::ceil_div(k, kBlock)),
                0x1p-6f) {}

  std::int64_t expert_bytes() const { return n_ * k_; }  ///< Of codes.
  backend::GemmDesc product(std::int64_t m, DType source) const { return bench::product(m, n_, k_, source); }

  /// All of them for a grouped plan; plans of one variant have the same.
  Weights together(Run& run, const Plan& plan) {
    Weights& held = together_[plan->info().variant];
    if (held == nullptr) held = run.weights(plan, codes_, scales_);
    return held;
  }
  /// Each by itself for dense plans, prepared for the first that asks.
  const std::vector<Weights>& apart(Run& run, const Plan& plan) {
    if (apart_.empty())
      for (std::int64_t e = 0; e < experts_; ++e) apart_.push_back(run.weights(plan, codes_, scales_, e));
    return apart_;
  }

 private:
  std::int64_t experts_, n_, k_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> scales_;
  std::map<std::string, Weights> together_;  ///< By variant.
  std::vector<Weights> apart_;
};

/// What all numbers of tokens share.
struct Layer {
  Run& run;
  std::int64_t experts, top_k, hidden, inner;
  Options options;  ///< Of the grouped plans.
  std::int64_t wide = 2 * inner;
  Matrices gate_up{experts, wide, hidden, 1}, down{experts, hidden, inner, 2};
};

/// The tokens of one round: their experts, and rows sorted by expert.
struct Batch {
  std::vector<std::int32_t> ids, counts, index, rows;
  std::vector<float> weights;

  Batch(const Layer& layer, std::int64_t tokens, std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto slots = static_cast<std::size_t>(tokens * layer.top_k);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> chosen;
      while (static_cast<std::int64_t>(chosen.size()) < layer.top_k) {
        const auto id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(layer.experts));
        if (std::find(chosen.begin(), chosen.end(), id) == chosen.end()) chosen.push_back(id);
      }
      ids.insert(ids.end(), chosen.begin(), chosen.end());
    }
    counts.resize(static_cast<std::size_t>(layer.experts));
    index.resize(slots);
    rows.resize(slots);
    weights.assign(slots, 1.0f / static_cast<float>(layer.top_k));
    numerics::sort_by_expert(ids, layer.top_k, {0, layer.experts, 0}, counts, index, rows);
  }
  std::int64_t hit() const {
    return static_cast<std::int64_t>(std::count_if(counts.begin(), counts.end(), [](int c) { return c > 0; }));
  }
};

/// One for each round, and before them the one that is checked.
inline std::vector<Batch> batches_of(const Layer& layer, std::int64_t tokens, int rounds) {
  std::vector<Batch> batches;
  batches.reserve(static_cast<std::size_t>(rounds) + 1);
  for (int i = 0; i < rounds + 1; ++i) batches.emplace_back(layer, tokens, static_cast<std::uint32_t>(10 + i));
  return batches;
}

/// Operands of one number of tokens on the device. Both sides read the same `middle` and write the same `wide`.
struct Buffers {
  const Layer& layer;
  std::int64_t tokens, slots = tokens * layer.top_k;
  std::vector<std::uint16_t> values = random_bf16(tokens * layer.hidden, 7);  ///< Of x.
  backend::Span x = layer.run.upload(values), ids = bytes(slots * 4), counts = bytes(layer.experts * 4),
                index = bytes(slots * 4), rows = bytes(slots * 4), weights = bytes(slots * 4),
                permuted = bytes(slots * layer.hidden * 2), wide = bytes(slots * layer.wide * 2),
                middle = layer.run.upload(random_bf16(slots * layer.inner, 8)), codes = bytes(slots * layer.inner),
                scales = bytes(slots * numerics::ceil_div(layer.inner, kBlock) * 4),
                out = bytes(slots * layer.hidden * 2), out_loop = bytes(slots * layer.hidden * 2),
                y = bytes(tokens * layer.hidden * 2);

  void write(const Batch& batch) const {
    const auto write = [&](const backend::Span& span, const auto& from) {
      layer.run.queue()->write(span, from.data(), backend::HostSemantics::copied_before_return);
    };
    write(ids, batch.ids);
    write(counts, batch.counts);
    write(index, batch.index);
    write(rows, batch.rows);
    write(weights, batch.weights);
    std::vector<std::uint16_t> sorted;
    for (const std::int32_t token : batch.index)
      sorted.insert(sorted.end(), values.begin() + token * layer.hidden, values.begin() + (token + 1) * layer.hidden);
    write(permuted, sorted);
    layer.run.queue()->finish();
  }

 private:
  backend::Span bytes(std::int64_t count) const { return layer.run.buffer(count); }
};

/// One side: for each expert that is hit, two dense plans of its number of rows.
class Loop {
 public:
  Loop(Layer& layer, const Buffers& buffers, const std::vector<Batch>& batches) : buffers_(buffers) {
    const auto plan = [&](const Matrices& matrices, std::int64_t m) {
      return layer.run.device().create_gemm(matrices.product(m, DType::bf16));
    };
    for (const Batch& batch : batches)
      for (const std::int32_t count : batch.counts)
        if (count > 0 && plans_.find(count) == plans_.end())
          plans_[count] = {plan(layer.gate_up, count), plan(layer.down, count)};
    gate_up_ = layer.gate_up.apart(layer.run, plans_.begin()->second.gate_up);
    down_ = layer.down.apart(layer.run, plans_.begin()->second.down);
  }

  void enqueue(const Batch& batch) const {
    const Layer& layer = buffers_.layer;
    std::int64_t first = 0;
    for (std::size_t e = 0; e < batch.counts.size(); ++e) {
      const std::int64_t m = batch.counts[e];
      if (m == 0) continue;
      const auto part = [&](const backend::Span& span, std::int64_t row_bytes) {
        return backend::Span{span.buffer, static_cast<std::uint64_t>(first * row_bytes),
                             static_cast<std::uint64_t>(m * row_bytes)};
      };
      const Plans& plans = plans_.at(m);
      backend::GemmArgs a;
      a.m = m;
      a.weights = gate_up_[e];
      a.a = part(buffers_.permuted, layer.hidden * 2);
      a.d = part(buffers_.wide, layer.wide * 2);
      plans.gate_up->enqueue(layer.run.queue(), a);
      a.weights = down_[e];
      a.a = part(buffers_.middle, layer.inner * 2);
      a.d = part(buffers_.out_loop, layer.hidden * 2);
      plans.down->enqueue(layer.run.queue(), a);
      first += m;
    }
  }

 private:
  struct Plans {
    Plan gate_up, down;
  };
  const Buffers& buffers_;
  std::map<std::int64_t, Plans> plans_;  ///< By number of rows.
  std::vector<Weights> gate_up_, down_;  ///< Of each expert.
};

/// The other side: both products as grouped problems, and the whole layer from ids to y.
class Grouped {
 public:
  Grouped(Layer& layer, const Buffers& buffers)
      : buffers_(buffers),
        queue_(layer.run.queue()),
        gate_up_(layer, layer.gate_up, buffers.slots, DType::bf16, buffers.tokens),
        down_(layer, layer.down, buffers.slots, DType::bf16),
        route_(layer.run.device().create_route(route_desc(buffers))),
        activate_(layer.run.device().create_activate(activate_desc(buffers))),
        down_of_codes_(layer, layer.down, buffers.slots, DType::none),
        combine_(
            layer.run.device().create_combine({buffers.tokens, layer.hidden, buffers.slots, layer.top_k, layer.hidden,
                                               layer.hidden, layer.hidden, DType::bf16, DType::none, DType::bf16})) {}

  std::pair<Event, Event> products() {
    Event first = enqueue_gate_up();
    backend::GemmArgs a;
    a.m = buffers_.slots;
    a.weights = down_.weights;
    a.a = buffers_.middle;
    a.d = buffers_.out;
    a.matrix_rows = buffers_.counts;
    return {std::move(first), down_.plan->enqueue(queue_, a)};
  }

  void whole() {
    enqueue_route();
    enqueue_gate_up();
    enqueue_activate();
    enqueue_down_of_codes();
    enqueue_combine();
  }

  /// Variants and tunings of both products, as a row ends with them.
  std::string plans() const {
    const backend::GemmInfo up = gate_up_.plan->info(), down = down_.plan->info();
    return fmt::format("{} {}; {} {}", up.variant, up.tuning, down.variant, down.tuning);
  }

 private:
  struct Product {
    Product(Layer& layer, Matrices& matrices, std::int64_t rows, DType source, std::int64_t a_rows = 0) {
      backend::GemmDesc desc = grouped(matrices.product(rows, source), layer.experts, a_rows);
      desc.options = layer.options;
      plan = layer.run.device().create_gemm(desc);
      weights = matrices.together(layer.run, plan);
    }
    Plan plan;
    Weights weights;
  };

  static backend::RouteDesc route_desc(const Buffers& buffers) {
    backend::RouteDesc desc;
    desc.tokens = buffers.tokens;
    desc.experts = desc.local_experts = buffers.layer.experts;
    desc.top_k = buffers.layer.top_k;
    desc.given = true;
    return desc;
  }

  static backend::ActivateDesc activate_desc(const Buffers& buffers) {
    const Layer& layer = buffers.layer;
    backend::ActivateDesc desc;
    desc.rows = buffers.slots;
    desc.cols = desc.y_ld = layer.inner;
    desc.gate_ld = desc.up_ld = layer.wide;
    desc.x = DType::bf16;
    desc.y = DType::e4m3fn;
    desc.grouping = Grouping::contiguous;
    desc.matrices = layer.experts;
    desc.scale = {DType::f32, {1, kBlock}, numerics::ceil_div(layer.inner, kBlock)};
    return desc;
  }

  void enqueue_route() {
    backend::RouteArgs a;
    a.tokens = buffers_.tokens;
    a.ids = buffers_.ids;
    a.matrix_rows = buffers_.counts;
    a.a_index = buffers_.index;
    a.rows = buffers_.rows;
    route_->enqueue(queue_, a);
  }

  Event enqueue_gate_up() {
    backend::GemmArgs a;
    a.m = buffers_.slots;
    a.a_rows = buffers_.tokens;
    a.weights = gate_up_.weights;
    a.a = buffers_.x;
    a.d = buffers_.wide;
    a.matrix_rows = buffers_.counts;
    a.a_index = buffers_.index;
    return gate_up_.plan->enqueue(queue_, a);
  }

  void enqueue_activate() {
    const auto gate_bytes = static_cast<std::uint64_t>(buffers_.layer.inner * 2);
    backend::ActivateArgs a;
    a.rows = buffers_.slots;
    a.gate = buffers_.wide;
    a.up = {buffers_.wide.buffer, gate_bytes, buffers_.wide.size - gate_bytes};
    a.y = buffers_.codes;
    a.scales = buffers_.scales;
    a.matrix_rows = buffers_.counts;
    activate_->enqueue(queue_, a);
  }

  void enqueue_down_of_codes() {
    backend::GemmArgs a;
    a.m = buffers_.slots;
    a.weights = down_of_codes_.weights;
    a.a = buffers_.codes;
    a.a_scale = buffers_.scales;
    a.d = buffers_.out;
    a.matrix_rows = buffers_.counts;
    down_of_codes_.plan->enqueue(queue_, a);
  }

  void enqueue_combine() {
    backend::CombineArgs a;
    a.tokens = buffers_.tokens;
    a.x = buffers_.out;
    a.rows = buffers_.rows;
    a.weights = buffers_.weights;
    a.y = buffers_.y;
    combine_->enqueue(queue_, a);
  }

  const Buffers& buffers_;
  std::shared_ptr<backend::Queue> queue_;
  Product gate_up_, down_;
  std::shared_ptr<backend::Route> route_;
  std::shared_ptr<backend::Activate> activate_;
  Product down_of_codes_;
  std::shared_ptr<backend::Combine> combine_;
};

}  // namespace ironcl::bench

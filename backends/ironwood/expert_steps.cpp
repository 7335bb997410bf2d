// SPDX-License-Identifier: Apache-2.0
// Route, activate and combine on buffers of the host.
#include "backends/ironwood/expert_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "backends/ironwood/memory.h"
#include "backends/ironwood/queue.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"
#include "backends/numerics/experts.h"
#include "backends/numerics/quantize.h"

namespace ironcl::ironwood {
namespace {

using backend::Error;
using backend::Status;
using numerics::checked_mul;
using numerics::DType;
using numerics::size_of;

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // far beyond any HBM; keeps later products in 64 bits

/// Bytes from the first element of a rows x cols matrix to its last; 0 without rows.
std::uint64_t extent(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::uint32_t element) {
  if (rows == 0 || cols == 0) return 0;
  return static_cast<std::uint64_t>(checked_mul(numerics::checked_add(checked_mul(rows - 1, ld), cols), element));
}

/// `count` numbers of the device's memory. The adapter has checked that they are aligned.
template <class T>
std::span<T> numbers(const backend::Span& span, std::int64_t count, const char* what) {
  if (count == 0) return {};
  auto* data = address_of(span, extent(1, count, count, sizeof(T)), what);
  return {reinterpret_cast<T*>(data), static_cast<std::size_t>(count)};
}

void check_extent(std::int64_t rows, std::int64_t ld, const char* what) {
  if (rows > 0 && ld > kMostElements / rows) {
    throw Error(
        Status::unsupported,
        fmt::format("ironwood: {} of {} rows of {}; matrices of up to 2^40 elements are accepted", what, rows, ld));
  }
}

void check_at_most(std::int64_t count, std::int64_t most, const char* what) {
  if (count >= 0 && count <= most) return;
  throw Error(Status::invalid_argument, fmt::format("ironwood: {} is {}; 0 to {} are taken", what, count, most));
}

ModelQueue& model_queue(const std::shared_ptr<backend::Queue>& queue) {
  auto* own = dynamic_cast<ModelQueue*>(queue.get());
  if (own == nullptr) throw Error(Status::invalid_argument, "ironwood: the queue is of another backend");
  return *own;
}

double time_of(const Machine& machine, double bytes) {
  return machine.assume.launch_ns + bytes / machine.hbm_bytes_per_ns();
}

double bytes_of(std::int64_t rows, std::int64_t cols, DType type) {
  return static_cast<double>(rows) * static_cast<double>(cols) * size_of(type);
}

std::span<float> row_of(std::vector<float>& row, DType type, const std::byte* data) {
  numerics::decode(type, data, std::span<float>(row));
  return row;
}

class HostRoute final : public backend::Route {
 public:
  HostRoute(const backend::RouteDesc& desc, const Machine& machine) : d_(desc), machine_(machine) {
    check_extent(desc.tokens, std::max(desc.logits_ld, desc.top_k), "logits");
    check_extent(desc.local_experts, desc.capacity, "rows of experts");
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::RouteArgs& args) override {
    ModelQueue& own = model_queue(queue);
    bind(args);
    return own.run(args.wait, [&] { return run(args); });
  }

 private:
  struct Bound {
    const std::byte* logits = nullptr;
    std::span<const float> bias;
    std::span<std::int32_t> ids, counts, a_index, rows;
    std::span<float> weights, shared_weights;
  };

  Bound bind(const backend::RouteArgs& args) const {
    check_at_most(args.tokens, d_.tokens, "tokens");
    const std::int64_t slots = args.tokens * d_.top_k;
    Bound bound;
    bound.counts = numbers<std::int32_t>(args.matrix_rows, d_.local_experts, "the rows of each expert");
    if (args.tokens == 0) return bound;
    if (!d_.given || d_.shared_gate) {
      bound.logits =
          address_of(args.logits, extent(args.tokens, logits(), d_.logits_ld, size_of(d_.logits)), "logits");
    }
    if (d_.bias != DType::none) bound.bias = numbers<float>(args.bias, d_.experts, "the bias");
    bound.ids = numbers<std::int32_t>(args.ids, slots, "ids");
    if (!d_.given) bound.weights = numbers<float>(args.weights, slots, "weights");
    bound.a_index =
        numbers<std::int32_t>(args.a_index, d_.capacity != 0 ? d_.local_experts * d_.capacity : slots, "a_index");
    bound.rows = numbers<std::int32_t>(args.rows, slots, "rows");
    if (d_.shared_gate) bound.shared_weights = numbers<float>(args.shared_weights, args.tokens, "shared_weights");
    return bound;
  }

  std::int64_t logits() const noexcept { return d_.experts + (d_.shared_gate ? 1 : 0); }

  double run(const backend::RouteArgs& args) const {
    const Bound bound = bind(args);
    std::fill(bound.counts.begin(), bound.counts.end(), 0);
    if (args.tokens == 0) return 0;
    const numerics::Routing routing{.experts = d_.experts,
                                    .top_k = d_.top_k,
                                    .score = d_.score,
                                    .expert_groups = d_.expert_groups,
                                    .top_groups = d_.top_groups,
                                    .scale = d_.scale,
                                    .normalize = d_.normalize,
                                    .best_of_two = d_.best_of_two};
    const auto top_k = static_cast<std::size_t>(d_.top_k), experts = static_cast<std::size_t>(d_.experts);
    std::vector<float> row(static_cast<std::size_t>(logits())), scores(experts);
    for (std::int64_t t = 0; t < args.tokens && bound.logits != nullptr; ++t) {
      row_of(row, d_.logits, bound.logits + t * d_.logits_ld * size_of(d_.logits));
      const auto at = static_cast<std::size_t>(t);
      if (d_.shared_gate) bound.shared_weights[at] = numerics::sigmoid(row.back());
      if (d_.given) continue;
      numerics::scores(d_.score, std::span<const float>(row).first(experts), scores);
      numerics::choose(routing, scores, bound.bias, bound.ids.subspan(at * top_k, top_k),
                       bound.weights.subspan(at * top_k, top_k));
    }
    numerics::sort_by_expert(bound.ids, d_.top_k,
                             {.first = d_.first_expert, .local = d_.local_experts, .capacity = d_.capacity},
                             bound.counts, bound.a_index, bound.rows);
    const double slots = static_cast<double>(args.tokens * d_.top_k);
    return time_of(machine_, (bound.logits != nullptr ? bytes_of(args.tokens, logits(), d_.logits) : 0) + 16 * slots);
  }

  backend::RouteDesc d_;
  Machine machine_;
};

class HostActivate final : public backend::Activate {
 public:
  HostActivate(const backend::ActivateDesc& desc, const Machine& machine) : d_(desc), machine_(machine) {
    const std::int64_t matrices = masked() ? d_.matrices : 1;
    check_extent(matrices, d_.rows, "rows of matrices");
    check_extent(matrices * d_.rows, std::max({d_.gate_ld, d_.up_ld, d_.y_ld, d_.scale.ld, d_.cols}),
                 "an activation");
    if (quantises() && d_.scale.dtype != DType::f32) {
      throw Error(Status::unsupported, fmt::format("ironwood: scales of {} for an activation; f32 is accepted",
                                                   numerics::name_of(d_.scale.dtype)));
    }
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::ActivateArgs& args) override {
    ModelQueue& own = model_queue(queue);
    bind(args);
    return own.run(args.wait, [&] { return run(args); });
  }

 private:
  struct Bound {
    const std::byte* gate = nullptr;
    const std::byte* up = nullptr;
    std::byte* y = nullptr;
    std::byte* scales = nullptr;
    std::span<const std::int32_t> counts;
  };

  bool masked() const noexcept { return d_.grouping == backend::Grouping::masked; }
  bool quantises() const noexcept { return numerics::is_quantized(d_.y); }
  std::int64_t scale_cols() const { return d_.scale.grid.scale_cols(d_.cols); }

  Bound bind(const backend::ActivateArgs& args) const {
    check_at_most(args.rows, d_.rows, "rows");
    Bound bound;
    if (args.rows == 0 || d_.cols == 0) return bound;
    const std::int64_t rows = masked() ? d_.matrices * d_.rows : args.rows;
    bound.gate = address_of(args.gate, extent(rows, d_.cols, d_.gate_ld, size_of(d_.x)), "gate");
    bound.up = address_of(args.up, extent(rows, d_.cols, d_.up_ld, size_of(d_.x)), "up");
    bound.y = address_of(args.y, extent(rows, d_.cols, d_.y_ld, size_of(d_.y)), "Y");
    if (quantises()) bound.scales = address_of(args.scales, extent(rows, scale_cols(), d_.scale.ld, 4), "the scales");
    if (d_.grouping != backend::Grouping::none) {
      bound.counts = numbers<const std::int32_t>(args.matrix_rows, d_.matrices, "the rows of each matrix");
    }
    return bound;
  }

  double run(const backend::ActivateArgs& args) const {
    const Bound bound = bind(args);
    if (args.rows == 0 || d_.cols == 0) return 0;
    std::vector<std::int64_t> begin{0}, used{args.rows};
    if (d_.grouping != backend::Grouping::none) {
      begin.resize(bound.counts.size());
      used.resize(bound.counts.size());
      numerics::clamp_counts(bound.counts, masked() ? d_.rows : args.rows, masked(), begin, used);
    }
    const auto cols = static_cast<std::size_t>(d_.cols);
    std::vector<float> gate(cols), up(cols), scales(quantises() ? static_cast<std::size_t>(scale_cols()) : 0);
    std::int64_t rows = 0;
    for (std::size_t g = 0; g < used.size(); ++g) {
      rows += used[g];
      for (std::int64_t row = begin[g]; row < begin[g] + used[g]; ++row) {
        row_of(gate, d_.x, bound.gate + row * d_.gate_ld * size_of(d_.x));
        row_of(up, d_.x, bound.up + row * d_.up_ld * size_of(d_.x));
        for (std::size_t i = 0; i < cols; ++i) gate[i] = numerics::activate(d_.activation, gate[i], up[i], d_.limit);
        std::byte* y = bound.y + row * d_.y_ld * size_of(d_.y);
        if (!quantises()) {
          numerics::encode(d_.y, std::span<const float>(gate), y);
          continue;
        }
        numerics::quantize(DType::f32, gate.data(), 1, d_.cols, d_.cols, d_.y, d_.scale.grid, d_.quantizer,
                           {reinterpret_cast<std::uint8_t*>(y), cols}, scales);
        std::memcpy(bound.scales + row * d_.scale.ld * 4, scales.data(), scales.size() * sizeof(float));
      }
    }
    return time_of(machine_, 2 * bytes_of(rows, d_.cols, d_.x) + bytes_of(rows, d_.cols, d_.y) +
                                 (quantises() ? bytes_of(rows, scale_cols(), DType::f32) : 0));
  }

  backend::ActivateDesc d_;
  Machine machine_;
};

class HostCombine final : public backend::Combine {
 public:
  HostCombine(const backend::CombineDesc& desc, const Machine& machine) : d_(desc), machine_(machine) {
    check_extent(d_.rows, d_.x_ld, "X");
    check_extent(d_.tokens, std::max({d_.add_ld, d_.y_ld, d_.cols, d_.top_k}), "Y");
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::CombineArgs& args) override {
    ModelQueue& own = model_queue(queue);
    bind(args);
    return own.run(args.wait, [&] { return run(args); });
  }

 private:
  struct Bound {
    const std::byte* x = nullptr;
    const std::byte* add = nullptr;
    std::byte* y = nullptr;
    std::span<const std::int32_t> rows;
    std::span<const float> weights, add_weights;
  };

  Bound bind(const backend::CombineArgs& args) const {
    check_at_most(args.tokens, d_.tokens, "tokens");
    Bound bound;
    if (args.tokens == 0 || d_.cols == 0) return bound;
    const std::int64_t slots = args.tokens * d_.top_k;
    if (d_.rows > 0) bound.x = address_of(args.x, extent(d_.rows, d_.cols, d_.x_ld, size_of(d_.x)), "X");
    bound.rows = numbers<const std::int32_t>(args.rows, slots, "rows");
    bound.weights = numbers<const float>(args.weights, slots, "weights");
    if (d_.add != DType::none) {
      bound.add = address_of(args.add, extent(args.tokens, d_.cols, d_.add_ld, size_of(d_.add)), "add");
      if (args.add_weights) bound.add_weights = numbers<const float>(args.add_weights, args.tokens, "add_weights");
    }
    bound.y = address_of(args.y, extent(args.tokens, d_.cols, d_.y_ld, size_of(d_.y)), "Y");
    return bound;
  }

  double run(const backend::CombineArgs& args) const {
    const Bound bound = bind(args);
    if (args.tokens == 0 || d_.cols == 0) return 0;
    const auto top_k = static_cast<std::size_t>(d_.top_k);
    std::vector<float> y(static_cast<std::size_t>(d_.cols)), add(y.size());
    std::int64_t rows = 0;
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const auto slots = bound.rows.subspan(at * top_k, top_k);
      rows += std::count_if(slots.begin(), slots.end(), [&](std::int32_t row) { return row >= 0 && row < d_.rows; });
      numerics::combine_token(slots, bound.weights.subspan(at * top_k, top_k), d_.x, bound.x, d_.rows, d_.x_ld, y);
      if (bound.add != nullptr) {
        row_of(add, d_.add, bound.add + t * d_.add_ld * size_of(d_.add));
        numerics::add_weighted(bound.add_weights.empty() ? 1.0f : bound.add_weights[at], add, y);
      }
      numerics::encode(d_.y, std::span<const float>(y), bound.y + t * d_.y_ld * size_of(d_.y));
    }
    return time_of(machine_, bytes_of(rows, d_.cols, d_.x) + bytes_of(args.tokens, d_.cols, d_.y) +
                                 (bound.add != nullptr ? bytes_of(args.tokens, d_.cols, d_.add) : 0));
  }

  backend::CombineDesc d_;
  Machine machine_;
};

}  // namespace

std::shared_ptr<backend::Route> make_route(const backend::RouteDesc& desc, const Machine& machine) {
  return std::make_shared<HostRoute>(desc, machine);
}

std::shared_ptr<backend::Activate> make_activate(const backend::ActivateDesc& desc, const Machine& machine) {
  return std::make_shared<HostActivate>(desc, machine);
}

std::shared_ptr<backend::Combine> make_combine(const backend::CombineDesc& desc, const Machine& machine) {
  return std::make_shared<HostCombine>(desc, machine);
}

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// Quantise, route, activate and combine on buffers of the host.

#include "backends/ironwood/memory.h"
#include "backends/ironwood/operations.h"
#include "backends/ironwood/program.h"
#include "backends/ironwood/queue.h"
#include "backends/numerics/casts.h"

namespace ironcl::ironwood {
namespace {

using numerics::DType;
using numerics::size_of;

void check_extent(std::int64_t rows, std::int64_t ld, const char* what) {
  if (rows > 0 && ld > kMostElements / rows) {
    throw backend::Error(backend::Status::unsupported,
                         "ironwood: {} of {} rows of {}; matrices of up to 2^40 elements are accepted", what, rows,
                         ld);
  }
}

double time_of(double bytes, const Machine& machine = {}) {
  return machine.assume.launch_ns + bytes / machine.hbm_bytes_per_ns();
}

double bytes_of(std::int64_t rows, std::int64_t cols, DType type) { return 1.0 * rows * cols * size_of(type); }

}  // namespace

double quantizing_ns(const Machine& machine, std::int64_t rows, std::int64_t cols, DType x, DType code,
                     const backend::ScaleDesc& scale) {
  const double scales = bytes_of(scale.grid.scale_rows(rows), scale.grid.scale_cols(cols), scale.dtype);
  return time_of(2 * bytes_of(rows, cols, x) + bytes_of(rows, cols, code) + scales, machine);
}

std::shared_ptr<backend::Quantize> make_quantize(const backend::QuantizeDesc& d) {
  check_extent(d.rows, std::max({d.x_ld, d.code_ld, d.scale.ld}), "X");
  return std::make_shared<Command<backend::QuantizeArgs>>([d](const backend::QuantizeArgs& args) -> double {
    if (args.rows == 0) return 0;
    numerics::quantize(d.x, address_of(args.x), args.rows, d.cols, d.x_ld, d.scale.grid, d.quantizer,
                       {.type = d.code,
                        .codes = address_of(args.codes),
                        .ld = d.code_ld,
                        .scale_type = d.scale.dtype,
                        .scales = address_of(args.scales),
                        .scale_ld = d.scale.ld});
    return quantizing_ns({}, args.rows, d.cols, d.x, d.code, d.scale);
  });
}

std::shared_ptr<backend::Route> make_route(const backend::RouteDesc& d) {
  check_extent(d.tokens, std::max(d.logits_ld, d.top_k), "logits");
  check_extent(d.local_experts, d.capacity, "rows of experts");
  return std::make_shared<Command<backend::RouteArgs>>([d](const backend::RouteArgs& args) -> double {
    const auto counts = numbers<std::int32_t>(args.matrix_rows, d.matrices());
    std::fill(counts.begin(), counts.end(), 0);
    if (args.tokens == 0) return 0;
    const std::int64_t slots = args.tokens * d.top_k, logits = d.experts + (d.shared_gate ? 1 : 0);
    const std::byte* rows_of_logits = address_of(args.logits);
    const auto bias = numbers<const float>(args.bias, d.experts);
    const auto ids = numbers<std::int32_t>(args.ids, slots), rows = numbers<std::int32_t>(args.rows, slots);
    const auto a_index = numbers<std::int32_t>(args.a_index, d.rows(args.tokens));
    const auto weights = numbers<float>(args.weights, slots);
    const auto shared_weights = numbers<float>(args.shared_weights, args.tokens);
    const auto top_k = static_cast<std::size_t>(d.top_k), experts = static_cast<std::size_t>(d.experts);
    std::vector<float> row(static_cast<std::size_t>(logits)), scores(experts);
    for (std::int64_t t = 0; t < args.tokens && rows_of_logits != nullptr; ++t) {
      numerics::decode(d.logits, rows_of_logits + t * d.logits_ld * size_of(d.logits), row);
      const auto at = static_cast<std::size_t>(t);
      if (d.shared_gate) shared_weights[at] = numerics::sigmoid(row.back());
      if (d.given) continue;
      numerics::scores(d.score, std::span<const float>(row).first(experts), scores);
      numerics::choose(d, scores, bias, ids.subspan(at * top_k, top_k), weights.subspan(at * top_k, top_k));
    }
    numerics::sort_by_expert(
        ids, d.top_k,
        {.first = d.first_expert, .local = d.local_experts, .capacity = d.capacity, .shared_expert = d.shared_expert},
        counts, a_index, rows);
    return time_of((rows_of_logits != nullptr ? bytes_of(args.tokens, logits, d.logits) : 0) +
                   16 * static_cast<double>(slots));
  });
}

std::shared_ptr<backend::Activate> make_activate(const backend::ActivateDesc& d) {
  const std::int64_t matrices = d.grouping == backend::Grouping::masked ? d.matrices : 1;
  check_extent(matrices, d.rows, "rows of matrices");
  check_extent(matrices * d.rows, std::max({d.gate_ld, d.up_ld, d.y_ld, d.scale.ld, d.cols}), "an activation");
  return std::make_shared<Command<backend::ActivateArgs>>([d](const backend::ActivateArgs& args) -> double {
    if (args.rows == 0 || d.cols == 0) return 0;
    const bool quantises = numerics::is_quantized(d.y);
    const std::byte *from_gate = address_of(args.gate), *from_up = address_of(args.up);
    std::byte *to_y = address_of(args.y), *to_scales = address_of(args.scales);
    const auto counts = numbers<const std::int32_t>(args.matrix_rows, d.matrices);
    const auto cols = static_cast<std::size_t>(d.cols);
    std::vector<float> gate(cols), up(cols);
    std::int64_t rows = 0;
    for (const MatrixRows& own : deal_rows(d.grouping, args.rows, counts)) {
      rows += own.rows;
      for (std::int64_t row = own.first; row < own.first + own.rows; ++row) {
        numerics::decode(d.x, from_gate + row * d.gate_ld * size_of(d.x), gate);
        numerics::decode(d.x, from_up + row * d.up_ld * size_of(d.x), up);
        for (std::size_t i = 0; i < cols; ++i) gate[i] = numerics::activate(d.activation, gate[i], up[i], d.limit);
        std::byte* y = to_y + row * d.y_ld * size_of(d.y);
        if (quantises)
          numerics::quantize(DType::f32, gate.data(), 1, d.cols, d.cols, d.scale.grid, d.quantizer,
                             {d.y, y, d.cols, DType::f32, to_scales + row * d.scale.ld * 4, d.scale.ld});
        else
          numerics::encode(d.y, gate, y);
      }
    }
    return time_of(2 * bytes_of(rows, d.cols, d.x) + bytes_of(rows, d.cols, d.y) +
                   (quantises ? bytes_of(rows, d.scale.grid.scale_cols(d.cols), DType::f32) : 0));
  });
}

std::shared_ptr<backend::Combine> make_combine(const backend::CombineDesc& d) {
  check_extent(d.rows, d.x_ld, "X");
  check_extent(d.tokens, std::max({d.add_ld, d.y_ld, d.cols, d.top_k}), "Y");
  return std::make_shared<Command<backend::CombineArgs>>([d](const backend::CombineArgs& args) -> double {
    if (args.tokens == 0 || d.cols == 0) return 0;
    const std::byte *from_x = address_of(args.x), *from_add = address_of(args.add);
    std::byte* to_y = address_of(args.y);
    const auto all_slots = numbers<const std::int32_t>(args.rows, args.tokens * d.top_k);
    const auto weights = numbers<const float>(args.weights, args.tokens * d.top_k);
    const auto add_weights = numbers<const float>(args.add_weights, args.tokens);
    const auto top_k = static_cast<std::size_t>(d.top_k);
    std::vector<float> y(static_cast<std::size_t>(d.cols)), add(y.size());
    std::int64_t rows = 0;
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const auto slots = all_slots.subspan(at * top_k, top_k);
      rows += std::count_if(slots.begin(), slots.end(), [&](std::int32_t row) { return row >= 0 && row < d.rows; });
      numerics::combine_token(slots, weights.subspan(at * top_k, top_k), d.x, from_x, d.rows, d.x_ld, y);
      if (from_add != nullptr) {
        numerics::decode(d.add, from_add + t * d.add_ld * size_of(d.add), add);
        numerics::add_weighted(add_weights.empty() ? 1.0f : add_weights[at], add, y);
      }
      numerics::encode(d.y, y, to_y + t * d.y_ld * size_of(d.y));
    }
    return time_of(bytes_of(rows, d.cols, d.x) + bytes_of(args.tokens, d.cols, d.y) +
                   (from_add != nullptr ? bytes_of(args.tokens, d.cols, d.add) : 0));
  });
}

}  // namespace ironcl::ironwood

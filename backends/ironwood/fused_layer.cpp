// SPDX-License-Identifier: Apache-2.0
// Which layer a description means to the fused kernel, its blocks, and the report of a run.
#include <fmt/format.h>

#include <algorithm>
#include <boost/describe.hpp>
#include <boost/json.hpp>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/fused_experts.h"
#include "backends/numerics/checked.h"

namespace ironcl::ironwood {

BOOST_DESCRIBE_STRUCT(FusedBlocks, (), (bt, btc, bf, bd1, bd2))

namespace {

using numerics::ceil_div;
using numerics::DType;
using numerics::size_of;

/// The largest multiple of `step` that divides `size` and is at most `most`; `step` where there is none.
std::int64_t divisor(std::int64_t size, std::int64_t most, std::int64_t step) {
  for (std::int64_t block = most / step * step; block > step; block -= step) {
    if (size % block == 0) return block;
  }
  return step;
}

std::optional<Refusal> choose_blocks(FusedLayer* layer) {
  constexpr std::int64_t kStep = 256, kMostF = 1024, kMostD1 = 1024, kMostD2 = 2048, kMostTokens = 256, kDot = 64;
  const auto half = [](std::int64_t size, std::int64_t most) {
    const std::int64_t whole = numerics::round_up(size, kStep);
    return std::max<std::int64_t>(128, std::min(whole / 2, most));
  };
  FusedBlocks& b = layer->blocks;
  b.bf = divisor(layer->intermediate, half(layer->intermediate, kMostF), 128);
  b.bd1 = divisor(layer->hidden, half(layer->hidden, kMostD1), 128);
  b.bd2 = divisor(layer->hidden, half(layer->hidden, kMostD2), 128);
  for (std::int64_t tokens = std::min(layer->tokens, kMostTokens);; tokens = ceil_div(tokens, 2)) {
    b.bt = tokens;
    b.btc = tokens <= 16 ? tokens : std::min(tokens, kDot);
    if (fused_vmem_bytes(*layer) <= layer->vmem_limit) return std::nullopt;
    if (tokens == 1) break;
  }
  return Refusal(backend::Reason::device_memory,
                 "VMEM: fused_moe takes {} bytes with one token per tile and the limit is {}",
                 fused_vmem_bytes(*layer), layer->vmem_limit);
}

}  // namespace

std::optional<Refusal> make_fused_layer(const backend::GemmDesc& desc, const PlanRequest& request,
                                        FusedLayer* layer) {
  Problem p;
  if (auto refusal = read_problem(desc, &p)) return refusal;
  const auto shape = [](std::string text) { return Refusal(backend::Reason::shape, std::move(text)); };
  if (p.grouping != backend::Grouping::contiguous || p.a_rows < 1 || p.m < p.a_rows || p.m % p.a_rows != 0 ||
      p.n % 2 != 0) {
    return shape(
        "fused_moe is about a layer's first product: contiguous, m = T * k rows gathered from a_rows = T, "
        "n = 2 I");
  }
  if (p.a != kTokens) {
    return Refusal(backend::Reason::dtype, "fused_moe takes activations of bf16 and does not quantise them");
  }
  layer->tokens = p.a_rows, layer->top_k = p.m / p.a_rows, layer->experts = p.matrices;
  layer->hidden = p.k, layer->intermediate = p.n / 2;
  if (layer->hidden % 128 != 0 || layer->intermediate % 128 != 0) {
    return shape(fmt::format("fused_moe with hidden {} and intermediate {}; multiples of 128 are accepted",
                             layer->hidden, layer->intermediate));
  }
  layer->w = p.w();
  layer->scaled = p.scaled_w();
  layer->group = p.b_scale.grid.group_cols;
  layer->machine = request.machine;
  layer->vmem_limit = request.vmem_limit != 0 ? request.vmem_limit : request.machine.tpu->vmem_bytes;
  layer->ids = request.ids;
  if (layer->ids.empty()) {
    for (std::int64_t slot = 0; slot < p.m; ++slot) {
      layer->ids.push_back(static_cast<std::int32_t>(slot % p.matrices));
    }
  }
  if (static_cast<std::int64_t>(layer->ids.size()) != p.m) {
    return Refusal(backend::Reason::option, "ids has {} of {} tokens by {}", layer->ids.size(), layer->tokens,
                   layer->top_k);
  }
  return choose_blocks(layer);
}

boost::json::object report_fused(const FusedLayer& layer, const FusedTotals& totals) {
  namespace json = boost::json;
  const CoreTotals& core = totals.core;
  Machine peak = layer.machine;
  peak.assume.mxu_efficiency = 1;
  const double size = static_cast<double>(layer.hidden) * static_cast<double>(layer.intermediate);
  const double peak_flops =
      peak.rows_per_s(mxu_type(peak, kTokens, layer.w)) * 2.0 * peak.tpu->mxu_size * peak.tpu->mxu_size;
  json::array notes;
  if (layer.scaled && layer.group != 0 && layer.group % 256 != 0) {
    notes.push_back(json::value(fmt::format(
        "the kernel takes scales of all of K or of multiples of 256 of it, not of {}: such weights are requantised "
        "first",
        layer.group)));
  }
  return {{"time_kind", "modelled"},
          {"program", "fused_moe"},
          {"time_us", totals.time_ns * 1e-3},
          {"bound", core.transfer_ns > core.compute_ns ? "memory" : "compute"},
          {"hbm_bytes", core.bytes_in + core.bytes_out},
          {"steps", totals.steps},
          {"token_tiles", totals.token_tiles},
          {"experts_visited", totals.experts_visited},
          {"experts_with_rows", totals.experts_with_rows},
          {"rows", totals.rows},
          {"rows_multiplied", totals.rows_multiplied},
          {"weight_bytes", totals.weight_bytes},
          {"copies_issued", totals.copies_issued},
          {"barriers", totals.barriers},
          {"vmem_bytes", core.vmem_bytes},
          {"mxu_utilisation", 6.0 * static_cast<double>(totals.rows) * size / peak_flops / (totals.time_ns * 1e-9)},
          {"busy_us",
           {{"mxu", core.mxu_ns * 1e-3},
            {"vpu", core.vpu_ns * 1e-3},
            {"compute", core.compute_ns * 1e-3},
            {"hbm", core.transfer_ns * 1e-3}}},
          {"blocks", json::value_from(layer.blocks)},
          {"notes", std::move(notes)}};
}

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// Names of streams are the kernel's: a2a_s (tokens to experts), a2a_g (rows back).
#include "backends/ironwood/fused_experts.h"

#include <boost/describe.hpp>
#include <boost/json.hpp>
#include <limits>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/model_report.h"

namespace ironcl::ironwood {

/// Tiles: tokens, rows of a dot, intermediate columns, hidden columns of gate and up, hidden columns of down.
struct FusedBlocks {
  std::int64_t bt = 0, btc = 0, bf = 0, bd1 = 0, bd2 = 0;
};
BOOST_DESCRIBE_STRUCT(FusedBlocks, (), (bt, btc, bf, bd1, bd2))

struct FusedTotals {
  CoreTotals core;
  std::int64_t token_tiles = 0;
  std::int64_t steps = 0;              ///< Tiles of weights, used or fetched for nothing.
  std::int64_t experts_with_rows = 0;  ///< Summed over tiles of tokens.
  std::int64_t experts_visited = 0;    ///< Likewise.
  std::int64_t rows = 0;               ///< Rows of all experts.
  std::int64_t rows_multiplied = 0;    ///< Rows given to the MXU: whole tiles of btc.
  std::int64_t copies_issued = 0;      ///< Row copies, most empty: two per token, slot and expert, and one to sum.
  std::int64_t barriers = 0;
  std::uint64_t weight_bytes = 0;
};
BOOST_DESCRIBE_STRUCT(FusedTotals, (),
                      (steps, token_tiles, experts_visited, experts_with_rows, rows, rows_multiplied, weight_bytes,
                       copies_issued, barriers))

namespace {

namespace json = boost::json;
using backend::Reason;
using numerics::ceil_div;
using numerics::DType;
using numerics::size_of;

/// Type of tokens, in which they are also multiplied.
constexpr DType kTokens = DType::bf16;

struct FusedLayer {
  std::int64_t tokens = 0, experts = 0, top_k = 0, hidden = 0, intermediate = 0;
  DType w = DType::e4m3fn;
  std::int64_t group = 0;  ///< K group of the weights' scales; 0: all of K; the kernel has a scale for every column.
  bool scaled = true;
  Machine machine;
  std::int64_t vmem_limit = 0;
  FusedBlocks blocks;
  std::vector<std::int32_t> ids;  ///< [tokens, top_k]; others than experts are ignored.
};

/// Tiles of one weight matrix in two slots; scales arrive with their codes.
struct WeightStream {
  HbmArray codes, scales;
  std::int64_t block_rows = 0, block_cols = 0, scale_rows = 0;
  Slots tile_slots, scale_slots;
};

class FusedKernel {
 public:
  FusedKernel(const FusedLayer& layer, std::int64_t vmem_limit, Timeline* timeline)
      : layer_(layer), core_(layer.machine, false, vmem_limit, timeline) {
    const FusedBlocks& b = layer.blocks;
    const std::int64_t padded_experts = numerics::round_up(layer.experts, 128);
    tokens_ = tight_array("tokens", layer.tokens, layer.hidden, 2);
    y_ = tight_array("y", layer.tokens, layer.hidden, 2);
    back_ = tight_array("a2a_g", layer.experts * b.bt, layer.hidden, 2);
    gating_ = tight_array("gating", layer.tokens, padded_experts, 2);
    const auto rows = [&](const char* name, int slots, std::int64_t count) {
      return Slots(core_, name, slots, count, layer.hidden, 2, true);
    };
    a2a_s_ = rows("a2a_s", 2, b.bt);
    a2a_s_acc_ = rows("a2a_s_acc", 2, b.bt);
    a2a_g_acc_ = rows("a2a_g_acc", 1, layer.top_k * b.bt);
    output_ = rows("output", 2, b.bt);
    gating_slots_ = Slots(core_, "gating", 2, b.bt, padded_experts, 2);
    core_.allocate("acc", 2, b.bt, b.bf, 4);
    gate_ = stream("w1", layer.intermediate, layer.hidden, b.bf, b.bd1);
    up_ = stream("w3", layer.intermediate, layer.hidden, b.bf, b.bd1);
    down_ = stream("w2", layer.hidden, layer.intermediate, b.bd2, b.bf);
    deal();
  }

  /// Of its buffers, in native tiles.
  std::int64_t vmem_bytes() { return core_.finish().vmem_bytes; }

  FusedTotals run() {
    core_.advance(layer_.machine.assume.launch_ns);
    totals_.token_tiles = ceil_div(layer_.tokens, layer_.blocks.bt);
    ++totals_.barriers;
    start_logits(0);
    for (std::int64_t tile = 0; tile < totals_.token_tiles; ++tile) token_tile(tile);
    for (const int slot : {0, 1}) output_.wait(slot);
    for (const WeightStream* stream : {&gate_, &up_, &down_})
      totals_.weight_bytes += stream->tile_slots.moved.bytes + stream->scale_slots.moved.bytes;
    totals_.core = core_.finish();
    return totals_;
  }

 private:
  WeightStream stream(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t block_rows,
                      std::int64_t block_cols) {
    WeightStream made;
    made.codes = tight_array(name, rows, cols, size_of(layer_.w));
    made.block_rows = block_rows, made.block_cols = block_cols;
    made.tile_slots = Slots(core_, name, 2, block_rows, block_cols, size_of(layer_.w));
    if (layer_.scaled) {
      const std::int64_t group = group_of(made.codes);
      made.scales = tight_array(name + "_scale", ceil_div(cols, group), rows, 4);
      made.scale_rows = ceil_div(block_cols, group);
      made.scale_slots = Slots(core_, made.scales.name, 2, made.scale_rows, block_rows, 4);
    }
    return made;
  }

  /// How many tokens each expert has in each tile of tokens.
  void deal() {
    counts_.assign(static_cast<std::size_t>(ceil_div(layer_.tokens, layer_.blocks.bt)),
                   std::vector<std::int64_t>(static_cast<std::size_t>(layer_.experts)));
    for (std::int64_t t = 0; t < layer_.tokens; ++t) {
      const auto first = layer_.ids.begin() + t * layer_.top_k;
      // An expert that a token names twice gets its row once: a slot holds a row for each token.
      for (auto id = first; id != first + layer_.top_k; ++id)
        if (*id >= 0 && *id < layer_.experts && std::find(first, id, *id) == id)
          ++counts_[static_cast<std::size_t>(t / layer_.blocks.bt)][static_cast<std::size_t>(*id)];
    }
  }
  std::int64_t count(std::int64_t tile, std::int64_t expert) const {
    return counts_[static_cast<std::size_t>(tile)][static_cast<std::size_t>(expert)];
  }
  std::int64_t tokens_of(std::int64_t tile) const {
    return std::min(layer_.blocks.bt, layer_.tokens - tile * layer_.blocks.bt);
  }

  std::int64_t group_of(const HbmArray& codes) const { return layer_.group == 0 ? codes.cols : layer_.group; }

  void start_logits(std::int64_t tile) {
    if (tile >= totals_.token_tiles) return;
    gating_slots_.copy_in(tile, gating_, {tile * layer_.blocks.bt, 0, tokens_of(tile), gating_.cols}, totals_.steps);
  }

  void fetch(WeightStream& stream, int in, std::int64_t row, std::int64_t col) {
    stream.tile_slots.copy_in(in, stream.codes,
                              block_region(stream.codes, stream.block_rows, stream.block_cols, {row, col}),
                              totals_.steps);
    if (!layer_.scaled) return;
    const std::int64_t first = col * stream.block_cols / group_of(stream.codes);
    Region region = block_region(stream.scales, stream.scale_rows, stream.block_rows, {0, row});
    region.row = first, region.rows = std::min(stream.scale_rows, stream.scales.rows - first);
    stream.scale_slots.copy_in(in, stream.scales, region, totals_.steps, &stream.tile_slots);
  }

  /// Tiles of an expert in the order in which they are used: for each tile of I, gate and up along H, then down.
  struct Tile {
    bool down = false;
    std::int64_t f = 0, d = 0;
  };
  std::vector<Tile> tiles_of_expert() const {
    const FusedBlocks& b = layer_.blocks;
    std::vector<Tile> tiles;
    for (std::int64_t f = 0; f < ceil_div(layer_.intermediate, b.bf); ++f) {
      for (std::int64_t d = 0; d < ceil_div(layer_.hidden, b.bd1); ++d) tiles.push_back({false, f, d});
      for (std::int64_t d = 0; d < ceil_div(layer_.hidden, b.bd2); ++d) tiles.push_back({true, f, d});
    }
    return tiles;
  }
  void fetch(const Tile& tile, int in) {
    if (tile.down) return fetch(down_, in, tile.d, tile.f);
    fetch(gate_, in, tile.f, tile.d);
    fetch(up_, in, tile.f, tile.d);
  }

  /// Time of `rows` rows of bf16 by a tile of weights: dots as deep as a K group, each scaled and added.
  Work work_of(const WeightStream& stream, const Tile& tile, std::int64_t rows) const {
    const Machine& machine = layer_.machine;
    const Region region = block_region(stream.codes, stream.block_rows, stream.block_cols,
                                       tile.down ? BlockIndex{tile.d, tile.f} : BlockIndex{tile.f, tile.d});
    const std::int64_t depth = layer_.scaled && layer_.group != 0 ? std::min(layer_.group, region.cols) : region.cols;
    const auto dots = static_cast<double>(ceil_div(region.cols, depth));
    Work work;
    work.mxu_ns = dots * dot_ns(machine, kTokens, layer_.w, rows, region.rows, depth);
    double operations = dots * rows * region.rows * (layer_.scaled ? 2 : 1);
    if (layer_.w == DType::i8)
      operations += 1.0 * region.rows * region.cols * machine.assume.vpu_ops_per_widened_element;
    // silu(gate) * up is made again for every tile of down: a clamp-free sigmoid is taken as four operations.
    if (tile.down) operations += 6.0 * rows * region.cols;
    work.vpu_ns = operations / machine.vpu_ops_per_s() * 1e9;
    return work;
  }

  void start_tokens(std::int64_t tile, std::int64_t expert) {
    // Every token and slot is looked at for every expert; a copy of no rows is issued where it is somebody else's.
    totals_.copies_issued += 2 * tokens_of(tile) * layer_.top_k;
    const std::int64_t rows = count(tile, expert);
    if (rows > 0) a2a_s_.copy_in(expert, tokens_, {0, 0, rows, layer_.hidden}, totals_.steps);
  }

  void expert(std::int64_t tile, std::int64_t e, const std::vector<Tile>& order) {
    const std::int64_t rows = count(tile, e);
    fetch(order.front(), 0);
    if (e + 1 < layer_.experts) start_tokens(tile, e + 1);
    a2a_s_.wait(e);
    const std::int64_t given = numerics::round_up(rows, layer_.blocks.btc);
    bool written = false;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Tile& here = order[i];
      const int in = static_cast<int>(i % 2);
      if (i + 1 < order.size()) fetch(order[i + 1], 1 - in);
      for (WeightStream* stream : here.down ? std::vector{&down_} : std::vector{&gate_, &up_}) {
        stream->tile_slots.wait(in);
        stream->tile_slots.readable(in);
        if (rows == 0) continue;
        a2a_s_.readable(e);
        if (here.down && !written) {
          // The kernel as read waits here for rows that went to other devices only; rows that stay may still be on
          // their way out of this slot, which this engine does not let pass.
          a2a_s_acc_.wait(e);
          a2a_s_acc_.writable(e);
          written = true;
        }
        core_.compute(work_of(*stream, here, given), totals_.steps,
                      core_.tracing() ? fmt::format("expert {}: {} rows by {}[{},{}]", e, rows, stream->codes.name,
                                                    here.f, here.d)
                                      : std::string());
      }
      ++totals_.steps;
    }
    ++totals_.experts_visited;
    if (rows > 0) {
      ++totals_.experts_with_rows;
      totals_.rows += rows;
      totals_.rows_multiplied += given;
      a2a_s_acc_.copy_out(e, back_, {e * layer_.blocks.bt, 0, rows, layer_.hidden}, totals_.steps);
    }
    ++totals_.barriers;
  }

  void token_tile(std::int64_t tile) {
    const std::int64_t tokens = tokens_of(tile);
    start_logits(tile + 1);
    gating_slots_.wait(tile);
    // The k best of each row of logits, one after another: a maximum, its place, a mask and a count a logit.
    core_.compute({.vpu_ns = 4.0 * static_cast<double>(layer_.top_k * tokens * gating_.cols) /
                             layer_.machine.vpu_ops_per_s() * 1e9},
                  totals_.steps, "route");
    totals_.barriers += 1;
    start_tokens(tile, 0);
    const std::vector<Tile> order = tiles_of_expert();
    for (std::int64_t e = 0; e < layer_.experts; ++e) expert(tile, e, order);
    for (const int slot : {0, 1}) a2a_s_acc_.wait(slot);
    sum(tile, tokens);
    totals_.barriers += 2;
  }

  /// The rows of the tile's tokens come in and are summed.
  void sum(std::int64_t tile, std::int64_t tokens) {
    const auto& counts = counts_[static_cast<std::size_t>(tile)];
    const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    totals_.copies_issued += tokens * layer_.top_k;
    if (rows > 0) {
      a2a_g_acc_.copy_in(0, back_, {0, 0, rows, layer_.hidden}, totals_.steps);
      a2a_g_acc_.wait(0);
    }
    core_.compute({.vpu_ns = 2.0 * static_cast<double>(tokens * layer_.top_k * layer_.hidden) /
                             layer_.machine.vpu_ops_per_s() * 1e9},
                  totals_.steps, "combine");
    output_.wait(tile);
    output_.writable(tile);
    output_.copy_out(tile, y_, {tile * layer_.blocks.bt, 0, tokens, layer_.hidden}, totals_.steps);
  }

  const FusedLayer& layer_;
  Core core_;
  HbmArray tokens_, y_, back_, gating_;
  Slots a2a_s_, a2a_s_acc_, a2a_g_acc_, output_, gating_slots_;
  WeightStream gate_, up_, down_;
  std::vector<std::vector<std::int64_t>> counts_;
  FusedTotals totals_;
};

/// The largest multiple of 128 that divides `size` and is at most `most` and half of `size`, which is rounded up to
/// 256 for that; 128 where there is none.
std::int64_t block_of(std::int64_t size, std::int64_t most) {
  constexpr std::int64_t kStep = 256, kLeast = 128;
  const std::int64_t half = std::min(numerics::round_up(size, kStep) / 2, most);
  for (std::int64_t block = half / kLeast * kLeast; block > kLeast; block -= kLeast)
    if (size % block == 0) return block;
  return kLeast;
}

std::optional<Refusal> choose_blocks(FusedLayer* layer) {
  constexpr std::int64_t kMostF = 1024, kMostD1 = 1024, kMostD2 = 2048, kMostTokens = 256, kDot = 64;
  FusedBlocks& b = layer->blocks;
  b.bf = block_of(layer->intermediate, kMostF);
  b.bd1 = block_of(layer->hidden, kMostD1);
  b.bd2 = block_of(layer->hidden, kMostD2);
  for (std::int64_t tokens = std::min(layer->tokens, kMostTokens);; tokens = ceil_div(tokens, 2)) {
    b.bt = tokens;
    b.btc = tokens <= 16 ? tokens : std::min(tokens, kDot);
    const std::int64_t needed = FusedKernel(*layer, std::numeric_limits<std::int64_t>::max(), nullptr).vmem_bytes();
    if (needed <= layer->vmem_limit) return std::nullopt;
    if (tokens == 1)
      return Refusal(Reason::device_memory,
                     "VMEM: fused_moe takes {} bytes with one token per tile and the limit is {}", needed,
                     layer->vmem_limit);
  }
}

/// The layer of a description (fused_experts.h), or the reason where it is none.
std::optional<Refusal> make_layer(const backend::GemmDesc& desc, const PlanRequest& request, FusedLayer* layer) {
  Problem p;
  if (auto refusal = read_problem(desc, &p)) return refusal;
  if (p.grouping != backend::Grouping::contiguous || p.a_rows < 1 || p.m < p.a_rows || p.m % p.a_rows != 0 ||
      p.n % 2 != 0) {
    return Refusal(Reason::shape,
                   "fused_moe is about a layer's first product: contiguous, m = T * k rows gathered from a_rows = T, "
                   "n = 2 I");
  }
  if (p.a != kTokens) {
    return Refusal(Reason::dtype, "fused_moe takes activations of bf16 and does not quantise them");
  }
  layer->tokens = p.a_rows, layer->top_k = p.m / p.a_rows, layer->experts = p.matrices;
  layer->hidden = p.k, layer->intermediate = p.n / 2;
  if (layer->hidden % 128 != 0 || layer->intermediate % 128 != 0) {
    return Refusal(Reason::shape, "fused_moe with hidden {} and intermediate {}; multiples of 128 are accepted",
                   layer->hidden, layer->intermediate);
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
    return Refusal(Reason::option, "ids has {} of {} tokens by {}", layer->ids.size(), layer->tokens, layer->top_k);
  }
  return choose_blocks(layer);
}

json::object report(const FusedLayer& layer, const FusedTotals& totals) {
  json::array notes;
  if (layer.scaled && layer.group != 0 && layer.group % 256 != 0) {
    notes.emplace_back(fmt::format(
        "the kernel takes scales of all of K or of multiples of 256 of it, not of {}: such weights are requantised "
        "first",
        layer.group));
  }
  const double flops = 6.0 * totals.rows * layer.hidden * layer.intermediate;
  json::object report = report_core(layer.machine, kTokens, layer.w, flops, totals.core);
  const json::value counts = json::value_from(totals);
  report.insert(counts.as_object().begin(), counts.as_object().end());
  report["program"] = "fused_moe";
  report["vmem_bytes"] = totals.core.vmem_bytes;
  report["blocks"] = json::value_from(layer.blocks);
  report["notes"] = std::move(notes);
  return report;
}

}  // namespace

boost::json::object fused_experts(const backend::GemmDesc& desc, const PlanRequest& request, bool trace) {
  FusedLayer layer;
  if (const auto refusal = make_layer(desc, request, &layer))
    throw backend::Error(backend::Status::unsupported, refusal->text);
  Timeline timeline;
  timeline.capacity = request.trace_spans;
  const FusedTotals totals = FusedKernel(layer, layer.vmem_limit, trace ? &timeline : nullptr).run();
  return trace ? chrome_trace(timeline, layer.machine, "fused_moe") : report(layer, totals);
}

}  // namespace ironcl::ironwood

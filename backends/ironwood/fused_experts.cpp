// SPDX-License-Identifier: Apache-2.0
// The schedule of fused_experts.h. Names of streams are the kernel's: a2a_s (tokens to experts), a2a_g (rows back).
#include "backends/ironwood/fused_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/pipeline.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::ironwood {
namespace {

using backend::Error;
using backend::Status;
using numerics::ceil_div;
using numerics::DType;
using numerics::size_of;

/// Tiles of one weight matrix in two slots; scales arrive with their codes.
struct WeightStream {
  std::vector<HbmArray> arrays, scale_arrays;  ///< Of each expert.
  std::int64_t block_rows = 0, block_cols = 0, scale_rows = 0;
  Slots tiles, scales;
};

class FusedKernel {
 public:
  FusedKernel(const FusedLayer& layer, Timeline* timeline, const FusedNumbers* numbers)
      : layer_(layer), numbers_(numbers), core_(layer.machine, numbers != nullptr, layer.vmem_limit, timeline) {
    const FusedBlocks& b = layer.blocks;
    tokens_ = array("tokens", layer.tokens, layer.hidden, 2);
    y_ = array("y", layer.tokens, layer.hidden, 2);
    back_ = array("a2a_g", layer.experts * b.bt, layer.hidden, 2);
    if (numbers != nullptr) {
      back_bytes_.resize(static_cast<std::size_t>(back_.rows * back_.row_bytes));
      tokens_.data = numbers->x, y_.data = numbers->y, back_.data = back_bytes_.data();
    }
    const std::int64_t padded_experts = numerics::round_up(layer.experts, 128);
    gating_ = array("gating", layer.tokens, padded_experts, 2);
    if (numbers != nullptr) {
      // Ids are given; the logits that are fetched are nobody's.
      gating_bytes_.resize(static_cast<std::size_t>(gating_.rows * gating_.row_bytes));
      gating_.data = gating_bytes_.data();
    }
    const auto rows = [&](const char* name, int slots, std::int64_t count) {
      return Slots(core_, name, slots, count, layer.hidden, 2, true);
    };
    a2a_s_ = rows("a2a_s", 2, b.bt);
    a2a_s_acc_ = rows("a2a_s_acc", 2, b.bt);
    a2a_g_acc_ = rows("a2a_g_acc", 1, layer.top_k * b.bt);
    output_ = rows("output", 2, b.bt);
    gating_slots_ = Slots(core_, "gating", 2, b.bt, padded_experts, 2);
    acc_ = &core_.allocate("acc", 2, b.bt, b.bf, 4);
    const FusedNumbers none;
    const FusedNumbers& from = numbers != nullptr ? *numbers : none;
    stream(gate_, "w1", layer.intermediate, layer.hidden, b.bf, b.bd1, from.gate);
    stream(up_, "w3", layer.intermediate, layer.hidden, b.bf, b.bd1, from.up);
    stream(down_, "w2", layer.hidden, layer.intermediate, b.bd2, b.bf, from.down);
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
    for (const WeightStream* stream : {&gate_, &up_, &down_}) {
      totals_.weight_bytes += stream->tiles.moved.bytes;
      if (stream->scales) totals_.weight_bytes += stream->scales.moved.bytes;
    }
    totals_.core = core_.finish();
    totals_.time_ns = totals_.core.end_ns;
    return totals_;
  }

 private:
  static HbmArray array(const char* name, std::int64_t rows, std::int64_t cols, std::uint32_t element) {
    return {.name = name, .rows = rows, .cols = cols, .row_bytes = cols * element, .element_bytes = element};
  }
  void stream(WeightStream& stream, const char* name, std::int64_t rows, std::int64_t cols, std::int64_t block_rows,
              std::int64_t block_cols, const FusedNumbers::Matrices& from) {
    const auto of_experts = [&](const HbmArray& one, std::byte* data) {
      std::vector<HbmArray> all(static_cast<std::size_t>(layer_.experts), one);
      for (std::size_t e = 0; data != nullptr && e < all.size(); ++e)
        all[e].data = data + static_cast<std::int64_t>(e) * one.rows * one.row_bytes;
      return all;
    };
    stream.arrays = of_experts(array(name, rows, cols, size_of(layer_.w)), from.codes);
    stream.block_rows = block_rows, stream.block_cols = block_cols;
    stream.tiles = Slots(core_, name, 2, block_rows, block_cols, size_of(layer_.w));
    if (layer_.scaled) {
      const std::int64_t group = layer_.group == 0 ? cols : layer_.group;
      const std::string scale_name = fmt::format("{}_scale", name);
      stream.scale_arrays = of_experts(array(scale_name.c_str(), ceil_div(cols, group), rows, 4),
                                       reinterpret_cast<std::byte*>(from.scales));
      stream.scale_rows = ceil_div(block_cols, group);
      if (numbers_ != nullptr && block_cols % group != 0 && group % block_cols != 0) {
        throw Error(Status::invalid_argument, "fused_moe: tiles of {} of k and scales for {} of k do not meet",
                    block_cols, group);
      }
      stream.scales = Slots(core_, scale_name, 2, stream.scale_rows, block_rows, 4);
    }
  }

  /// The tokens of each expert in each tile of tokens.
  void deal() {
    const std::int64_t tiles = ceil_div(layer_.tokens, layer_.blocks.bt);
    dealt_.assign(static_cast<std::size_t>(tiles), Dealt(static_cast<std::size_t>(layer_.experts)));
    for (std::int64_t t = 0; t < layer_.tokens; ++t) {
      for (std::int64_t j = 0; j < layer_.top_k; ++j) {
        const std::int32_t id = layer_.ids[static_cast<std::size_t>(t * layer_.top_k + j)];
        if (id < 0 || id >= layer_.experts) continue;
        // An expert that a token names twice gets its row once: a slot holds a row for each token.
        auto& own = dealt_[static_cast<std::size_t>(t / layer_.blocks.bt)][static_cast<std::size_t>(id)];
        if (own.empty() || own.back() != t) own.push_back(static_cast<std::int32_t>(t));
      }
    }
  }
  const std::vector<std::int32_t>& dealt(std::int64_t tile, std::int64_t expert) const {
    return dealt_[static_cast<std::size_t>(tile)][static_cast<std::size_t>(expert)];
  }
  std::int64_t count(std::int64_t tile, std::int64_t expert) const { return std::ssize(dealt(tile, expert)); }
  std::int64_t tokens_of(std::int64_t tile) const {
    return std::min(layer_.blocks.bt, layer_.tokens - tile * layer_.blocks.bt);
  }

  std::int64_t group_of(const HbmArray& codes) const { return layer_.group == 0 ? codes.cols : layer_.group; }

  void start_logits(std::int64_t tile) {
    if (tile >= totals_.token_tiles) return;
    gating_slots_.copy_in(tile, gating_, {tile * layer_.blocks.bt, 0, tokens_of(tile), gating_.cols}, totals_.steps);
  }

  void fetch(WeightStream& stream, std::int64_t e, int in, std::int64_t row, std::int64_t col) {
    const HbmArray& codes = stream.arrays[static_cast<std::size_t>(e)];
    stream.tiles.copy_in(in, codes, block_region(codes, stream.block_rows, stream.block_cols, {row, col}),
                         totals_.steps);
    if (stream.scales) {
      const HbmArray& scales = stream.scale_arrays[static_cast<std::size_t>(e)];
      const std::int64_t first = col * stream.block_cols / group_of(codes);
      Region region = block_region(scales, stream.scale_rows, stream.block_rows, {0, row});
      region.row = first, region.rows = std::min(stream.scale_rows, scales.rows - first);
      stream.scales.copy_in(in, scales, region, totals_.steps, &stream.tiles);
    }
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
  void fetch(const Tile& tile, std::int64_t e, int in) {
    if (tile.down) {
      fetch(down_, e, in, tile.d, tile.f);
    } else {
      fetch(gate_, e, in, tile.f, tile.d);
      fetch(up_, e, in, tile.f, tile.d);
    }
  }

  Region region_of(const WeightStream& stream, const Tile& tile) const {
    return block_region(stream.arrays.front(), stream.block_rows, stream.block_cols,
                        tile.down ? BlockIndex{tile.d, tile.f} : BlockIndex{tile.f, tile.d});
  }

  /// Time of `rows` rows of bf16 by a tile of weights: dots as deep as a K group, each scaled and added.
  Work work_of(const WeightStream& stream, const Tile& tile, std::int64_t rows) const {
    const Machine& machine = layer_.machine;
    const Region region = region_of(stream, tile);
    const std::int64_t depth = layer_.scaled && layer_.group != 0 ? std::min(layer_.group, region.cols) : region.cols;
    const auto dots = static_cast<double>(ceil_div(region.cols, depth));
    Work work;
    work.mxu_ns = dots * dot_ns(machine, kTokens, layer_.w, rows, region.rows, depth);
    double operations = static_cast<double>(rows) * static_cast<double>(region.rows) * dots * (layer_.scaled ? 2 : 1);
    if (layer_.w == DType::i8) {
      operations += static_cast<double>(region.rows) * static_cast<double>(region.cols) *
                    machine.assume.vpu_ops_per_widened_element;
    }
    // silu(gate) * up is made again for every tile of down: a clamp-free sigmoid is taken as four operations.
    if (tile.down) operations += 6.0 * static_cast<double>(rows) * static_cast<double>(region.cols);
    work.vpu_ns = operations / machine.vpu_ops_per_s() * 1e9;
    return work;
  }

  void start_tokens(std::int64_t tile, std::int64_t expert) {
    // Every token and slot is looked at for every expert; a copy of no rows is issued where it is somebody else's.
    totals_.copies_issued += 2 * tokens_of(tile) * layer_.top_k;
    const std::int64_t rows = count(tile, expert);
    if (rows == 0) return;
    HbmArray& gathered = sent_[static_cast<std::size_t>(expert % 2)];
    gathered = tokens_;
    gathered.rows = rows;
    gathered.row_index = dealt(tile, expert).data();
    a2a_s_.copy_in(expert, gathered, {0, 0, rows, layer_.hidden}, totals_.steps);
  }

  void expert(std::int64_t tile, std::int64_t e, const std::vector<Tile>& order) {
    const std::int64_t rows = count(tile, e);
    fetch(order.front(), e, 0);
    if (e + 1 < layer_.experts) start_tokens(tile, e + 1);
    a2a_s_.wait(e);
    const std::int64_t given = numerics::round_up(rows, layer_.blocks.btc);
    bool written = false;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Tile& here = order[i];
      const int in = static_cast<int>(i % 2);
      if (i + 1 < order.size()) fetch(order[i + 1], e, 1 - in);
      for (WeightStream* stream : here.down ? std::vector{&down_} : std::vector{&gate_, &up_}) {
        stream->tiles.wait(in);
        stream->tiles.readable(in);
        if (rows == 0) continue;
        if (here.down && !written) {
          // The kernel as read waits here for rows that went to other devices only; rows that stay may still be on
          // their way out of this slot, which this engine does not let pass.
          a2a_s_acc_.wait(e);
          a2a_s_acc_.writable(e);
          written = true;
        }
        core_.compute(work_of(*stream, here, given), totals_.steps,
                      core_.tracing() ? fmt::format("expert {}: {} rows by {}[{},{}]", e, rows,
                                                    stream->arrays.front().name, here.f, here.d)
                                      : std::string());
        if (core_.with_data()) multiply(*stream, here, in, e, rows);
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

  /// The numbers of one tile of weights: [rows, n of the tile] sums over its k, a K group after another in f32, each
  /// formed exactly and rounded once, then scaled. `a(row, k)` is what is multiplied, k from the tile's first.
  template <class A, class Take>
  void dots(const WeightStream& stream, const Tile& tile, int in, std::int64_t rows, const A& a, const Take& take) {
    const Region region = region_of(stream, tile);
    const std::byte* codes = stream.tiles.readable(in);
    const auto* scales = stream.scales ? reinterpret_cast<const float*>(stream.scales.readable(in)) : nullptr;
    const std::int64_t group = std::min(group_of(stream.arrays.front()), region.cols);
    std::vector<double> w(static_cast<std::size_t>(region.cols));
    for (std::int64_t n = 0; n < region.rows; ++n) {
      numerics::decode(layer_.w, codes, n * stream.block_cols, std::span<double>(w));
      for (std::int64_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (std::int64_t first = 0; first < region.cols; first += group) {
          double dot = 0;
          for (std::int64_t k = first; k < std::min(first + group, region.cols); ++k)
            dot += a(row, k) * w[static_cast<std::size_t>(k)];
          const float scale = scales == nullptr ? 1.0f : scales[first / group * stream.block_rows + n];
          sum += static_cast<float>(dot) * scale;
        }
        take(row, n, sum);
      }
    }
  }

  void multiply(const WeightStream& stream, const Tile& tile, int in, std::int64_t e, std::int64_t rows) {
    const FusedBlocks& b = layer_.blocks;
    if (tile.down) {
      const auto* gate = reinterpret_cast<const float*>(core_.readable(*acc_, 0));
      const auto* up = reinterpret_cast<const float*>(core_.readable(*acc_, 1));
      auto* out = reinterpret_cast<std::uint16_t*>(a2a_s_acc_.writable(e)) + tile.d * b.bd2;
      const auto act = [&](std::int64_t row, std::int64_t i) {
        const float g = gate[row * b.bf + i];
        return static_cast<double>(g / (1 + std::exp(-g)) * up[row * b.bf + i]);
      };
      dots(stream, tile, in, rows, act, [&](std::int64_t row, std::int64_t n, float sum) {
        std::uint16_t& to = out[row * layer_.hidden + n];
        const auto cut = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(sum) >> 16);
        to = tile.f == 0 ? cut : bf16_of(float_of(to) + float_of(cut));
      });
      return;
    }
    const auto* x = reinterpret_cast<const std::uint16_t*>(a2a_s_.readable(e)) + tile.d * b.bd1;
    auto* acc = reinterpret_cast<float*>(core_.writable(*acc_, &stream == &gate_ ? 0 : 1));
    dots(
        stream, tile, in, rows,
        [&](std::int64_t row, std::int64_t k) { return static_cast<double>(float_of(x[row * layer_.hidden + k])); },
        [&](std::int64_t row, std::int64_t n, float sum) {
          float& to = acc[row * b.bf + n];
          to = tile.d == 0 ? sum : to + sum;
        });
  }

  static float float_of(std::uint16_t bf16) { return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16); }
  static std::uint16_t bf16_of(float value) {
    std::uint16_t bits = 0;
    numerics::encode(DType::bf16, {&value, 1}, &bits, numerics::Overflow::plain);
    return bits;
  }

  /// Weighted and summed in f32, in the order of a token's slots. `places`: of each slot of the tile its row among
  /// those that came in; -1: nobody's.
  void combine(std::int64_t tile, std::int64_t tokens, const std::vector<std::int64_t>& places) {
    const auto* rows = reinterpret_cast<const std::uint16_t*>(a2a_g_acc_.readable(0));
    auto* out = reinterpret_cast<std::uint16_t*>(output_.writable(tile));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t col = 0; col < layer_.hidden; ++col) {
        float sum = 0;
        for (std::int64_t j = 0; j < layer_.top_k; ++j) {
          const std::int64_t place = places[static_cast<std::size_t>(t * layer_.top_k + j)];
          if (place < 0) continue;
          const float weight = numbers_->weights[(tile * layer_.blocks.bt + t) * layer_.top_k + j];
          sum += weight * float_of(rows[place * layer_.hidden + col]);
        }
        out[t * layer_.hidden + col] = bf16_of(sum);
      }
    }
  }

  /// The k rows of each token come in and are summed.
  void sum(std::int64_t tile, std::int64_t tokens) {
    // Which rows of which experts, slot after slot; an expert's rows lie in the order of its tokens.
    std::vector<std::int32_t> from;
    std::vector<std::int64_t> places;
    for (std::int64_t slot = tile * layer_.blocks.bt * layer_.top_k; std::ssize(places) < tokens * layer_.top_k;
         ++slot) {
      const std::int32_t id = layer_.ids[static_cast<std::size_t>(slot)];
      places.push_back(-1);
      if (id < 0 || id >= layer_.experts) continue;
      const auto& own = dealt(tile, id);
      const auto at = std::lower_bound(own.begin(), own.end(), static_cast<std::int32_t>(slot / layer_.top_k));
      const auto row = static_cast<std::int32_t>(id * layer_.blocks.bt + (at - own.begin()));
      const auto found = std::find(from.begin(), from.end(), row);
      places.back() = found - from.begin();
      if (found == from.end()) from.push_back(row);
    }
    const auto rows = std::ssize(from);
    totals_.copies_issued += tokens * layer_.top_k;
    if (rows > 0) {
      HbmArray gathered = back_;
      gathered.rows = rows;
      gathered.row_index = from.data();
      a2a_g_acc_.copy_in(0, gathered, {0, 0, rows, layer_.hidden}, totals_.steps);
      a2a_g_acc_.wait(0);
    }
    core_.compute({.vpu_ns = 2.0 * static_cast<double>(tokens * layer_.top_k * layer_.hidden) /
                             layer_.machine.vpu_ops_per_s() * 1e9},
                  totals_.steps, "combine");
    output_.wait(tile);
    output_.writable(tile);
    if (core_.with_data()) combine(tile, tokens, places);
    output_.copy_out(tile, y_, {tile * layer_.blocks.bt, 0, tokens, layer_.hidden}, totals_.steps);
  }

  using Dealt = std::vector<std::vector<std::int32_t>>;  // Tokens of each expert.

  const FusedLayer& layer_;
  const FusedNumbers* numbers_;
  Core core_;
  HbmArray tokens_, y_, back_, gating_;
  Slots a2a_s_, a2a_s_acc_, a2a_g_acc_, output_, gating_slots_;
  VmemBuffer* acc_ = nullptr;
  WeightStream gate_, up_, down_;
  std::vector<Dealt> dealt_;
  std::array<HbmArray, 2> sent_;  ///< Of the tokens that are on their way, or came last.
  std::vector<std::byte> back_bytes_, gating_bytes_;
  FusedTotals totals_;
};

}  // namespace

std::int64_t fused_vmem_bytes(FusedLayer layer) {
  layer.vmem_limit = std::numeric_limits<std::int64_t>::max();
  return FusedKernel(layer, nullptr, nullptr).vmem_bytes();
}

FusedTotals run_fused_experts(const FusedLayer& layer, Timeline* timeline, const FusedNumbers* numbers) {
  return FusedKernel(layer, timeline, numbers).run();
}

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// A whole layer of experts as one kernel, its time and its numbers: the schedule of fused_moe v1 of tpu-inference
// (kernels/fused_moe/v1/kernel.py) on one core, where no token travels to another device. Tokens come row by row into
// their expert's slot; gate, up and down follow tile by tile; rows go back to HBM and come in again, k for each
// token, to be summed. Everything has two slots and semaphores that count bytes. Activations stay bf16.
//
// What the schedule shows: the weights of every expert are fetched for every tile of tokens, whether it has rows or
// not; an expert's first weights are asked for only when its turn has come; there is a barrier after each expert.
// Numbers, where they are asked for, are what this schedule computes from the bytes that its copies have brought: a
// slot that is read too early or overwritten too early is wrong. They are the kernel's own, with its three
// peculiarities: scales of a column and K group; rows of an expert are cut, not rounded, to bf16 for each tile of I,
// and added in bf16; rows are weighted and summed in f32. A layer on the device runs as its steps do (operations.h),
// with the class f32.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/ironwood/core.h"
#include "backends/ironwood/plan.h"

namespace ironcl::ironwood {

/// Type of tokens, in which they are also multiplied.
inline constexpr numerics::DType kTokens = numerics::DType::bf16;

/// Tiles: tokens, rows of a dot, intermediate columns, hidden columns of gate and up, hidden columns of down.
struct FusedBlocks {
  std::int64_t bt = 0, btc = 0, bf = 0, bd1 = 0, bd2 = 0;
};

struct FusedLayer {
  std::int64_t tokens = 0, experts = 0, top_k = 0, hidden = 0, intermediate = 0;
  numerics::DType w = numerics::DType::e4m3fn;
  std::int64_t group = 0;  ///< K group of the weights' scales; 0: all of K; the kernel has a scale for every column.
  bool scaled = true;
  Machine machine;
  std::int64_t vmem_limit = 0;
  FusedBlocks blocks;
  std::vector<std::int32_t> ids;  ///< [tokens, top_k]; others than experts are ignored.
};

/// The layer that a description of its first product means: m = T * k rows gathered from a_rows = T tokens, n = 2 I,
/// k = H, weights of gate above those of up; ids from the request, else spread evenly. Its blocks are the kernel's
/// own rule, hidden blocks cut to divisors of H (the rule gives others, which the kernel refuses) and tokens halved
/// until the buffers fit (it asks for 100 MiB of a VMEM of 64). Returns the reason where that is no such layer.
std::optional<Refusal> make_fused_layer(const backend::GemmDesc& desc, const PlanRequest& request, FusedLayer* layer);

struct FusedTotals {
  CoreTotals core;
  double time_ns = 0;
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

/// What a layer is computed from, and y: host memory, tight, that outlives the run. Only y is written.
struct FusedNumbers {
  /// Codes [E, n, k], and where the layer is scaled f32 [E, K groups, n].
  struct Matrices {
    std::byte* codes = nullptr;
    float* scales = nullptr;
  };
  std::byte* x = nullptr;          ///< bf16 [T, H]
  const float* weights = nullptr;  ///< [T, k]
  Matrices gate, up, down;
  std::byte* y = nullptr;  ///< bf16 [T, H]
};

/// Bytes of VMEM that the schedule takes, whatever the layer's limit.
std::int64_t fused_vmem_bytes(FusedLayer layer);

/// Runs the schedule; `numbers` null: for its time only, which is the same. Throws Error(internal) where it breaks
/// the engine's rules, Error(invalid_argument) for a K group of the scales that tiles do not keep whole.
FusedTotals run_fused_experts(const FusedLayer& layer, Timeline* timeline, const FusedNumbers* numbers = nullptr);

/// The run as JSON, with the keys of report_model where they mean the same.
boost::json::object report_fused(const FusedLayer& layer, const FusedTotals& totals);

}  // namespace ironcl::ironwood

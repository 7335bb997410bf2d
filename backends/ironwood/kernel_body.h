// SPDX-License-Identifier: Apache-2.0
// The body of a grid step: quantise x where asked, multiply K group by K group, scale, accumulate, and finish the
// output block on the last step along K. Shared by all programs; what it costs is cost.h's.
//
// The sum of a K group is formed in f64 and rounded once to f32. Of two e4m3fn numbers a product is a multiple of
// 2^-18 below 2^18, so a sum of 2^17 of them is a multiple of 2^-18 below 2^35: 53 bits, exact in f64 whatever the
// order; two of int8, and int8 by e4m3fn, need fewer. For unquantised x, and where e5m2 takes part (its exponents
// span 32 binades), the products are exact and long sums need not be; there the order is fixed: k ascending within
// the group, also where the group is spread over several steps. So the result depends neither on blocks nor on
// threads.
#pragma once

#include "backends/ironwood/core.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/workers.h"

namespace ironcl::ironwood {

/// Rows of an operand in VMEM: the valid part of a slot, whose pitch is the block's depth.
struct TileRows {
  const std::byte* data = nullptr;
  numerics::DType type = numerics::DType::none;
  std::int64_t rows = 0;
};

/// One step's blocks in VMEM, pointers null where only time is simulated. Pitches are the block widths.
struct StepTile {
  Region x, w;  ///< The parts of X and W that the blocks cover.
  const std::byte* x_data = nullptr;
  const std::byte* w_data = nullptr;
  const std::byte* x_scale = nullptr;
  const std::byte* w_scale = nullptr;
  const std::byte* bias = nullptr;
  std::byte* out = nullptr;
  bool x_changed = true;  ///< The step before had another block of x.
  bool first_k = false, last_k = false;
  std::int64_t x_scale_row = 0;  ///< The row of X where the block of its scales begins.
  std::int64_t rows = 0;         ///< Rows given to the MXU.
};

class KernelBody {
 public:
  /// Allocates the scratch of the plan in the core's VMEM. `workers` null: no data.
  KernelBody(Core& core, const Plan& plan, std::int64_t m, Workers* workers);

  /// Does the step and returns its cost.
  Work step(const StepTile& tile);

 private:
  /// row(i, scratch) for each of `rows`, on several threads where rows times cols are many.
  template <class Row>
  void for_rows(std::int64_t rows, std::int64_t cols, const Row& row);
  void quantize(const StepTile& tile);
  void multiply(const StepTile& tile);
  /// acc[i, j] += (f32(sum over the K group of x[i] * w[j]) * scale_n[j]) * scale_m[i], when the run of `depth` k
  /// from `first` on `ends` its group; until then the sum is kept, so runs of one group follow each other.
  void multiply_run(const TileRows& x, const TileRows& w, std::int64_t first, std::int64_t depth, bool begins,
                    bool ends);
  void store(const StepTile& tile);

  const Plan& plan_;
  Workers* workers_;
  ScaleLayout x_layout_, w_layout_;
  std::byte* x_q_ = nullptr;  // quantised block of x, [B, I]
  float* acc_ = nullptr;      // [B, O]
  AlignedBytes x_q_temporary_, acc_temporary_;
  std::vector<float> scale_m_, scale_n_;
  std::vector<double> x_panels_, w_panels_, sums_;
};

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// The body of a grid step: quantise x where asked, multiply K group by K group, scale, accumulate, and finish the
// output block on the last step along K. Shared by all programs; what it costs is cost.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/ironwood/core.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/tile_product.h"

namespace ironcl::ironwood {

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
  std::int64_t x_scale_row =
      -1;                 ///< The row of X where the block of its scales begins; -1: that of an aligned block.
  std::int64_t rows = 0;  ///< That the MXU is given; 0: by the program's rule.
};

class KernelBody {
 public:
  /// Allocates the scratch of the plan in the core's VMEM. `workers` null: no data.
  KernelBody(Core& core, const Plan& plan, std::int64_t m, Workers* workers);

  /// Does the step and returns its cost.
  Work step(const StepTile& tile);

 private:
  void quantize(const StepTile& tile);
  void fill_scales(const StepTile& tile, std::int64_t run_first);
  void multiply(const StepTile& tile);
  void store(const StepTile& tile);

  const Plan& plan_;
  Workers* workers_;
  TileProduct product_;
  ScaleLayout x_layout_, w_layout_;
  std::byte* x_q_ = nullptr;  // quantised block of x, [B, I]
  float* acc_ = nullptr;      // [B, O]
  AlignedBytes x_q_temporary_, acc_temporary_;
  std::vector<float> scale_m_, scale_n_;
  Work work_[2][2];  // [quantizes][stores]
};

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// The hardware tables: Ironwood and two generations before it, one TensorCore the unit, each number with its source;
// and the assumptions, which are what nobody publishes. Next door: cost.h (what an operation takes on a machine).
#pragma once

#include <span>

#include "backends/numerics/formats.h"

namespace ironcl::ironwood {

/// One TensorCore of a TPU generation. Source of every field: jax/_src/tpu_info.py at cec06d1, which gives chip
/// values; here they are divided by the TensorCores of a chip. A rate of 0 means "not available" there.
struct Tpu {
  std::string_view key;   ///< "7x": the name in options and on command lines.
  std::string_view name;  ///< "Ironwood (TPU7x)".
  int generation = 0;
  int cores_per_chip = 0;
  int mxu_size = 128;  ///< Rows and columns of a systolic array.
  int mxus = 0;
  int lanes = 128;
  int sublanes = 8;
  std::int64_t vmem_bytes = 0;
  double hbm_bytes = 0;
  double hbm_bytes_per_s = 0;
  double bf16_flops = 0, int8_ops = 0, fp8_flops = 0;
  std::string_view source = "jax/_src/tpu_info.py cec06d1, chip values divided by TensorCores of a chip";
};

/// All generations, oldest first.
std::span<const Tpu> all_tpus() noexcept;

/// The generation of that key ("7x", "v5e", ...); null where there is none.
const Tpu* find_tpu(std::string_view key) noexcept;

/// The default: Ironwood.
const Tpu& ironwood_tpu() noexcept;

/// What is not public. Every value is a guess with a reason, can be set by the option of the same name, and is
/// printed with each modelled time.
struct Assumptions {
  /// Nanoseconds from the call to the first DMA, and back. Fits the published 128 and 256 bf16 rows (1.62, 1.83 us).
  double launch_ns = 1600;
  /// Part of the MXU's peak that a long dot reaches. One number for all sizes and types, see docs/ironwood.md.
  double mxu_efficiency = 0.82;
  /// Part of the HBM's peak that block transfers reach. 1 reproduces the published closed forms.
  double hbm_efficiency = 1;
  /// From issue to first byte, hidden where a transfer is issued early enough. Not public: 0 unless asked.
  double dma_latency_ns = 0;
  /// Scalar work of a grid step (index maps, descriptors). Not public: 0 unless asked.
  double step_overhead_ns = 0;
  /// Element operations per second of the vector unit; 0: sublanes x lanes x 4 ALUs at the clock of
  /// Machine::clock_hz.
  double vpu_ops_per_s = 0;
  /// Vector operations to quantise an element: times a block's reciprocal scale, narrow and pack.
  double vpu_ops_per_quantised_element = 2;
  /// Vector operations to widen an element that the MXU does not take as it is (int8 on a TPU without an int8 rate,
  /// or beside another type) to bf16, where every code of int8 and fp8 is exact.
  double vpu_ops_per_widened_element = 1;
  /// Vector operations to finish an output element: narrow and pack. (Scaling and adding a K group's sum are counted
  /// as the published body writes them: one for each scale, one for the addition.)
  double vpu_ops_per_stored_element = 1;
};

/// A TensorCore as modelled.
struct Machine {
  const Tpu* tpu = &ironwood_tpu();
  Assumptions assume;

  /// Rows of the left operand per second through all MXUs, each with a resident mxu_size x mxu_size tile, at the peak
  /// of the operand type (e5m2 runs at e4m3fn's). 0 where the TPU does not multiply the type.
  double rows_per_s(numerics::DType type) const noexcept;
  /// The core's clock as the bf16 peak implies it: a 128-wide array takes one row per clock, a 256-wide one two. That
  /// gives the known clocks of v5e (1.5 GHz) and v6e (1.75); 2.2 GHz for 7x, which is not public.
  double clock_hz() const noexcept;
  double vpu_ops_per_s() const noexcept;
  /// Bytes per nanosecond between HBM and VMEM, both directions together.
  double hbm_bytes_per_ns() const noexcept { return tpu->hbm_bytes_per_s * assume.hbm_efficiency * 1e-9; }
  /// Rows of a native tile: 8 for f32, 16 for bf16, 32 for 8-bit from generation 7 on.
  std::int64_t sublane_tile(std::uint32_t element_bytes) const noexcept;
  /// Bytes of a rows x cols array in VMEM: padded to native tiles.
  std::int64_t padded_bytes(std::int64_t rows, std::int64_t cols, std::uint32_t element_bytes) const;
};

/// The cap that the 1D kernel's upstream applies on generation 7 (tuned_block_sizes.py), and the default scoped
/// limit.
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kUpstreamVmemCap = 48 * kMiB;
inline constexpr std::int64_t kScopedVmemDefault = 32 * kMiB;

}  // namespace ironcl::ironwood

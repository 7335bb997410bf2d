// SPDX-License-Identifier: Apache-2.0
// The numbers of machine.h.
#include "backends/ironwood/machine.h"

#include <algorithm>
#include <array>

#include "backends/numerics/checked.h"

namespace ironcl::ironwood {
namespace {

using numerics::DType;

// Designated initialisers, one generation a block, so that a value and its name stand together.
constexpr std::array<Tpu, 4> kTpus = {{
    {.key = "v5e",
     .name = "TPU v5e",
     .generation = 5,
     .cores_per_chip = 1,
     .mxus = 4,
     .vmem_bytes = 128 * kMiB,
     .hbm_bytes = 17.2e9,
     .hbm_bytes_per_s = 8.20e11,
     .bf16_flops = 1.97e14,
     .int8_ops = 3.94e14},
    {.key = "v6e",
     .name = "TPU v6e",
     .generation = 6,
     .cores_per_chip = 1,
     .mxu_size = 256,
     .mxus = 2,
     .vmem_bytes = 128 * kMiB,
     .hbm_bytes = 34.4e9,
     .hbm_bytes_per_s = 1.64e12,
     .bf16_flops = 9.20e14,
     .int8_ops = 1.84e15,
     .fp8_flops = 9.20e14},
    {.key = "7x",
     .name = "Ironwood (TPU7x)",
     .generation = 7,
     .cores_per_chip = 2,
     .mxu_size = 256,
     .mxus = 2,
     .vmem_bytes = 64 * kMiB,
     .hbm_bytes = 206e9 / 2,
     .hbm_bytes_per_s = 7.38e12 / 2,
     .bf16_flops = 2.307e15 / 2,
     .fp8_flops = 4.614e15 / 2,
     .source = "Google Cloud TPU7x page for rates (2307 and 4614 TFLOP/s, 7380 GB/s per chip); the rest as 7x-jax"},
    {.key = "7x-jax",
     .name = "Ironwood (TPU7x), rates of JAX",
     .generation = 7,
     .cores_per_chip = 2,
     .mxu_size = 256,
     .mxus = 2,
     .vmem_bytes = 64 * kMiB,
     .hbm_bytes = 206e9 / 2,
     .hbm_bytes_per_s = 7.40e12 / 2,
     .bf16_flops = 2.31e15 / 2,
     .fp8_flops = 4.60e15 / 2},
}};

}  // namespace

std::span<const Tpu> all_tpus() noexcept { return kTpus; }

const Tpu* find_tpu(std::string_view key) noexcept {
  const Tpu* const found = std::ranges::find(kTpus, key, &Tpu::key);
  return found == kTpus.end() ? nullptr : found;
}

const Tpu& ironwood_tpu() noexcept { return *find_tpu("7x"); }

double Machine::rows_per_s(DType type) const noexcept {
  double flops = tpu->bf16_flops;
  // Before generation 7 the MXU takes other fp8 formats only; e4m3fn is widened to bf16 and runs at its rate.
  if ((type == DType::e4m3fn || type == DType::e5m2) && tpu->generation >= 7) flops = tpu->fp8_flops;
  if (type == DType::i8) flops = tpu->int8_ops;
  return flops * assume.mxu_efficiency / (2.0 * tpu->mxu_size * tpu->mxu_size);
}

double Machine::clock_hz() const noexcept {
  const double rows = tpu->bf16_flops / tpu->mxus / (2.0 * tpu->mxu_size * tpu->mxu_size);
  return tpu->mxu_size > 128 ? rows / 2 : rows;
}

double Machine::vpu_ops_per_s() const noexcept {
  if (assume.vpu_ops_per_s > 0) return assume.vpu_ops_per_s;
  return tpu->sublanes * tpu->lanes * 4.0 * clock_hz();
}

std::int64_t Machine::sublane_tile(std::uint32_t element_bytes) const noexcept {
  // JAX get_sublane_tiling: from generation 7 on every narrower type packs; before it 16-bit types kept 8 rows.
  if (element_bytes >= 4) return 8;
  if (element_bytes == 2) return tpu->generation >= 7 ? 16 : 8;
  return 32;
}

std::int64_t Machine::padded_bytes(std::int64_t rows, std::int64_t cols, std::uint32_t element_bytes) const {
  using numerics::Size;
  const Size elements = Size(rows).padded_to(sublane_tile(element_bytes)) * Size(cols).padded_to(tpu->lanes);
  return (elements * element_bytes).value();
}

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a step, on tiles in the modelled VMEM.
#include "backends/ironwood/kernel_body.h"

#include <cstring>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/microkernel.h"
#include "backends/ironwood/program.h"
#include "backends/numerics/casts.h"

namespace ironcl::ironwood {
namespace {

using numerics::ceil_div;
using numerics::DType;

/// Element of a scale block for (row group, K group), both counted from the block's first.
float scale_at(const std::byte* block, const ScaleLayout& layout, std::int64_t row_group, std::int64_t k_group) {
  const std::int64_t row = layout.transposed ? k_group : row_group;
  const std::int64_t col = layout.transposed ? row_group : k_group;
  float value = 0;
  std::memcpy(&value, block + (row * layout.block_cols + col) * 4, sizeof(value));
  return value;
}

/// The first group of the block that holds element `at`.
std::int64_t first_group(std::int64_t at, std::int64_t group, std::int64_t block) {
  return at / group / block * block;
}

/// Scales of the rows of a region, for the K group that contains `k`. `first_row`: where their block begins.
void expand(const std::byte* block, const ScaleLayout& layout, const Region& region, std::int64_t first_row,
            std::int64_t k, float* to) {
  const std::int64_t block_k = layout.transposed ? layout.block_rows : layout.block_cols;
  const std::int64_t k_group = k / layout.group_cols - first_group(region.col, layout.group_cols, block_k);
  const std::int64_t base = first_row / layout.group_rows;
  for (std::int64_t i = 0; i < region.rows;) {
    const std::int64_t group = (region.row + i) / layout.group_rows;
    const std::int64_t end = std::min(region.rows, (group + 1) * layout.group_rows - region.row);
    const float value = scale_at(block, layout, group - base, k_group);
    for (; i < end; ++i) to[i] = value;
  }
}

constexpr std::int64_t kRowsATask = 16;

constexpr std::int64_t kLongestRun = 512;                      // of k in panels at once: bounds their memory
constexpr std::int64_t kSmallProduct = std::int64_t{1} << 18;  // multiplications not worth a second thread

/// Panel of `width` rows from `row` on, k-major: panel[p * width + i]. Rows past the tile are zero. `pitch`: elements
/// from a row of the tile to the next.
void pack(const TileRows& tile, std::int64_t pitch, std::int64_t row, int width, std::int64_t first,
          std::int64_t depth, double* panel) {
  const std::int64_t valid = std::min<std::int64_t>(width, tile.rows - row);
  for (int i = 0; i < width; ++i) {
    double* to = panel + i;
    if (i >= valid) {
      for (std::int64_t p = 0; p < depth; ++p) to[p * width] = 0.0;
      continue;
    }
    const std::byte* from = tile.data + ((row + i) * pitch + first) * numerics::size_of(tile.type);
    std::array<double, kLongestRun> decoded;
    numerics::decode(tile.type, from, std::span<double>(decoded.data(), static_cast<std::size_t>(depth)));
    for (std::int64_t p = 0; p < depth; ++p) to[p * width] = decoded[static_cast<std::size_t>(p)];
  }
}

}  // namespace

KernelBody::KernelBody(Core& core, const Plan& plan, std::int64_t m, Workers* workers)
    : plan_(plan), workers_(workers) {
  const KernelBlocks& blocks = plan.blocks;
  if (plan.problem.scaled_x()) x_layout_ = plan.x_scales(m);
  if (plan.problem.scaled_w()) w_layout_ = plan.w_scales();
  VmemBuffer* acc = plan.save_acc ? &core.allocate("acc", 1, blocks.b, blocks.o, 4) : nullptr;
  VmemBuffer* x_q = plan.save_x_q ? &core.allocate("x_q", 1, blocks.b, blocks.i, 1) : nullptr;
  if (!core.with_data()) return;
  const auto outputs = static_cast<std::uint64_t>(blocks.b) * static_cast<std::uint64_t>(blocks.o);
  if (acc == nullptr) acc_temporary_ = allocate_aligned(outputs * 4);
  acc_ = reinterpret_cast<float*>(acc != nullptr ? acc->data.get() : acc_temporary_.get());
  if (plan.problem.quantizes_x()) {
    if (x_q == nullptr) x_q_temporary_ = allocate_aligned(static_cast<std::uint64_t>(blocks.b * blocks.i));
    x_q_ = x_q != nullptr ? x_q->data.get() : x_q_temporary_.get();
  }
  // Rows past a ragged edge are never read; the vectors are as long as a block all the same.
  scale_m_.assign(static_cast<std::size_t>(blocks.b), 1.0f);
  scale_n_.assign(static_cast<std::size_t>(blocks.o), 1.0f);
}

Work KernelBody::step(const StepTile& tile) {
  const bool quantizes = plan_.problem.quantizes_x() && (!plan_.save_x_q || tile.x_changed);
  if (workers_ != nullptr) {
    if (quantizes) quantize(tile);
    if (tile.first_k) {
      std::fill_n(acc_, static_cast<std::size_t>(plan_.blocks.b * plan_.blocks.o), 0.0f);
    }
    multiply(tile);
    if (tile.last_k) store(tile);
  }
  return step_work(plan_, tile.rows, quantizes, tile.last_k);
}

template <class Row>
void KernelBody::for_rows(std::int64_t rows, std::int64_t cols, const Row& row) {
  workers_->run(
      ceil_div(rows, kRowsATask),
      [&](std::int64_t task) {
        std::vector<float> scratch;
        for (std::int64_t i = task * kRowsATask; i < std::min(rows, (task + 1) * kRowsATask); ++i) row(i, scratch);
      },
      rows * cols < (1 << 15) ? 1 : plan_.threads);
}

void KernelBody::quantize(const StepTile& tile) {
  const DType source = plan_.problem.x();
  const std::int64_t width = plan_.blocks.i;
  const std::int64_t element = numerics::size_of(source);
  const std::int64_t group_cols = std::min(x_layout_.group_cols, width);
  const std::int64_t block_k = x_layout_.transposed ? x_layout_.block_rows : x_layout_.block_cols;
  const std::int64_t base_m = tile.x_scale_row / x_layout_.group_rows;
  const std::int64_t base_k = first_group(tile.x.col, x_layout_.group_cols, block_k);
  for_rows(tile.x.rows, tile.x.cols, [&](std::int64_t i, std::vector<float>& row) {
    row.resize(static_cast<std::size_t>(tile.x.cols));
    numerics::decode(source, tile.x_data + i * width * element, row);
    const std::int64_t row_group = (tile.x.row + i) / x_layout_.group_rows - base_m;
    for (std::int64_t first = 0; first < tile.x.cols; first += group_cols) {
      const std::int64_t k_group = (tile.x.col + first) / x_layout_.group_cols - base_k;
      const auto count = static_cast<std::size_t>(std::min(group_cols, tile.x.cols - first));
      numerics::quantize_run(plan_.problem.a,
                             std::span<const float>(row).subspan(static_cast<std::size_t>(first), count),
                             scale_at(tile.x_scale, x_layout_, row_group, k_group),
                             reinterpret_cast<std::uint8_t*>(x_q_) + i * width + first);
    }
  });
}

void KernelBody::multiply_run(const TileRows& x, const TileRows& w, std::int64_t first, std::int64_t depth,
                              bool begins, bool ends) {
  const Microkernel& kernel = microkernel();
  const std::int64_t pitch = plan_.blocks.o;
  const std::int64_t x_count = ceil_div(x.rows, kernel.mr), w_count = ceil_div(w.rows, kernel.nr);
  const std::int64_t tile_size = std::int64_t{kernel.mr} * kernel.nr;
  x_panels_.resize(static_cast<std::size_t>(x_count * kernel.mr * depth));
  w_panels_.resize(static_cast<std::size_t>(w_count * kernel.nr * depth));
  if (!(begins && ends)) sums_.resize(static_cast<std::size_t>(x_count * w_count * tile_size));
  const unsigned limit = x.rows * w.rows * depth < kSmallProduct ? 1 : plan_.threads;

  workers_->run(
      x_count,
      [&](std::int64_t i) {
        pack(x, plan_.blocks.i, i * kernel.mr, kernel.mr, first, depth,
             &x_panels_[static_cast<std::size_t>(i * kernel.mr * depth)]);
      },
      limit);
  workers_->run(
      w_count,
      [&](std::int64_t j) {
        double* w_panel = &w_panels_[static_cast<std::size_t>(j * kernel.nr * depth)];
        pack(w, plan_.blocks.i, j * kernel.nr, kernel.nr, first, depth, w_panel);
        alignas(64) std::array<double, kMaxTile> tile;
        const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, w.rows - j * kernel.nr));
        for (std::int64_t i = 0; i < x_count; ++i) {
          double* sum =
              begins && ends ? tile.data() : &sums_[static_cast<std::size_t>((j * x_count + i) * tile_size)];
          kernel.run(depth, &x_panels_[static_cast<std::size_t>(i * kernel.mr * depth)], w_panel, sum, !begins);
          if (!ends) continue;
          const int rows = static_cast<int>(std::min<std::int64_t>(kernel.mr, x.rows - i * kernel.mr));
          scale_add(sum, kernel.nr, rows, cols, scale_m_.data() + i * kernel.mr, scale_n_.data() + j * kernel.nr,
                    acc_ + i * kernel.mr * pitch + j * kernel.nr, pitch);
        }
      },
      limit);
}

void KernelBody::multiply(const StepTile& tile) {
  const Problem& p = plan_.problem;
  const TileRows x{.data = p.quantizes_x() ? x_q_ : tile.x_data, .type = p.a, .rows = tile.x.rows};
  const TileRows w{.data = tile.w_data, .type = p.w(), .rows = tile.w.rows};
  for (std::int64_t first = 0, depth = 0; first < tile.x.cols; first += depth) {
    const std::int64_t at = tile.x.col + first;
    const std::int64_t group_end = std::min(p.k, (at / p.group + 1) * p.group);
    depth = std::min({tile.x.cols - first, group_end - at, kLongestRun});
    const bool ends = at + depth == group_end;
    if (ends && p.scaled_x()) expand(tile.x_scale, x_layout_, tile.x, tile.x_scale_row, at, scale_m_.data());
    if (ends && p.scaled_w())
      expand(tile.w_scale, w_layout_, tile.w, tile.w.row, tile.w.col + first, scale_n_.data());
    multiply_run(x, w, first, depth, at % p.group == 0, ends);
  }
}

void KernelBody::store(const StepTile& tile) {
  const std::int64_t pitch = plan_.blocks.o;
  const DType type = plan_.problem.d;
  const auto cols = static_cast<std::size_t>(tile.w.rows);
  const auto* bias = reinterpret_cast<const float*>(tile.bias);
  for_rows(tile.x.rows, tile.w.rows, [&](std::int64_t i, std::vector<float>&) {
    float* row = acc_ + i * pitch;
    if (bias != nullptr) {
      for (std::size_t j = 0; j < cols; ++j) row[j] += bias[j];
    }
    numerics::encode(type, {row, cols}, tile.out + i * pitch * numerics::size_of(type));
  });
}

}  // namespace ironcl::ironwood

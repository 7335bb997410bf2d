// SPDX-License-Identifier: Apache-2.0
// Decode a run of both tiles once into panels, then multiply the panels.
#include "backends/ironwood/tile_product.h"

#include <algorithm>
#include <array>

#include "backends/ironwood/microkernel.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::ironwood {
namespace {

using numerics::ceil_div;
using numerics::DType;

constexpr std::int64_t kLongestRun = 512;                      // of k in panels at once: bounds their memory
constexpr std::int64_t kSmallProduct = std::int64_t{1} << 18;  // multiplications not worth a second thread

using Values = std::array<double, 256>;

Values values_of(DType type) {
  Values values{};
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::byte>(code);
    values[code] = numerics::load_as_f64(type, &byte, 0);
  }
  return values;
}

/// What the codes of a quantised type stand for.
const Values& code_values(DType type) {
  static const Values e4m3fn = values_of(DType::e4m3fn), e5m2 = values_of(DType::e5m2), i8 = values_of(DType::i8);
  return type == DType::e4m3fn ? e4m3fn : type == DType::e5m2 ? e5m2 : i8;
}

/// Panel of `width` rows from `row` on, k-major: panel[p * width + i]. Rows past the tile are zero.
void pack(const TileRows& tile, std::int64_t row, int width, std::int64_t first, std::int64_t depth, double* panel) {
  const std::int64_t valid = std::min<std::int64_t>(width, tile.rows - row);
  for (int i = 0; i < width; ++i) {
    double* to = panel + i;
    if (i >= valid) {
      for (std::int64_t p = 0; p < depth; ++p) to[p * width] = 0.0;
      continue;
    }
    const std::byte* from =
        tile.data + (row + i) * tile.pitch_bytes + first * static_cast<std::int64_t>(numerics::size_of(tile.type));
    if (numerics::is_quantized(tile.type)) {
      const double* values = code_values(tile.type).data();
      for (std::int64_t p = 0; p < depth; ++p) to[p * width] = values[static_cast<std::uint8_t>(from[p])];
    } else {
      std::array<float, kLongestRun> decoded;
      numerics::decode(tile.type, from, std::span<float>(decoded.data(), static_cast<std::size_t>(depth)));
      for (std::int64_t p = 0; p < depth; ++p)
        to[p * width] = static_cast<double>(decoded[static_cast<std::size_t>(p)]);
    }
  }
}

}  // namespace

void TileProduct::accumulate(Workers& workers, const TileRows& x, const TileRows& w, const GroupRun& run,
                             const float* scale_m, const float* scale_n, float* acc, std::int64_t acc_pitch) {
  for (std::int64_t done = 0; done < run.depth; done += kLongestRun) {
    const std::int64_t depth = std::min(kLongestRun, run.depth - done);
    chunk(workers, x, w, run.first + done, depth, run.begins && done == 0, run.ends && done + depth == run.depth,
          scale_m, scale_n, acc, acc_pitch);
  }
}

void TileProduct::chunk(Workers& workers, const TileRows& x, const TileRows& w, std::int64_t first,
                        std::int64_t depth, bool begins, bool ends, const float* scale_m, const float* scale_n,
                        float* acc, std::int64_t acc_pitch) {
  const Microkernel& kernel = microkernel();
  const std::int64_t x_count = ceil_div(x.rows, kernel.mr), w_count = ceil_div(w.rows, kernel.nr);
  const std::int64_t tile_size = std::int64_t{kernel.mr} * kernel.nr;
  x_panels_.resize(static_cast<std::size_t>(x_count * kernel.mr * depth));
  w_panels_.resize(static_cast<std::size_t>(w_count * kernel.nr * depth));
  if (!(begins && ends)) sums_.resize(static_cast<std::size_t>(x_count * w_count * tile_size));
  const unsigned limit = x.rows * w.rows * depth < kSmallProduct ? 1 : threads_;

  workers.run(
      x_count,
      [&](std::int64_t i) {
        pack(x, i * kernel.mr, kernel.mr, first, depth, &x_panels_[static_cast<std::size_t>(i * kernel.mr * depth)]);
      },
      limit);
  workers.run(
      w_count,
      [&](std::int64_t j) {
        double* w_panel = &w_panels_[static_cast<std::size_t>(j * kernel.nr * depth)];
        pack(w, j * kernel.nr, kernel.nr, first, depth, w_panel);
        alignas(64) std::array<double, kMaxTile> tile;
        const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, w.rows - j * kernel.nr));
        for (std::int64_t i = 0; i < x_count; ++i) {
          double* sum =
              begins && ends ? tile.data() : &sums_[static_cast<std::size_t>((j * x_count + i) * tile_size)];
          kernel.run(depth, &x_panels_[static_cast<std::size_t>(i * kernel.mr * depth)], w_panel, sum, !begins);
          if (!ends) continue;
          const int rows = static_cast<int>(std::min<std::int64_t>(kernel.mr, x.rows - i * kernel.mr));
          kernel.scale_add(sum, rows, cols, scale_m + i * kernel.mr, scale_n + j * kernel.nr,
                           acc + i * kernel.mr * acc_pitch + j * kernel.nr, acc_pitch);
        }
      },
      limit);
}

}  // namespace ironcl::ironwood

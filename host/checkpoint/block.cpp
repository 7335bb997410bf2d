// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/block.h"

#include <array>
#include <cmath>

namespace ironcl::checkpoint {
namespace {

constexpr std::array<std::int64_t, 5> kBlocks = {32, 64, 128, 256, 512};

std::string expected_shape(std::int64_t rows, std::int64_t cols, ScaleGrid grid) {
  return fmt::format("[{}, {}]", grid.scale_rows(rows), grid.scale_cols(cols));
}

/// Tools add and drop dimensions of 1: [n] and [n, 1], [] and [1, 1], [2] of a weight that has one block in a row.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

/// The number of equal parts of the rows, each with blocks of its own, that gives as many rows of scales; 0: none.
std::int64_t ranks_of(const Tensor& scale, std::int64_t rows, std::int64_t cols, ScaleGrid grid) {
  if (scale.shape.size() != 2 || scale.shape[1] != grid.scale_cols(cols) || grid.group_rows == 0) return 0;
  for (const std::int64_t ranks : {2, 4, 8, 16, 32})
    if (rows % ranks == 0 && ranks * grid.scale_rows(rows / ranks) == scale.shape[0]) return ranks;
  return 0;
}

}  // namespace

std::string grid_text(ScaleGrid grid) {
  if (grid == ScaleGrid{0, 0}) return "per tensor";
  if (grid == ScaleGrid{1, 0}) return "per channel";
  return fmt::format("{}x{}", grid.group_rows, grid.group_cols);
}

void check_scale_dtype(const Tensor& scale) {
  if (numerics::is_float(scale.dtype) || scale.dtype == DType::e8m0) return;
  throw Error(ErrorKind::dtype, scale, "is {}, expected scales of F32, F16, BF16 or F8_E8M0{}", scale.dtype_name,
              scale.dtype_name != "I32" ? ""
                                        : "; four exponents in an I32 are DeepGEMM's layout, of an engine's sharded "
                                          "state: take the checkpoint that it was loaded from");
}

void check_scale_shape(const Tensor& scale, const std::string& operand, std::int64_t rows, std::int64_t cols,
                       ScaleGrid grid) {
  if (without_ones(scale.shape) == without_ones({grid.scale_rows(rows), grid.scale_cols(cols)})) return;
  const std::int64_t ranks = ranks_of(scale, rows, cols, grid);
  throw Error(ranks == 0 ? ErrorKind::shape : ErrorKind::unsupported, scale,
              "is {}, expected {} for '{}' [{}, {}] with scales {}; {}", scale.shape_text(),
              expected_shape(rows, cols, grid), operand, rows, cols, grid_text(grid),
              ranks == 0
                  ? std::string("the file is damaged or made for other blocks")
                  : fmt::format("blocks that begin anew in each of {} parts of the rows (MiMo's fused qkv_proj, by "
                                "tensor-parallel rank) are not read; save the parts by themselves",
                                ranks));
}

void check_scale_values(const Tensor& scale, std::string_view of) {
  const std::int64_t count = scale.elements();
  const std::int64_t cols = scale.shape.empty() ? 1 : scale.shape.back();
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = scale.number(i);
    if (std::isfinite(value) && value >= 0) continue;
    throw Error(ErrorKind::value, scale,
                "scale [{}, {}]{} is {}, expected a finite value of at least 0; the file is damaged",
                scale.shape.size() < 2 ? i : i / cols, scale.shape.size() < 2 ? 0 : i % cols,
                of.empty() ? std::string() : fmt::format(" of layer {}", of), value);
  }
}

ScaleGrid grid_from_shape(const Tensor& scale, const Tensor& weight) {
  const std::int64_t n = weight.shape.at(0), k = weight.shape.at(1);
  const std::vector<std::int64_t>& shape = scale.shape;
  if (scale.elements() == 1) return {0, 0};  // whatever its shape, and whatever the block: it covers the weight
  if (shape == std::vector{n} || (n > 1 && shape == std::vector{n, std::int64_t{1}})) return {1, 0};

  const auto fits = [&](ScaleGrid grid) { return shape == std::vector{grid.scale_rows(n), grid.scale_cols(k)}; };
  // Sizes are powers of two: two of them give the same shape only where one block covers the weight, which is above.
  for (const std::int64_t block : kBlocks)
    if (fits({block, block})) return {block, block};
  for (const std::int64_t block : kBlocks)
    if (fits({1, block})) return {1, block};
  throw Error(ErrorKind::shape, scale,
              "is {}, which no block of 32 to 512 gives for '{}' {}; it should be {} for 128x128 blocks ({} for "
              "256x256, {} for 512x512). Say another block with --block",
              scale.shape_text(), weight.name, weight.shape_text(), expected_shape(n, k, {128, 128}),
              expected_shape(n, k, {256, 256}), expected_shape(n, k, {512, 512}));
}

}  // namespace ironcl::checkpoint

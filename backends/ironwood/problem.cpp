// SPDX-License-Identifier: Apache-2.0
// Which problems the kernels take, each refusal with what would be accepted.
#include "backends/ironwood/problem.h"

#include "backends/not_yet.h"

namespace ironcl::ironwood {
namespace {

using backend::Reason;
using backend::ScaleDesc;
using numerics::DType;
using numerics::ScaleGrid;

/// The narrowest K group: a quarter of the 128 lanes.
constexpr std::int64_t kNarrowest = 32;
/// That of four-bit weights, which have finer scales.
constexpr std::int64_t kNarrowestOfFourBits = 16;

/// A kernel cuts K groups out of native tiles, in whole quarters of the lanes. Rows it takes in any number: scales
/// are spread over rows on the vector unit.
bool cuts_tiles(const ScaleGrid& grid, std::int64_t narrowest = kNarrowest) noexcept {
  return grid.group_rows >= 0 && grid.group_cols >= 0 && grid.group_cols % narrowest == 0;
}
constexpr std::string_view kGrids = "any number of rows by 0 or a multiple of 32 columns is accepted, such as 1x128";

std::string text_of(const ScaleGrid& grid) { return fmt::format("{}x{}", grid.group_rows, grid.group_cols); }

/// The family of a weight grid; empty where no kernel takes it.
std::optional<Family> family_of(DType dtype, const ScaleDesc& scale) {
  const ScaleGrid& grid = scale.grid;
  if (scale.dtype == DType::none) return Family::per_channel;
  if (!cuts_tiles(grid, dtype == DType::e2m1 ? kNarrowestOfFourBits : kNarrowest)) return std::nullopt;
  if (grid.group_cols == 0) return Family::per_channel;
  return grid.group_rows == grid.group_cols ? Family::block : Family::sub_channel;
}

}  // namespace

std::string_view name_of(Family family) noexcept {
  constexpr std::string_view kNames[] = {"block", "per_channel", "sub_channel"};
  return kNames[static_cast<std::size_t>(family)];
}

std::optional<Refusal> check_weights(DType dtype, const ScaleDesc& scale, std::int64_t n, std::int64_t k,
                                     std::int64_t matrices) {
  if (!family_of(dtype, scale)) {
    return Refusal(Reason::scale_layout, "weights scaled in blocks of {}; {}", text_of(scale.grid), kGrids);
  }
  if (n > kMostElements / k || matrices > kMostElements / (n * k)) {
    return Refusal(Reason::shape, "{}weights of {}x{}; from 1 to 2^40 elements are accepted",
                   matrices > 1 ? fmt::format("{} matrices of ", matrices) : "", n, k);
  }
  return std::nullopt;
}

std::optional<Refusal> read_problem(const backend::GemmDesc& desc, Problem* problem) {
  if (auto refusal = backend::not_yet(desc)) return refusal;
  if (auto refusal =
          check_weights(desc.b, desc.b_scale, desc.b_rows(), desc.k, std::max<std::int64_t>(desc.matrices, 1)))
    return refusal;
  Problem p(desc);
  if (!p.scaled_x()) p.a_scale = {};
  if (!p.scaled_w()) p.b_scale = {};
  const ScaleGrid &x_grid = p.a_scale.grid, &w_grid = p.b_scale.grid;
  if (!cuts_tiles(x_grid))
    return Refusal(Reason::scale_layout, "A scaled in blocks of {}; {}", text_of(x_grid), kGrids);
  const std::int64_t times = p.grouping == backend::Grouping::masked ? p.matrices : 1;
  const std::int64_t widest = std::max(p.lda, p.ldd);
  if ((p.m > 0 && (times > kMostElements / p.m || widest > kMostElements / (p.m * times))) ||
      (p.a_rows > 0 && p.lda > kMostElements / p.a_rows)) {
    return Refusal(Reason::shape, "m {}{} with lda {} and ldd {}; operands of up to 2^40 elements are accepted", p.m,
                   times > 1 ? fmt::format(" for each of {} matrices", times) : "", p.lda, p.ldd);
  }
  p.n = desc.b_rows();
  p.gate = std::exchange(p.activation, backend::Activation::none);
  if (numerics::is_quantized(p.d) || p.gate != backend::Activation::none) p.d_later = std::exchange(p.d, DType::f32);
  p.family = *family_of(p.b, p.b_scale);
  p.q = p.family == Family::per_channel ? 0 : w_grid.group_cols;
  p.group = numerics::common_group(x_grid.group_cols, w_grid.group_cols, p.k);
  *problem = std::move(p);
  return std::nullopt;
}

}  // namespace ironcl::ironwood

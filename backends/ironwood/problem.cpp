// SPDX-License-Identifier: Apache-2.0
// Which problems the kernels take, each refusal with what would be accepted.
#include "backends/ironwood/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/not_yet.h"

namespace ironcl::ironwood {
namespace {

using backend::GemmDesc;
using backend::Reason;
using backend::ScaleDesc;
using numerics::DType;
using numerics::name_of;
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

bool takes_scale(DType type) noexcept { return numerics::is_float(type) || type == DType::e8m0; }

std::string text_of(const ScaleGrid& grid) { return fmt::format("{}x{}", grid.group_rows, grid.group_cols); }

/// The family of a weight grid; empty where no kernel takes it.
std::optional<Family> family_of(DType dtype, const ScaleDesc& scale) {
  const ScaleGrid& grid = scale.grid;
  if (scale.dtype == DType::none) return Family::per_channel;
  if (!cuts_tiles(grid, dtype == DType::e2m1 ? kNarrowestOfFourBits : kNarrowest)) return std::nullopt;
  if (grid.group_cols == 0) return Family::per_channel;
  return grid.group_rows == grid.group_cols ? Family::block : Family::sub_channel;
}

std::optional<Refusal> check_x(const GemmDesc& desc) {
  const bool dynamic = desc.a_source != DType::none;
  if (dynamic && !numerics::is_float(desc.a_source)) {
    return Refusal(Reason::dtype, "activations of {} to quantise; f32, f16 and bf16 are accepted",
                   name_of(desc.a_source));
  }
  const bool weight_only = numerics::is_float(desc.a);
  if (!numerics::is_quantized(desc.a) && !weight_only) {
    return Refusal(Reason::dtype, "A of {}; e4m3fn, e5m2, i8, f32, f16 and bf16 are accepted", name_of(desc.a));
  }
  if (weight_only) {
    if (dynamic || desc.a_scale.dtype != DType::none) {
      return Refusal(Reason::scale_layout, "A of {} with scales; unquantised A takes none", name_of(desc.a));
    }
    return std::nullopt;
  }
  if (desc.a_scale.dtype == DType::none) {
    if (!dynamic) return std::nullopt;
    return Refusal(Reason::scale_layout,
                   "dynamic quantisation without a grid of scales; say a_scale, such as 1x128 in f32");
  }
  if (dynamic && !desc.a_quantizer.given && desc.a_scale.dtype != DType::f32) {
    return Refusal(Reason::dtype, "scales of {} made by quantising A; f32 is accepted", name_of(desc.a_scale.dtype));
  }
  if (!takes_scale(desc.a_scale.dtype)) {
    return Refusal(Reason::dtype, "scales of {} for A; f32, f16, bf16 and e8m0 are accepted",
                   name_of(desc.a_scale.dtype));
  }
  if (const ScaleGrid& grid = desc.a_scale.grid; !cuts_tiles(grid)) {
    return Refusal(Reason::scale_layout, "A scaled in blocks of {}; {}", text_of(grid), kGrids);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Family family) noexcept {
  switch (family) {
    case Family::block:
      return "block";
    case Family::per_channel:
      return "per_channel";
    case Family::sub_channel:
      return "sub_channel";
  }
  return "?";
}

std::optional<Refusal> check_weights(DType dtype, const ScaleDesc& scale, std::int64_t n, std::int64_t k,
                                     std::int64_t matrices) {
  if (!numerics::is_float(dtype) && !numerics::is_quantized(dtype)) {
    return Refusal(Reason::dtype, "weights of {}; e4m3fn, e5m2, i8, e2m1, f32, f16 and bf16 are accepted",
                   name_of(dtype));
  }
  if (dtype == DType::e2m1 && k % 2 != 0) {
    return Refusal(Reason::shape, "weights of e2m1 with k = {}; two codes share a byte, so an even k is accepted", k);
  }
  if (scale.dtype != DType::none && !takes_scale(scale.dtype) && scale.dtype != DType::e4m3fn) {
    return Refusal(Reason::dtype, "scales of {} for B; f32, f16, bf16, e8m0 and e4m3fn are accepted",
                   name_of(scale.dtype));
  }
  if (!family_of(dtype, scale)) {
    return Refusal(Reason::scale_layout, "weights scaled in blocks of {}; {}", text_of(scale.grid), kGrids);
  }
  if (n < 1 || k < 1 || n > kMostElements / k || matrices < 1 || matrices > kMostElements / (n * k)) {
    return Refusal(Reason::shape, "{}weights of {}x{}; from 1 to 2^40 elements are accepted",
                   matrices > 1 ? fmt::format("{} matrices of ", matrices) : "", n, k);
  }
  return std::nullopt;
}

namespace {

/// What a problem with several matrices, or with gathered rows, asks beyond one with a pair of matrices.
std::optional<Refusal> check_rows(const GemmDesc& desc) {
  const bool grouped = desc.grouping != backend::Grouping::none;
  const bool scaled = desc.a_scale.dtype != DType::none;
  if (grouped && desc.matrices < 1) {
    return Refusal(Reason::grouping, "a grouped problem of {} matrices; 1 or more are accepted", desc.matrices);
  }
  if ((grouped || desc.a_rows != 0) && scaled && desc.a_scale.grid.group_rows != 1) {
    return Refusal(Reason::scale_layout,
                   "A scaled in blocks of {} in a {} problem; one row is accepted, such as 1x128: a block "
                   "of several would be spread over matrices",
                   text_of(desc.a_scale.grid), grouped ? "grouped" : "gathered");
  }
  const std::int64_t times = desc.grouping == backend::Grouping::masked ? desc.matrices : 1;
  const std::int64_t widest = std::max(desc.lda, desc.ldd);
  if (desc.m < 0 || desc.a_rows < 0 ||
      (desc.m > 0 && (times > kMostElements / desc.m || widest > kMostElements / (desc.m * times))) ||
      (desc.a_rows > 0 && desc.lda > kMostElements / desc.a_rows)) {
    return Refusal(Reason::shape, "m {}{} with lda {} and ldd {}; operands of up to 2^40 elements are accepted",
                   desc.m, times > 1 ? fmt::format(" for each of {} matrices", times) : "", desc.lda, desc.ldd);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> read_problem(const GemmDesc& desc, Problem* problem) {
  if (auto refusal = backend::not_yet(desc)) return Refusal(refusal->reason, std::move(refusal->text));
  if (auto refusal = check_weights(desc.b, desc.b_scale, desc.n, desc.k, std::max<std::int64_t>(desc.matrices, 1))) {
    return refusal;
  }
  if (auto refusal = check_x(desc)) return refusal;
  if (numerics::is_float(desc.b) && !numerics::is_float(desc.a)) {
    return Refusal(Reason::dtype, "weights of {} with A of {}; A of f32, f16 or bf16 is accepted", name_of(desc.b),
                   name_of(desc.a));
  }
  if (!numerics::is_float(desc.d) && !numerics::is_quantized(desc.d)) {
    return Refusal(Reason::dtype, "D of {}; f32, f16, bf16, e4m3fn, e5m2 and i8 are accepted", name_of(desc.d));
  }
  if (desc.bias != DType::none && !numerics::is_float(desc.bias)) {
    return Refusal(Reason::dtype, "a bias of {}; f32, f16 and bf16 are accepted", name_of(desc.bias));
  }
  if (auto refusal = check_rows(desc)) return refusal;

  Problem p;
  p.m = desc.m, p.n = desc.n, p.k = desc.k;
  p.ldx = desc.lda != 0 ? desc.lda : desc.k;
  p.ldd = desc.ldd != 0 ? desc.ldd : desc.n;
  p.quantize_x = desc.a_source != DType::none;
  p.x = p.quantize_x ? desc.a_source : desc.a;
  p.code = desc.a;
  p.w = desc.b == DType::e2m1 ? DType::e4m3fn : desc.b;  // As PreparedWeights holds them.
  p.d = desc.d, p.bias = desc.bias;
  if (numerics::is_quantized(desc.d)) {
    p.d = DType::f32, p.d_code = desc.d;
    p.d_scale = desc.d_scale, p.d_quantizer = desc.d_quantizer;
  }
  p.x_scale = desc.a_scale.dtype, p.w_scale = desc.b_scale.dtype;
  p.scaled_x = p.x_scale != DType::none;
  if (p.scaled_x) p.x_grid = desc.a_scale.grid;
  if (p.w_scale != DType::none) p.w_grid = desc.b_scale.grid;
  p.x_scale_ld = desc.a_scale.ld != 0 ? desc.a_scale.ld : p.x_grid.scale_cols(p.k);
  p.w_scale_ld = desc.b_scale.ld != 0 ? desc.b_scale.ld : p.w_grid.scale_cols(p.k);
  p.quantizer = desc.a_quantizer;
  p.grouping = desc.grouping;
  p.matrices = p.grouped() ? desc.matrices : 0;
  p.x_rows = desc.a_rows;
  p.family = *family_of(desc.b, desc.b_scale);
  p.q = p.family == Family::per_channel ? 0 : p.w_grid.group_cols;
  p.group = numerics::common_group(p.x_grid.group_cols, p.w_grid.group_cols, p.k);
  *problem = p;
  return std::nullopt;
}

}  // namespace ironcl::ironwood

// SPDX-License-Identifier: Apache-2.0
// Which problems the kernels take, each refusal with what would be accepted.
#include "backends/ironwood/problem.h"

#include <fmt/format.h>

#include <utility>

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

/// A kernel cuts K groups out of native tiles, in whole quarters of the lanes. Rows it takes in any number: scales
/// are spread over rows on the vector unit.
bool cuts_tiles(const ScaleGrid& grid) noexcept {
  return grid.group_rows >= 0 && grid.group_cols >= 0 && grid.group_cols % kNarrowest == 0;
}
constexpr std::string_view kGrids = "any number of rows by 0 or a multiple of 32 columns is accepted, such as 1x128";

bool is_scale(DType type) noexcept { return numerics::is_float(type) || type == DType::e8m0; }

std::string text_of(const ScaleGrid& grid) { return fmt::format("{}x{}", grid.group_rows, grid.group_cols); }

std::optional<Refusal> refuse(Reason reason, std::string text) { return Refusal{reason, std::move(text)}; }

/// The family of a weight grid; empty where no kernel takes it.
std::optional<Family> family_of(const ScaleDesc& scale) {
  const ScaleGrid& grid = scale.grid;
  if (scale.dtype == DType::none) return Family::per_channel;
  if (!cuts_tiles(grid)) return std::nullopt;
  if (grid.group_cols == 0) return Family::per_channel;
  return grid.group_rows == grid.group_cols ? Family::block : Family::sub_channel;
}

std::optional<Refusal> check_x(const GemmDesc& desc) {
  const bool dynamic = desc.a_source != DType::none;
  if (dynamic && !numerics::is_float(desc.a_source)) {
    return refuse(Reason::dtype, fmt::format("activations of {} to quantise; f32, f16 and bf16 are accepted",
                                             name_of(desc.a_source)));
  }
  const bool weight_only = numerics::is_float(desc.a);
  if (!numerics::is_quantized(desc.a) && !weight_only) {
    return refuse(Reason::dtype,
                  fmt::format("A of {}; e4m3fn, e5m2, i8, f32, f16 and bf16 are accepted", name_of(desc.a)));
  }
  if (weight_only) {
    if (dynamic || desc.a_scale.dtype != DType::none) {
      return refuse(Reason::scale_layout,
                    fmt::format("A of {} with scales; unquantised A takes none", name_of(desc.a)));
    }
    return std::nullopt;
  }
  if (desc.a_scale.dtype == DType::none) {
    if (!dynamic) return std::nullopt;
    return refuse(Reason::scale_layout,
                  "dynamic quantisation without a grid of scales; say a_scale, such as 1x128 in f32");
  }
  if (dynamic && desc.a_scale.dtype != DType::f32) {
    return refuse(Reason::dtype,
                  fmt::format("scales of {} made by quantising A; f32 is accepted", name_of(desc.a_scale.dtype)));
  }
  if (!is_scale(desc.a_scale.dtype)) {
    return refuse(Reason::dtype, fmt::format("scales of {} for A; f32, f16, bf16 and e8m0 are accepted",
                                             name_of(desc.a_scale.dtype)));
  }
  if (const ScaleGrid& grid = desc.a_scale.grid; !cuts_tiles(grid)) {
    return refuse(Reason::scale_layout, fmt::format("A scaled in blocks of {}; {}", text_of(grid), kGrids));
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

std::optional<Refusal> check_weights(DType dtype, const ScaleDesc& scale, std::int64_t n, std::int64_t k) {
  if (!numerics::is_quantized(dtype)) {
    return refuse(Reason::dtype, fmt::format("weights of {}; e4m3fn, e5m2 and i8 are accepted", name_of(dtype)));
  }
  if (scale.dtype != DType::none && !is_scale(scale.dtype)) {
    return refuse(Reason::dtype,
                  fmt::format("scales of {} for B; f32, f16, bf16 and e8m0 are accepted", name_of(scale.dtype)));
  }
  if (!family_of(scale)) {
    return refuse(Reason::scale_layout,
                  fmt::format("weights scaled in blocks of {}; {}", text_of(scale.grid), kGrids));
  }
  // 2^40 elements are far beyond any HBM here and keep every later product inside 64 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (n < 1 || k < 1 || n > kMost / k) {
    return refuse(Reason::shape, fmt::format("weights of {}x{}; from 1 to 2^40 elements are accepted", n, k));
  }
  return std::nullopt;
}

std::optional<Refusal> read_problem(const GemmDesc& desc, Problem* problem) {
  if (auto refusal = check_weights(desc.b, desc.b_scale, desc.n, desc.k)) return refusal;
  if (auto refusal = check_x(desc)) return refusal;
  if (!numerics::is_float(desc.d)) {
    return refuse(Reason::dtype, fmt::format("D of {}; f32, f16 and bf16 are accepted", name_of(desc.d)));
  }
  if (desc.bias != DType::none && !numerics::is_float(desc.bias)) {
    return refuse(Reason::dtype, fmt::format("a bias of {}; f32, f16 and bf16 are accepted", name_of(desc.bias)));
  }
  if (desc.grouping != backend::Grouping::none) {
    return refuse(Reason::grouping,
                  "grouped problems; the kernel multiplies one pair of matrices, enqueue one a group");
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (desc.m < 0 || (desc.m > 0 && (desc.lda > kMost / desc.m || desc.ldd > kMost / desc.m))) {
    return refuse(Reason::shape,
                  fmt::format("m {} with lda {} and ldd {}; operands of up to 2^40 elements are accepted", desc.m,
                              desc.lda, desc.ldd));
  }

  Problem p;
  p.m = desc.m, p.n = desc.n, p.k = desc.k;
  p.ldx = desc.lda != 0 ? desc.lda : desc.k;
  p.ldd = desc.ldd != 0 ? desc.ldd : desc.n;
  p.quantize_x = desc.a_source != DType::none;
  p.x = p.quantize_x ? desc.a_source : desc.a;
  p.code = desc.a;
  p.w = desc.b;
  p.d = desc.d, p.bias = desc.bias;
  p.x_scale = desc.a_scale.dtype, p.w_scale = desc.b_scale.dtype;
  p.scaled_x = p.x_scale != DType::none;
  if (p.scaled_x) p.x_grid = desc.a_scale.grid;
  if (p.w_scale != DType::none) p.w_grid = desc.b_scale.grid;
  p.x_scale_ld = desc.a_scale.ld != 0 ? desc.a_scale.ld : p.x_grid.scale_cols(p.k);
  p.w_scale_ld = desc.b_scale.ld != 0 ? desc.b_scale.ld : p.w_grid.scale_cols(p.k);
  p.quantizer = desc.a_quantizer;
  p.family = *family_of(desc.b_scale);
  p.q = p.family == Family::per_channel ? 0 : p.w_grid.group_cols;
  p.group = numerics::common_group(p.x_grid.group_cols, p.w_grid.group_cols, p.k);
  *problem = p;
  return std::nullopt;
}

}  // namespace ironcl::ironwood

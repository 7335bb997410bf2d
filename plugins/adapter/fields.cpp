// SPDX-License-Identifier: Apache-2.0
// Checks of single fields. Next door: fields.h.
#include "plugins/adapter/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

using backend::DType;

namespace {
constexpr std::uint32_t kLastDType = IRONCL_F4_E2M1;
bool is_scale_type(DType type) { return numerics::is_float(type) || type == DType::e8m0 || type == DType::e4m3fn; }

/// The place of an operand's first row or column within its block.
std::int64_t origin(std::uint32_t value, std::uint32_t group, std::string_view field, std::string_view axis) {
  if (value != 0 && value >= group) {
    invalid(fmt::format("{0}.{1}_origin is {2}, expected 0 to {3}: less than group_{1}s {4}", field, axis, value,
                        group == 0 ? 0 : group - 1, group));
  }
  return value;
}
}  // namespace

std::uint32_t enumerator(std::uint32_t value, std::uint32_t last, std::string_view field) {
  if (value > last) {
    unimplemented(fmt::format("{} is {}; this plugin knows 0 to {} (ABI {}.{})", field, value, last, IRONCL_ABI_MAJOR,
                              IRONCL_ABI_MINOR));
  }
  return value;
}

DType dtype(ironcl_dtype value, std::string_view field) {
  return static_cast<DType>(enumerator(value, kLastDType, field));
}

std::string shown(DType type) { return type == DType::none ? "none" : std::string(name_of(type)); }

std::int64_t dimension(std::int64_t value, std::int64_t least, std::string_view field) {
  if (value < least || value > kLargestDimension) {
    invalid(fmt::format("{} is {}, expected {} to {}", field, value, least, kLargestDimension));
  }
  return value;
}

std::int64_t leading(std::int64_t value, std::int64_t cols, std::string_view field, std::string_view cols_name) {
  if (value == 0) return cols;
  if (value < cols) {
    invalid(fmt::format("{} is {}, expected at least {} = {} elements; 0 means tight rows", field, value, cols_name,
                        cols));
  }
  return value;
}

void check_extent(std::int64_t rows, std::int64_t ld, std::int64_t groups, std::string_view field) {
  constexpr std::int64_t kWidest = 8;  // bytes of the widest element
  std::int64_t bytes = 0;
  const std::int64_t least_rows = std::max<std::int64_t>(rows, 1);  // Of none, too, a backend may count one's bytes.
  if (__builtin_mul_overflow(least_rows, ld, &bytes) || __builtin_mul_overflow(bytes, groups, &bytes) ||
      __builtin_mul_overflow(bytes, kWidest, &bytes)) {
    invalid(fmt::format("{}: {} rows of {} elements in {} matrices are beyond 2^63 - 1 bytes; check the sizes", field,
                        rows, ld, groups));
  }
}

backend::ScaleDesc scale_desc(const ironcl_scale_desc& in, std::int64_t cols, bool tight, std::string_view field) {
  backend::ScaleDesc out;
  out.dtype = dtype(in.dtype, fmt::format("{}.dtype", field));
  const DType global = dtype(in.global_dtype, fmt::format("{}.global_dtype", field));
  if (out.dtype == DType::none) {
    if (in.group_rows != 0 || in.group_cols != 0 || in.ld != 0 || in.row_origin != 0 || in.col_origin != 0 ||
        global != DType::none) {
      invalid(fmt::format("{}.dtype is none, but its group is {}x{} with ld {}; give a dtype, or zeros", field,
                          in.group_rows, in.group_cols, in.ld));
    }
    return out;
  }
  if (!is_scale_type(out.dtype)) {
    invalid(fmt::format("{}.dtype is {}, expected f32, f16, bf16, e8m0 or e4m3fn", field, shown(out.dtype)));
  }
  if (global != DType::none && global != DType::f32) {
    invalid(fmt::format("{}.global_dtype is {}, expected none or f32", field, shown(global)));
  }
  out.global = global == DType::f32;
  out.grid = {in.group_rows, in.group_cols, origin(in.row_origin, in.group_rows, field, "row"),
              origin(in.col_origin, in.group_cols, field, "col")};
  const std::int64_t scale_cols = out.grid.scale_cols(cols);
  out.ld = leading(in.ld, scale_cols, fmt::format("{}.ld", field), "columns of scales");
  if (tight && out.ld != scale_cols) {
    invalid(fmt::format("{}.ld is {}, expected 0 or {}: these scales are tight", field, out.ld, scale_cols));
  }
  return out;
}

void check_row_scales(const backend::ScaleDesc& scale, std::string_view field, std::string_view why) {
  if (scale.dtype != DType::none && scale.grid.group_rows != 1) {
    invalid(fmt::format("{}.group_rows is {}, expected 1: {}", field, scale.grid.group_rows, why));
  }
}

void check_nibbles(DType type, std::int64_t cols, std::int64_t ld, std::string_view field) {
  if (numerics::bits_of(type) < 8 && type != DType::none && (cols % 2 != 0 || ld % 2 != 0)) {
    invalid(
        fmt::format("{} of {}: two codes share a byte, but a row has {} columns and the next begins after {}; make "
                    "both even",
                    field, shown(type), cols, ld));
  }
}

std::int64_t check_matrices(backend::Grouping grouping, std::uint32_t count, std::string_view name) {
  if (grouping == backend::Grouping::none && count != 0) {
    invalid(fmt::format("{}.matrices is {}, but grouping is NONE; leave it 0", name, count));
  }
  if (grouping != backend::Grouping::none && (count < 1 || count > kMostMatrices)) {
    invalid(fmt::format("{}.matrices is {}, expected 1 to {}", name, count, kMostMatrices));
  }
  return count;
}

backend::Quantizer quantizer(const ironcl_quantizer_desc& in, std::string_view field) {
  backend::Quantizer out;
  out.rounding = static_cast<numerics::ScaleRounding>(
      enumerator(in.scale_rounding, IRONCL_SCALE_POWER_OF_TWO, fmt::format("{}.scale_rounding", field)));
  if (!std::isfinite(in.amax_floor) || in.amax_floor < 0) {
    invalid(fmt::format("{}.amax_floor is {}, expected a finite number of at least 0; 0 means {}", field,
                        in.amax_floor, out.amax_floor));
  }
  if (in.amax_floor != 0) out.amax_floor = in.amax_floor;
  check_reserved(in.reserved, fmt::format("{}.reserved", field));
  out.given = enumerator(in.scales, IRONCL_SCALES_GIVEN, fmt::format("{}.scales", field)) == IRONCL_SCALES_GIVEN;
  if (out.given && (in.scale_rounding != 0 || in.amax_floor != 0)) {
    invalid(
        fmt::format("{0}.scale_rounding is {1} and amax_floor {2}, but scales are GIVEN and none are made; leave "
                    "both 0",
                    field, in.scale_rounding, in.amax_floor));
  }
  return out;
}

}  // namespace ironcl::adapter

// SPDX-License-Identifier: Apache-2.0
// Checks of single fields. Next door: fields.h.
#include "plugins/adapter/fields.h"

#include <cmath>

#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

using backend::DType;

std::string shown(DType type) { return type == DType::none ? "none" : std::string(name_of(type)); }

DType Fields::dtype(ironcl_dtype value, std::string_view field) const {
  return enumerator<DType>(value, IRONCL_F4_E2M1, field);
}

DType Fields::float_type(ironcl_dtype value, std::string_view field, bool or_none) const {
  const DType type = dtype(value, field);
  if (!numerics::is_float(type) && !(or_none && type == DType::none))
    invalid("{} is {}, expected {}f32, f16 or bf16", field, shown(type), or_none ? "none, " : "");
  return type;
}

DType Fields::operand_type(ironcl_dtype value, std::string_view field) const {
  const DType type = dtype(value, field);
  if (!numerics::is_quantized(type) && !numerics::is_float(type))
    invalid("{} is {}, expected f32, f16, bf16, e4m3fn, e5m2, i8 or e2m1", field, shown(type));
  return type;
}

std::int64_t Fields::dimension(std::int64_t value, std::int64_t least, std::string_view field) const {
  return within(value, least, kLargestDimension, field);
}

std::int64_t Fields::within(std::int64_t value, std::int64_t least, std::int64_t most, std::string_view field) const {
  if (value < least || value > most) invalid("{} is {}, expected {} to {}", field, value, least, most);
  return value;
}

std::int64_t Fields::leading(std::int64_t value, std::int64_t cols, std::string_view field,
                             std::string_view cols_name) const {
  if (value == 0) return cols;
  if (value < cols)
    invalid("{} is {}, expected at least {} = {} elements; 0 means tight rows", field, value, cols_name, cols);
  return value;
}

void Fields::check_extent(std::int64_t rows, std::int64_t ld, std::int64_t matrices, std::string_view what) const {
  constexpr std::int64_t kWidest = 8;  // bytes of the widest element
  std::int64_t bytes = 0;
  const std::int64_t least_rows = std::max<std::int64_t>(rows, 1);  // Of none, too, a backend may count one's bytes.
  if (__builtin_mul_overflow(least_rows, ld, &bytes) || __builtin_mul_overflow(bytes, matrices, &bytes) ||
      __builtin_mul_overflow(bytes, kWidest, &bytes)) {
    adapter::invalid("{}: {}: {} rows of {} elements in {} matrices are beyond 2^63 - 1 bytes; check the sizes", of_,
                     what, rows, ld, matrices);
  }
}

std::int64_t Fields::origin(std::uint32_t value, std::uint32_t group, std::string_view field,
                            std::string_view axis) const {
  if (value != 0 && value >= group)
    invalid("{0}.{1}_origin is {2}, expected 0 to {3}: less than group_{1}s {4}", field, axis, value,
            group == 0 ? 0 : group - 1, group);
  return value;
}

backend::ScaleDesc Fields::scale(const ironcl_scale_desc& in, std::int64_t cols, bool tight,
                                 std::string_view field) const {
  backend::ScaleDesc out;
  out.dtype = dtype(in.dtype, fmt::format("{}.dtype", field));
  const DType global = dtype(in.global_dtype, fmt::format("{}.global_dtype", field));
  if (out.dtype == DType::none) {
    if (in.group_rows != 0 || in.group_cols != 0 || in.ld != 0 || in.row_origin != 0 || in.col_origin != 0 ||
        global != DType::none) {
      invalid("{}.dtype is none, but its group is {}x{} with ld {}; give a dtype, or zeros", field, in.group_rows,
              in.group_cols, in.ld);
    }
    return out;
  }
  if (!numerics::is_scale(out.dtype))
    invalid("{}.dtype is {}, expected f32, f16, bf16, e8m0 or e4m3fn", field, shown(out.dtype));
  if (global != DType::none && global != DType::f32)
    invalid("{}.global_dtype is {}, expected none or f32", field, shown(global));
  out.global = global == DType::f32;
  out.grid = {in.group_rows, in.group_cols, origin(in.row_origin, in.group_rows, field, "row"),
              origin(in.col_origin, in.group_cols, field, "col")};
  const std::int64_t scale_cols = out.grid.scale_cols(cols);
  out.ld = leading(in.ld, scale_cols, fmt::format("{}.ld", field), "columns of scales");
  if (tight && out.ld != scale_cols)
    invalid("{}.ld is {}, expected 0 or {}: these scales are tight", field, out.ld, scale_cols);
  return out;
}

void Fields::check_row_scales(const backend::ScaleDesc& scale, std::string_view field, std::string_view why) const {
  if (scale.dtype != DType::none && scale.grid.group_rows != 1)
    invalid("{}.group_rows is {}, expected 1: {}", field, scale.grid.group_rows, why);
}

void Fields::check_made_scales(const backend::ScaleDesc& scale, const backend::Quantizer& quantizer) const {
  if (scale.dtype == DType::none || (scale.dtype != DType::f32 && !quantizer.given))
    invalid("scale.dtype is {}, but the scales that quantising makes are f32", shown(scale.dtype));
}

void Fields::check_nibbles(DType type, std::int64_t cols, std::int64_t ld, std::string_view what) const {
  if (numerics::bits_of(type) < 8 && type != DType::none && (cols % 2 != 0 || ld % 2 != 0))
    adapter::invalid(
        "{}: {} of {}: two codes share a byte, but a row has {} columns and the next begins after {}; make both even",
        of_, what, shown(type), cols, ld);
}

float Fields::limit(float value, std::string_view field) const {
  if (!std::isfinite(value) || value < 0)
    invalid("{} is {}, expected a finite number of at least 0; 0 means none", field, value);
  return value;
}

std::int64_t Fields::matrices(backend::Grouping grouping, std::uint32_t count) const {
  if (grouping == backend::Grouping::none && count != 0)
    invalid("matrices is {}, but grouping is NONE; leave it 0", count);
  if (grouping != backend::Grouping::none && (count < 1 || count > kMostMatrices))
    invalid("matrices is {}, expected 1 to {}", count, kMostMatrices);
  return count;
}

backend::Quantizer Fields::quantizer(const ironcl_quantizer_desc& in, std::string_view field) const {
  backend::Quantizer out;
  out.rounding = enumerator<numerics::ScaleRounding>(in.scale_rounding, IRONCL_SCALE_POWER_OF_TWO,
                                                     fmt::format("{}.scale_rounding", field));
  if (!std::isfinite(in.amax_floor) || in.amax_floor < 0)
    invalid("{}.amax_floor is {}, expected a finite number of at least 0; 0 means {}", field, in.amax_floor,
            out.amax_floor);
  if (in.amax_floor != 0) out.amax_floor = in.amax_floor;
  check_reserved(in.reserved, fmt::format("{}.{}", of_, field));
  out.given = enumerator<bool>(in.scales, IRONCL_SCALES_GIVEN, fmt::format("{}.scales", field));
  if (out.given && (in.scale_rounding != 0 || in.amax_floor != 0))
    invalid("{}.scale_rounding is {} and amax_floor {}, but scales are GIVEN and none are made; leave both 0", field,
            in.scale_rounding, in.amax_floor);
  return out;
}

}  // namespace ironcl::adapter

// SPDX-License-Identifier: Apache-2.0
// Checks of ironcl_gemm_desc and ironcl_weights_desc. Next door: fields.h (checks of one field), validate_args.cpp
// (checks of a call).
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "backends/numerics/checked.h"
#include "plugins/adapter/fields.h"
#include "plugins/adapter/spans.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

using backend::DType;
using numerics::is_float;
using numerics::is_quantized;

constexpr std::uint32_t kMostOptions = 1024;

/// Quantised operands have scales, others have none.
void check_pair(DType type, const backend::ScaleDesc& scale, std::string_view operand) {
  if (!is_quantized(type) && !is_float(type)) {
    invalid(fmt::format("{0}_dtype is {1}, expected f32, f16, bf16, e4m3fn, e5m2, i8 or e2m1", operand, shown(type)));
  }
  if (is_quantized(type) && scale.dtype == DType::none) {
    invalid(
        fmt::format("{0}_scale.dtype is none, but {0}_dtype {1} needs scales; one f32 scale of 1 with group 0x0 "
                    "leaves the values as they are",
                    operand, shown(type)));
  }
}

void check_a(const backend::GemmDesc& desc) {
  check_pair(desc.a, desc.a_scale, "gemm_desc.a");
  if (is_float(desc.a) && desc.a_scale.dtype != DType::none) {
    invalid(fmt::format("gemm_desc.a_scale.dtype is {}, but a_dtype {} has no scales; leave a_scale zero",
                        shown(desc.a_scale.dtype), shown(desc.a)));
  }
  if (desc.a_source == DType::none) {
    if (desc.a_quantizer.given) {
      invalid("gemm_desc.a_quantizer.scales is GIVEN, but the plan does not quantise A; leave it 0");
    }
    return;
  }
  if (!is_float(desc.a_source)) {
    invalid(fmt::format("gemm_desc.a_source_dtype is {}, expected none, f32, f16 or bf16", shown(desc.a_source)));
  }
  if (!is_quantized(desc.a)) {
    invalid(
        fmt::format("gemm_desc.a_source_dtype is {}, but a_dtype {} is not quantised; leave a_source_dtype 0 where "
                    "A is multiplied as it comes",
                    shown(desc.a_source), shown(desc.a)));
  }
  if (desc.a_scale.dtype != DType::f32 && !desc.a_quantizer.given) {
    invalid(fmt::format("gemm_desc.a_scale.dtype is {}, but the scales that a plan makes are f32",
                        shown(desc.a_scale.dtype)));
  }
}

void check_d(const backend::GemmDesc& desc) {
  const DType scale = desc.d_scale.dtype;
  if (is_float(desc.d)) {
    if (scale != DType::none) {
      invalid(fmt::format("gemm_desc.d_scale.dtype is {}, but d_dtype {} is not quantised; leave d_scale zero",
                          shown(scale), shown(desc.d)));
    }
    if (desc.d_quantizer.given) {
      invalid(fmt::format("gemm_desc.d_quantizer.scales is GIVEN, but d_dtype {} is not quantised; leave it 0",
                          shown(desc.d)));
    }
    return;
  }
  if (!is_quantized(desc.d)) {
    invalid(fmt::format("gemm_desc.d_dtype is {}, expected f32, f16, bf16, e4m3fn, e5m2, i8 or e2m1", shown(desc.d)));
  }
  if (scale != DType::f32 && scale != DType::e8m0 && scale != DType::e4m3fn) {
    invalid(fmt::format("gemm_desc.d_scale.dtype is {}, but d_dtype {} needs scales of f32, e8m0 or e4m3fn",
                        shown(scale), shown(desc.d)));
  }
}

backend::Options plan_options(const ironcl_chain* chain) {
  backend::Options out;
  const ironcl_chain* part = find_in_chain(chain, IRONCL_CHAIN_OPTIONS, "gemm_desc");
  if (part == nullptr) return out;
  const auto options = read_struct(reinterpret_cast<const ironcl_options*>(part), "options");
  check_reserved(options.reserved, "options.reserved");
  if (options.count > kMostOptions) {
    invalid(fmt::format("options.count is {}, expected at most {}", options.count, kMostOptions));
  }
  if (options.count != 0) require(options.items, "options.items");
  for (std::uint32_t i = 0; i < options.count; ++i) {
    const ironcl_key_value& item = options.items[i];
    require(item.key, fmt::format("options.items[{}].key", i));
    require(item.value, fmt::format("options.items[{}].value", i));
    for (const auto& [key, value] : out) {
      if (key == item.key) invalid(fmt::format("options: \"{}\" is there twice; give it once", key));
    }
    out.emplace_back(item.key, item.value);
  }
  return out;
}

/// An unquantised B meets an unquantised A: nothing of either would have scales otherwise.
void check_b(const backend::GemmDesc& desc) {
  check_pair(desc.b, desc.b_scale, "gemm_desc.b");
  if (is_float(desc.b) && !is_float(desc.a)) {
    invalid(fmt::format("gemm_desc.b_dtype is {}, but a_dtype is {}; an unquantised B needs an A of f32, f16 or bf16",
                        shown(desc.b), shown(desc.a)));
  }
}

/// Rows that are picked or dealt out one by one have scales of their own.
void check_rows_alone(const backend::GemmDesc& desc) {
  if (desc.grouping != backend::Grouping::none) {
    constexpr std::string_view kWhy = "rows of a grouped problem belong to different matrices";
    check_row_scales(desc.a_scale, "gemm_desc.a_scale", kWhy);
    check_row_scales(desc.d_scale, "gemm_desc.d_scale", kWhy);
  }
  if (desc.a_rows != 0) check_row_scales(desc.a_scale, "gemm_desc.a_scale", "rows of A are gathered one by one");
}

}  // namespace

backend::GemmDesc gemm_desc(const ironcl_gemm_desc* in) {
  const auto abi = read_struct(in, "gemm_desc");
  if (abi.kind != IRONCL_OP_GEMM) {
    invalid(
        fmt::format("gemm_desc.kind is {}, expected {}: here only a GEMM is a problem", abi.kind, IRONCL_OP_GEMM));
  }
  check_reserved(abi.reserved, "gemm_desc.reserved");
  check_flags(abi.flags, IRONCL_GEMM_REPEATABLE, "gemm_desc.flags");
  backend::GemmDesc out;
  out.m = dimension(abi.m, 0, "gemm_desc.m");
  out.n = dimension(abi.n, 1, "gemm_desc.n");
  out.k = dimension(abi.k, 1, "gemm_desc.k");
  out.lda = leading(abi.lda, out.k, "gemm_desc.lda", "k");
  out.ldd = leading(abi.ldd, out.n, "gemm_desc.ldd", "n");
  out.a_source = dtype(abi.a_source_dtype, "gemm_desc.a_source_dtype");
  out.a = dtype(abi.a_dtype, "gemm_desc.a_dtype");
  out.b = dtype(abi.b_dtype, "gemm_desc.b_dtype");
  out.d = dtype(abi.d_dtype, "gemm_desc.d_dtype");
  out.bias = dtype(abi.bias_dtype, "gemm_desc.bias_dtype");
  out.weakest_accuracy = static_cast<backend::AccuracyClass>(
      enumerator(abi.weakest_accuracy, IRONCL_ACCURACY_TENSOR14, "gemm_desc.weakest_accuracy"));
  out.grouping =
      static_cast<backend::Grouping>(enumerator(abi.grouping, IRONCL_GROUPING_MASKED, "gemm_desc.grouping"));
  out.matrices = check_matrices(out.grouping, abi.matrices, "gemm_desc");
  out.a_rows = dimension(abi.a_rows, 0, "gemm_desc.a_rows");
  out.repeatable = (abi.flags & IRONCL_GEMM_REPEATABLE) != 0;
  out.a_quantizer = quantizer(abi.a_quantizer, "gemm_desc.a_quantizer");
  out.d_quantizer = quantizer(abi.d_quantizer, "gemm_desc.d_quantizer");
  const bool makes_scales = out.a_source != DType::none && !out.a_quantizer.given;
  out.a_scale = scale_desc(abi.a_scale, out.k, makes_scales, "gemm_desc.a_scale");
  out.b_scale = scale_desc(abi.b_scale, out.k, true, "gemm_desc.b_scale");
  out.d_scale = scale_desc(abi.d_scale, out.n, false, "gemm_desc.d_scale");
  check_a(out);
  check_b(out);
  check_d(out);
  if (out.bias != DType::none && !is_float(out.bias)) {
    invalid(fmt::format("gemm_desc.bias_dtype is {}, expected none, f32, f16 or bf16", shown(out.bias)));
  }
  check_rows_alone(out);
  check_nibbles(out.a_source == DType::none ? out.a : out.a_source, out.k, out.lda, "gemm_desc: A");
  check_nibbles(out.b, out.k, out.k, "gemm_desc: B");
  check_nibbles(out.d, out.n, out.ldd, "gemm_desc: D");
  const std::int64_t matrices = std::max<std::int64_t>(1, out.matrices);
  const std::int64_t d_matrices = out.grouping == backend::Grouping::masked ? matrices : 1;
  const std::int64_t a_rows = out.a_rows == 0 ? out.m : out.a_rows;
  const std::int64_t a_matrices = out.a_rows == 0 ? d_matrices : 1;
  check_extent(a_rows, out.lda, a_matrices, "gemm_desc: A");
  check_extent(a_rows, out.a_scale.ld, a_matrices, "gemm_desc: scales of A");
  check_extent(out.m, out.ldd, d_matrices, "gemm_desc: D");
  check_extent(out.m, out.d_scale.ld, d_matrices, "gemm_desc: scales of D");
  check_extent(out.n, out.k, matrices, "gemm_desc: B");
  out.options = plan_options(abi.next);
  return out;
}

backend::WeightsDesc weights_desc(const ironcl_weights_desc* in, const DeviceState& device) {
  const auto abi = read_struct(in, "weights_desc");
  check_reserved(abi.reserved, "weights_desc.reserved");
  find_in_chain(abi.next, 0, "weights_desc");
  backend::WeightsDesc out;
  out.dtype = dtype(abi.dtype, "weights_desc.dtype");
  out.n = dimension(abi.n, 1, "weights_desc.n");
  out.k = dimension(abi.k, 1, "weights_desc.k");
  out.ld = leading(abi.ld, out.k, "weights_desc.ld", "k");
  if (abi.matrices > kMostMatrices) {
    invalid(fmt::format("weights_desc.matrices is {}, expected at most {}", abi.matrices, kMostMatrices));
  }
  out.matrices = std::max<std::int64_t>(1, abi.matrices);
  out.scale = scale_desc(abi.scale, out.k, false, "weights_desc.scale");
  check_pair(out.dtype, out.scale, "weights_desc: b");
  check_nibbles(out.dtype, out.k, out.ld, "weights_desc: data");
  check_extent(out.n, out.ld, out.matrices, "weights_desc: data");
  check_extent(out.n, out.scale.ld, out.matrices, "weights_desc: scales");

  require(abi.data, "weights_desc.data");
  const std::uint64_t data = bytes_of(out.matrices * out.n, out.ld, out.k, out.dtype);
  if (abi.data_bytes < data) {
    invalid(fmt::format("weights_desc.data_bytes is {}, expected at least {} for {} [{}, {}] {} with ld {}",
                        abi.data_bytes, data, out.matrices, out.n, out.k, shown(out.dtype), out.ld));
  }
  if (out.scale.dtype == DType::none) {
    if (abi.scales != nullptr || abi.scale_bytes != 0) {
      invalid("weights_desc.scales are given, but scale.dtype is none; give the dtype, or neither");
    }
  } else {
    require(abi.scales, "weights_desc.scales");
    const std::int64_t rows = out.scale.grid.scale_rows(out.n), cols = out.scale.grid.scale_cols(out.k);
    const std::uint64_t scales = bytes_of(out.matrices * rows, out.scale.ld, cols, out.scale.dtype);
    if (abi.scale_bytes < scales) {
      invalid(
          fmt::format("weights_desc.scale_bytes is {}, expected at least {} for {} [{}, {}] {} with ld {} (groups "
                      "of {}x{}, ceil-divided)",
                      abi.scale_bytes, scales, out.matrices, rows, cols, shown(out.scale.dtype), out.scale.ld,
                      abi.scale.group_rows, abi.scale.group_cols));
    }
  }
  if (out.scale.global) {
    require(abi.global_scales, "weights_desc.global_scales");
  } else if (abi.global_scales != nullptr) {
    invalid("weights_desc.global_scales are given, but scale.global_dtype is none; give the dtype, or neither");
  }
  out.global_scales = abi.global_scales;
  out.data = static_cast<const std::byte*>(abi.data);
  out.scales = static_cast<const std::byte*>(abi.scales);
  if (abi.plan != nullptr) {
    if (abi.plan->device.get() != &device) {
      invalid("weights_desc.plan is of another device; prepare the weights on the plan's device");
    }
    const auto* gemm = std::get_if<GemmOp>(&abi.plan->operation);
    if (gemm == nullptr) invalid("weights_desc.plan is no GEMM; give the one that reads these weights, or NULL");
    const GemmOp& plan = *gemm;
    check_same_matrix(plan.desc, out.dtype, out.n, out.k, out.matrices, out.scale, "weights_desc");
    out.plan = plan.object;
  }
  return out;
}

void check_same_matrix(const backend::GemmDesc& plan, DType type, std::int64_t n, std::int64_t k,
                       std::int64_t matrices, const backend::ScaleDesc& scale, std::string_view field) {
  const std::int64_t plan_matrices = std::max<std::int64_t>(1, plan.matrices);
  if (n != plan.n || k != plan.k || matrices != plan_matrices) {
    invalid(
        fmt::format("{}: the weights are {} matrices of [n, k] = [{}, {}], expected {} of [{}, {}] as in the plan",
                    field, matrices, n, k, plan_matrices, plan.n, plan.k));
  }
  if (type != plan.b) {
    invalid(fmt::format("{}: the weights are {}, expected the plan's b_dtype {}", field, shown(type), shown(plan.b)));
  }
  const auto grid = scale.grid.resolved(n, k), expected = plan.b_scale.grid.resolved(n, k);
  if (scale.dtype != plan.b_scale.dtype || !(grid == expected) || scale.global != plan.b_scale.global) {
    invalid(
        fmt::format("{}: the weights' scales are {} in groups of {}x{}, expected the plan's {} in groups of {}x{}",
                    field, shown(scale.dtype), grid.group_rows, grid.group_cols, shown(plan.b_scale.dtype),
                    expected.group_rows, expected.group_cols));
  }
}

}  // namespace ironcl::adapter

// SPDX-License-Identifier: Apache-2.0
// Checks of the descriptions of a GEMM, its weights and a quantiser. Next door: fields.h (checks of one field),
// descs_experts.cpp (the other operations), args.cpp (calls).

#include <set>

#include "plugins/adapter/fields.h"
#include "plugins/adapter/spans.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

using backend::DType;
using backend::Grouping;
using numerics::is_float;
using numerics::is_quantized;

constexpr std::uint32_t kMostOptions = 1024;
constexpr Fields kGemm{"gemm_desc"}, kWeights{"weights_desc"}, kQuantize{"quantize_desc"};

/// Quantised operands have scales. `operand` opens the message: "gemm_desc.a".
void check_pair(DType type, const backend::ScaleDesc& scale, std::string_view operand) {
  if (is_quantized(type) && scale.dtype == DType::none)
    invalid(
        "{0}_scale.dtype is none, but {0}_dtype {1} needs scales; one f32 scale of 1 with group 0x0 "
        "leaves the values as they are",
        operand, shown(type));
}

void check_a(const backend::GemmDesc& desc) {
  check_pair(desc.a, desc.a_scale, "gemm_desc.a");
  if (is_float(desc.a) && desc.a_scale.dtype != DType::none)
    kGemm.invalid("a_scale.dtype is {}, but a_dtype {} has no scales; leave a_scale zero", shown(desc.a_scale.dtype),
                  shown(desc.a));
  if (desc.a_source == DType::none) {
    if (desc.a_quantizer.given)
      kGemm.invalid("a_quantizer.scales is GIVEN, but the plan does not quantise A; leave it 0");
  } else if (!is_quantized(desc.a)) {
    kGemm.invalid(
        "a_source_dtype is {}, but a_dtype {} is not quantised; leave a_source_dtype 0 where A is multiplied as it "
        "comes",
        shown(desc.a_source), shown(desc.a));
  } else if (desc.a_scale.dtype != DType::f32 && !desc.a_quantizer.given) {
    kGemm.invalid("a_scale.dtype is {}, but the scales that a plan makes are f32", shown(desc.a_scale.dtype));
  }
}

/// An unquantised B meets an unquantised A: nothing of either would have scales otherwise.
void check_b(const backend::GemmDesc& desc) {
  check_pair(desc.b, desc.b_scale, "gemm_desc.b");
  if (is_float(desc.b) && !is_float(desc.a))
    kGemm.invalid("b_dtype is {}, but a_dtype is {}; an unquantised B needs an A of f32, f16 or bf16", shown(desc.b),
                  shown(desc.a));
}

void check_d(const backend::GemmDesc& desc) {
  const DType scale = desc.d_scale.dtype;
  if (is_float(desc.d)) {
    if (scale != DType::none)
      kGemm.invalid("d_scale.dtype is {}, but d_dtype {} is not quantised; leave d_scale zero", shown(scale),
                    shown(desc.d));
    if (desc.d_quantizer.given)
      kGemm.invalid("d_quantizer.scales is GIVEN, but d_dtype {} is not quantised; leave it 0", shown(desc.d));
  } else if (scale != DType::f32 && scale != DType::e8m0 && scale != DType::e4m3fn) {
    kGemm.invalid("d_scale.dtype is {}, but d_dtype {} needs scales of f32, e8m0 or e4m3fn", shown(scale),
                  shown(desc.d));
  }
}

/// With an activation B has two rows for each column of D.
void check_activation(const ironcl_gemm_desc& abi, backend::GemmDesc& out) {
  out.activation = kGemm.enumerator<backend::Activation>(abi.activation, IRONCL_ACTIVATION_SWIGLU_OAI, "activation");
  out.activation_limit = kGemm.limit(abi.activation_limit, "activation_limit");
  if (out.activation == backend::Activation::none) {
    if (out.activation_limit != 0)
      kGemm.invalid("activation_limit is {}, but there is no activation; leave it 0", out.activation_limit);
  } else {
    kGemm.dimension(out.b_rows(), 1, "n, twice as there is an activation,");
  }
}

/// Rows that are picked or scheduled one by one have scales of their own.
void check_rows_alone(const backend::GemmDesc& desc) {
  if (desc.grouping != Grouping::none) {
    constexpr std::string_view kWhy = "rows of a grouped problem belong to different matrices";
    kGemm.check_row_scales(desc.a_scale, "a_scale", kWhy);
    kGemm.check_row_scales(desc.d_scale, "d_scale", kWhy);
  }
  if (desc.a_rows != 0) kGemm.check_row_scales(desc.a_scale, "a_scale", "rows of A are gathered one by one");
}

void check_sizes(const backend::GemmDesc& desc) {
  kGemm.check_nibbles(desc.a_source == DType::none ? desc.a : desc.a_source, desc.k, desc.lda, "A");
  kGemm.check_nibbles(desc.b, desc.k, desc.k, "B");
  kGemm.check_nibbles(desc.d, desc.n, desc.ldd, "D");
  const std::int64_t matrices = std::max<std::int64_t>(1, desc.matrices);
  const std::int64_t stacked = desc.grouping == Grouping::masked ? matrices : 1;
  const std::int64_t a_rows = desc.a_rows == 0 ? desc.m : desc.a_rows, a_stacked = desc.a_rows == 0 ? stacked : 1;
  kGemm.check_extent(a_rows, desc.lda, a_stacked, "A");
  kGemm.check_extent(a_rows, desc.a_scale.ld, a_stacked, "scales of A");
  kGemm.check_extent(desc.m, desc.ldd, stacked, "D");
  kGemm.check_extent(desc.m, desc.d_scale.ld, stacked, "scales of D");
  kGemm.check_extent(desc.b_rows(), desc.k, matrices, "B");
}

backend::Options plan_options(const ironcl_chain* chain) {
  const ironcl_chain* part = find_in_chain(chain, IRONCL_CHAIN_OPTIONS, "gemm_desc");
  if (part == nullptr) return {};
  const auto options = read_struct(reinterpret_cast<const ironcl_options*>(part), "options");
  if (options.count > kMostOptions) invalid("options.count is {}, expected at most {}", options.count, kMostOptions);
  backend::Options out = read(options.items, options.count, "options.items");
  std::set<std::string_view> keys;
  for (const auto& [key, value] : out)
    if (!keys.insert(key).second) invalid("options: \"{}\" occurs twice; give it once", key);
  return out;
}

/// That the bytes of B and of its scales are there.
void check_memory(const ironcl_weights_desc& abi, const backend::WeightsDesc& out) {
  require("weights_desc.data", abi.data);
  const std::uint64_t data = bytes_of(out.matrices * out.n, out.ld, out.k, out.dtype);
  if (abi.data_bytes < data)
    kWeights.invalid("data_bytes is {}, expected at least {} for {} [{}, {}] {} with ld {}", abi.data_bytes, data,
                     out.matrices, out.n, out.k, shown(out.dtype), out.ld);
  if (out.scale.dtype != DType::none) {
    require("weights_desc.scales", abi.scales);
    const std::int64_t rows = out.scale.grid.scale_rows(out.n), cols = out.scale.grid.scale_cols(out.k);
    const std::uint64_t scales = bytes_of(out.matrices * rows, out.scale.ld, cols, out.scale.dtype);
    if (abi.scale_bytes < scales)
      kWeights.invalid(
          "scale_bytes is {}, expected at least {} for {} [{}, {}] {} with ld {} (groups of {}x{}, ceil-divided)",
          abi.scale_bytes, scales, out.matrices, rows, cols, shown(out.scale.dtype), out.scale.ld,
          abi.scale.group_rows, abi.scale.group_cols);
  } else if (abi.scales != nullptr || abi.scale_bytes != 0) {
    kWeights.invalid("scales are given, but scale.dtype is none; give the dtype, or neither");
  }
  if (out.scale.global) {
    require("weights_desc.global_scales", abi.global_scales);
  } else if (abi.global_scales != nullptr) {
    kWeights.invalid("global_scales are given, but scale.global_dtype is none; give the dtype, or neither");
  }
}

}  // namespace

backend::Options read(const ironcl_key_value* items, std::uint32_t count, std::string_view name) {
  if (count != 0) require(name, items);
  backend::Options out;
  for (std::uint32_t i = 0; i < count; ++i) {
    require(fmt::format("{}[{}].key", name, i), items[i].key);
    require(fmt::format("{}[{}].value", name, i), items[i].value);
    out.emplace_back(items[i].key, items[i].value);
  }
  return out;
}

backend::GemmDesc read(const ironcl_gemm_desc* in) {
  const auto abi = read_struct(in, "gemm_desc", IRONCL_GEMM_REPEATABLE, IRONCL_CHAIN_OPTIONS);
  if (abi.kind != IRONCL_OP_GEMM) {
    kGemm.invalid("kind is {}, expected {}: here only a GEMM is a problem", abi.kind, int{IRONCL_OP_GEMM});
  }
  backend::GemmDesc out;
  out.m = kGemm.dimension(abi.m, 0, "m");
  out.n = kGemm.dimension(abi.n, 1, "n");
  out.k = kGemm.dimension(abi.k, 1, "k");
  out.lda = kGemm.leading(abi.lda, out.k, "lda", "k");
  out.ldd = kGemm.leading(abi.ldd, out.n, "ldd", "n");
  out.a_source = kGemm.float_type(abi.a_source_dtype, "a_source_dtype", true);
  out.a = kGemm.operand_type(abi.a_dtype, "a_dtype");
  out.b = kGemm.operand_type(abi.b_dtype, "b_dtype");
  out.d = kGemm.operand_type(abi.d_dtype, "d_dtype");
  out.bias = kGemm.float_type(abi.bias_dtype, "bias_dtype", true);
  out.weakest_accuracy =
      kGemm.enumerator<backend::AccuracyClass>(abi.weakest_accuracy, IRONCL_ACCURACY_TENSOR14, "weakest_accuracy");
  out.grouping = kGemm.enumerator<Grouping>(abi.grouping, IRONCL_GROUPING_MASKED, "grouping");
  out.matrices = kGemm.matrices(out.grouping, abi.matrices);
  out.a_rows = kGemm.dimension(abi.a_rows, 0, "a_rows");
  out.repeatable = (abi.flags & IRONCL_GEMM_REPEATABLE) != 0;
  out.a_quantizer = kGemm.quantizer(abi.a_quantizer, "a_quantizer");
  out.d_quantizer = kGemm.quantizer(abi.d_quantizer, "d_quantizer");
  const bool makes_scales = out.a_source != DType::none && !out.a_quantizer.given;
  out.a_scale = kGemm.scale(abi.a_scale, out.k, makes_scales, "a_scale");
  out.b_scale = kGemm.scale(abi.b_scale, out.k, true, "b_scale");
  out.d_scale = kGemm.scale(abi.d_scale, out.n, false, "d_scale");
  check_activation(abi, out);
  check_a(out);
  check_b(out);
  check_d(out);
  check_rows_alone(out);
  check_sizes(out);
  out.options = plan_options(abi.next);
  return out;
}

backend::WeightsDesc read(const ironcl_weights_desc* in, const DeviceState& device) {
  const auto abi = read_struct(in, "weights_desc");
  backend::WeightsDesc out;
  out.dtype = kWeights.operand_type(abi.dtype, "dtype");
  out.n = kWeights.dimension(abi.n, 1, "n");
  out.k = kWeights.dimension(abi.k, 1, "k");
  out.ld = kWeights.leading(abi.ld, out.k, "ld", "k");
  if (abi.matrices > kMostMatrices)
    kWeights.invalid("matrices is {}, expected at most {}", abi.matrices, kMostMatrices);
  out.matrices = std::max<std::int64_t>(1, abi.matrices);
  out.scale = kWeights.scale(abi.scale, out.k, false);
  check_pair(out.dtype, out.scale, "weights_desc: b");
  kWeights.check_nibbles(out.dtype, out.k, out.ld, "data");
  kWeights.check_extent(out.n, out.ld, out.matrices, "data");
  kWeights.check_extent(out.n, out.scale.ld, out.matrices, "scales");
  check_memory(abi, out);
  out.global_scales = abi.global_scales;
  out.data = static_cast<const std::byte*>(abi.data);
  out.scales = static_cast<const std::byte*>(abi.scales);
  if (abi.plan == nullptr) return out;
  if (abi.plan->device.get() != &device)
    kWeights.invalid("plan is of another device; prepare the weights on the plan's device");
  const auto* plan = std::get_if<GemmOp>(&abi.plan->operation);
  if (plan == nullptr) kWeights.invalid("plan is not a GEMM; give the one that reads these weights, or NULL");
  check_same_matrix(plan->desc, out, "weights_desc");
  out.plan = plan->object;
  return out;
}

void check_same_matrix(const backend::GemmDesc& plan, const backend::WeightsDesc& weights, std::string_view field) {
  const std::int64_t plan_matrices = std::max<std::int64_t>(1, plan.matrices), n = weights.n, k = weights.k;
  if (n != plan.b_rows() || k != plan.k || weights.matrices != plan_matrices)
    invalid("{}: the weights are {} matrices of [n, k] = [{}, {}], expected {} of [{}, {}] as in the plan", field,
            weights.matrices, n, k, plan_matrices, plan.b_rows(), plan.k);
  if (weights.dtype != plan.b)
    invalid("{}: the weights are {}, expected the plan's b_dtype {}", field, shown(weights.dtype), shown(plan.b));
  const backend::ScaleDesc& scale = weights.scale;
  const auto grid = scale.grid.resolved(n, k), expected = plan.b_scale.grid.resolved(n, k);
  if (scale.dtype != plan.b_scale.dtype || !(grid == expected) || scale.global != plan.b_scale.global)
    invalid("{}: the weights' scales are {} in groups of {}x{}, expected the plan's {} in groups of {}x{}", field,
            shown(scale.dtype), grid.group_rows, grid.group_cols, shown(plan.b_scale.dtype), expected.group_rows,
            expected.group_cols);
}

backend::QuantizeDesc read(const ironcl_quantize_desc* in) {
  const auto abi = read_struct(in, "quantize_desc");
  backend::QuantizeDesc out;
  out.rows = kQuantize.dimension(abi.rows, 0, "rows");
  out.cols = kQuantize.dimension(abi.cols, 1, "cols");
  out.x_ld = kQuantize.leading(abi.x_ld, out.cols, "x_ld");
  out.code_ld = kQuantize.leading(abi.code_ld, out.cols, "code_ld");
  out.x = kQuantize.float_type(abi.x_dtype, "x_dtype");
  out.code = kQuantize.dtype(abi.code_dtype, "code_dtype");
  out.scale = kQuantize.scale(abi.scale, out.cols, false);
  out.quantizer = kQuantize.quantizer(abi.quantizer);
  if (!is_quantized(out.code))
    kQuantize.invalid("code_dtype is {}, expected e4m3fn, e5m2, i8 or e2m1", shown(out.code));
  kQuantize.check_made_scales(out.scale, out.quantizer);
  kQuantize.check_nibbles(out.code, out.cols, out.code_ld, "codes");
  kQuantize.check_extent(out.rows, out.x_ld, 1, "x");
  kQuantize.check_extent(out.rows, out.code_ld, 1, "codes");
  kQuantize.check_extent(out.rows, out.scale.ld, 1, "scales");
  return out;
}

}  // namespace ironcl::adapter

// SPDX-License-Identifier: Apache-2.0
// What the reference plugin refuses, and how it says so.
#include <fmt/format.h>

#include <cmath>

#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {

[[noreturn]] void invalid(const std::string& text) {
  if (fault("refuses_with_internal")) throw Refusal(IRONCL_INTERNAL, text);
  throw Refusal(IRONCL_INVALID_ARGUMENT, fault("operand_is_not_named") ? "something is wrong" : text);
}

[[noreturn]] static void unknown(const std::string& text) { throw Refusal(IRONCL_UNIMPLEMENTED, text); }

void known(std::uint32_t value, std::uint32_t last, const char* field) {
  if (value > last && !fault("unknown_values_ignored")) unknown(fmt::format("{} is {}, unknown here", field, value));
}

void dimension(std::int64_t value, std::int64_t least, const char* field) {
  if (value < least && fault("accepts_negative_sizes")) return;
  if (value > kLargest && fault("accepts_overflow")) return;
  if (value < least || value > kLargest)
    invalid(fmt::format("{} is {}, expected {} to {}", field, value, least, kLargest));
}

void leading(std::int64_t ld, std::int64_t cols, std::int64_t rows, const char* field) {
  std::int64_t bytes = 0;
  if ((ld != 0 && ld < cols) || __builtin_mul_overflow(rows, ld, &bytes) ||
      __builtin_mul_overflow(bytes, std::int64_t{8}, &bytes)) {
    invalid(fmt::format("{} is {}, for {} rows of {}", field, ld, rows, cols));
  }
}

bool is_float(ironcl_dtype t) { return t >= IRONCL_F32 && t <= IRONCL_BF16; }
bool is_code(ironcl_dtype t) { return t == IRONCL_F8_E4M3FN || t == IRONCL_F8_E5M2 || t == IRONCL_I8; }

std::int64_t groups(std::int64_t count, std::uint32_t size) { return size == 0 ? 1 : ceil_div(count, size); }

std::uint64_t extent(std::int64_t rows, std::int64_t ld, std::int64_t cols, std::uint32_t element) {
  return rows == 0 ? 0 : static_cast<std::uint64_t>((rows - 1) * (ld == 0 ? cols : ld) + cols) * element;
}

std::uint64_t words(std::int64_t count) { return static_cast<std::uint64_t>(count) * 4; }

void check_scale(const ironcl_scale_desc& s, std::int64_t cols, bool tight, const char* field) {
  known(s.dtype, IRONCL_F64, field);
  if (s.global_dtype != 0 || s.row_origin != 0 || s.col_origin != 0)
    unknown(fmt::format("{}: global or origin", field));
  if (s.dtype == IRONCL_DTYPE_NONE) return;
  if (!is_float(s.dtype) && s.dtype != IRONCL_F8_E8M0) invalid(fmt::format("{}.dtype is {}", field, s.dtype));
  const std::int64_t width = groups(cols, s.group_cols);
  if (s.ld != 0 && (s.ld < width || (tight && s.ld != width))) {
    invalid(fmt::format("{}.ld is {}, expected {}", field, s.ld, width));
  }
}

void check_wait_list(const ironcl_event* events, std::uint32_t count, WaitList* wait) {
  if (count != 0 && events == nullptr) invalid("args.wait is NULL");
  for (std::uint32_t i = 0; i < count; ++i) {
    if (events[i] == nullptr) invalid(fmt::format("args.wait[{}] is NULL", i));
    wait->push_back(events[i]->completion);
  }
}

void check_chain(const ironcl_chain* chain) {
  for (; chain != nullptr; chain = chain->next) {
    const bool required = (chain->type & IRONCL_CHAIN_REQUIRED) != 0;
    const std::uint32_t type = chain->type & ~IRONCL_CHAIN_REQUIRED;
    if (type == IRONCL_CHAIN_OPTIONS) {
      const ironcl_options& options = *reinterpret_cast<const ironcl_options*>(chain);
      if (options.count != 0 && !fault("unknown_option_ignored")) {
        invalid(fmt::format("no such option: {}; there are none", options.items[0].key));
      }
      continue;
    }
    if ((required && !fault("required_chain_ignored")) || fault("optional_chain_refused")) {
      unknown(fmt::format("chain item of type {}", type));
    }
  }
}

std::uint64_t workspace_bytes(const ironcl_gemm_desc& d) {
  return d.a_source_dtype == IRONCL_DTYPE_NONE ? 0 : static_cast<std::uint64_t>(d.m) * 8 + 64;
}

ironcl_gemm_desc check_desc(const ironcl_gemm_desc* in) {
  const auto d = read_struct(in, "gemm_desc");
  known(d.flags, IRONCL_GEMM_REPEATABLE, "gemm_desc.flags");
  dimension(d.m, 0, "gemm_desc.m");
  dimension(d.n, 1, "gemm_desc.n");
  dimension(d.k, 1, "gemm_desc.k");
  if (d.lda != 0 && d.lda < d.k) invalid(fmt::format("gemm_desc.lda is {}, expected at least k = {}", d.lda, d.k));
  if (d.ldd != 0 && d.ldd < d.n) invalid(fmt::format("gemm_desc.ldd is {}, expected at least n = {}", d.ldd, d.n));
  std::int64_t bytes = 0;
  if (!fault("accepts_overflow") && (__builtin_mul_overflow(d.m, std::max(d.lda, d.k), &bytes) ||
                                     __builtin_mul_overflow(bytes, std::int64_t{8}, &bytes))) {
    invalid(fmt::format("gemm_desc: A of {} rows with lda {} ends beyond 2^63 bytes", d.m, d.lda));
  }
  for (const auto& [type, field] :
       {std::pair(d.a_source_dtype, "a_source_dtype"), std::pair(d.a_dtype, "a_dtype"),
        std::pair(d.b_dtype, "b_dtype"), std::pair(d.d_dtype, "d_dtype"), std::pair(d.bias_dtype, "bias_dtype")}) {
    known(type, IRONCL_F64, field);
  }
  known(d.weakest_accuracy, IRONCL_ACCURACY_TENSOR14, "weakest_accuracy");
  known(d.grouping, IRONCL_GROUPING_MASKED, "grouping");
  known(d.a_quantizer.scale_rounding, IRONCL_SCALE_POWER_OF_TWO, "scale_rounding");
  if (d.a_quantizer.reserved != 0 || d.reserved != 0) unknown("gemm_desc: a reserved field");
  check_scale(d.a_scale, d.k, false, "gemm_desc.a_scale");
  check_scale(d.b_scale, d.k, true, "gemm_desc.b_scale");
  if (!is_float(d.a_dtype) && !is_code(d.a_dtype)) invalid("gemm_desc.a_dtype is no operand's type");
  if (!is_float(d.b_dtype) && !is_code(d.b_dtype)) invalid("gemm_desc.b_dtype is no operand's type");
  if (!is_float(d.d_dtype) && !is_code(d.d_dtype)) invalid("gemm_desc.d_dtype is no operand's type");
  check_scale(d.d_scale, d.n, false, "gemm_desc.d_scale");
  const bool scaled = d.d_scale.dtype == IRONCL_F32 || d.d_scale.dtype == IRONCL_F8_E8M0;
  if (is_float(d.d_dtype) ? d.d_scale.dtype != IRONCL_DTYPE_NONE : !scaled) {
    invalid("gemm_desc.d_scale.dtype does not fit d_dtype");
  }
  if (d.d_dtype == IRONCL_I8) invalid("gemm_desc.d_dtype is i8");
  if (d.a_source_dtype != IRONCL_DTYPE_NONE && !is_float(d.a_source_dtype)) {
    invalid("gemm_desc.a_source_dtype is not f32, f16 or bf16");
  }
  if (!std::isfinite(d.a_quantizer.amax_floor) || d.a_quantizer.amax_floor < 0) {
    invalid("gemm_desc.a_quantizer.amax_floor is not a finite number of at least 0");
  }
  if ((d.grouping == IRONCL_GROUPING_NONE) != (d.matrices == 0)) invalid("gemm_desc.matrices and grouping");
  dimension(d.a_rows, 0, "gemm_desc.a_rows");
  if (is_float(d.b_dtype) && !is_float(d.a_dtype)) invalid("gemm_desc.b_dtype is a float type and a_dtype is not");
  const bool alone = d.grouping != IRONCL_GROUPING_NONE || d.a_rows != 0;
  if (alone && d.a_scale.dtype != IRONCL_DTYPE_NONE && d.a_scale.group_rows != 1) {
    invalid("gemm_desc.a_scale.group_rows is not 1");
  }
  if (d.grouping != IRONCL_GROUPING_NONE && d.d_scale.dtype != IRONCL_DTYPE_NONE && d.d_scale.group_rows != 1) {
    invalid("gemm_desc.d_scale.group_rows is not 1");
  }
  check_chain(d.next);
  return d;
}

std::string refusal_of(const ironcl_gemm_desc& d, ironcl_status* reason, bool asked_by_create) {
  const bool micro = d.a_scale.dtype == IRONCL_F8_E8M0;
  *reason = IRONCL_REASON_SCALE_LAYOUT;
  if (fault("supports_says_yes")) return micro && asked_by_create ? "scales of A in e8m0 are not there" : "";
  if (fault("texts_differ")) return !micro ? "" : asked_by_create ? "no e8m0" : "scales of A in e8m0 are not there";
  if (fault("refuses_the_floor") && d.b_scale.group_cols == 256) return "blocks of 256 are not there";
  if (fault("refuses_grouped") && d.grouping != IRONCL_GROUPING_NONE) {
    *reason = IRONCL_REASON_GROUPING;
    return "grouped problems are not there";
  }
  if (d.d_scale.dtype == IRONCL_F8_E8M0 || d.d_quantizer.scales == IRONCL_SCALES_GIVEN) {
    *reason = IRONCL_REASON_SCALE_LAYOUT;
    return "scales of D come in f32 only, and are made";
  }
  if (d.activation != 0) {
    *reason = IRONCL_REASON_OPTION;
    return "activations of D are not there";
  }
  if (d.a_quantizer.scales == IRONCL_SCALES_GIVEN) {
    *reason = IRONCL_REASON_SCALE_LAYOUT;
    return "scales of an A that is quantised are made";
  }
  *reason = IRONCL_REASON_NONE;
  return "";
}

ironcl_weights_desc check_weights(const ironcl_weights_desc* in) {
  const auto d = read_struct(in, "weights_desc");
  check_chain(d.next);
  dimension(d.n, 1, "weights_desc.n");
  dimension(d.k, 1, "weights_desc.k");
  if (d.ld != 0 && d.ld < d.k) invalid(fmt::format("weights_desc.ld is {}, expected at least k = {}", d.ld, d.k));
  if (d.data == nullptr) invalid("weights_desc.data is NULL");
  const std::int64_t ld = d.ld == 0 ? d.k : d.ld;
  const std::int64_t matrices = std::max<std::int64_t>(d.matrices, 1);
  const auto needed = static_cast<std::uint64_t>((matrices * d.n - 1) * ld + d.k) * size_of(d.dtype);
  if (d.data_bytes < needed) invalid(fmt::format("weights_desc.data_bytes is {}, expected {}", d.data_bytes, needed));
  check_scale(d.scale, d.k, false, "weights_desc.scale");
  if (d.scale.dtype != IRONCL_DTYPE_NONE) {
    if (d.scales == nullptr) invalid("weights_desc.scales is NULL");
    const std::int64_t rows = groups(d.n, d.scale.group_rows);
    const std::int64_t cols = groups(d.k, d.scale.group_cols);
    const std::int64_t scale_ld = d.scale.ld == 0 ? cols : d.scale.ld;
    const auto scale_bytes =
        static_cast<std::uint64_t>((matrices * rows - 1) * scale_ld + cols) * size_of(d.scale.dtype);
    if (d.scale_bytes < scale_bytes) {
      invalid(fmt::format("weights_desc.scale_bytes is {}, expected {}", d.scale_bytes, scale_bytes));
    }
  }
  if (d.plan != nullptr && !fault("weights_of_any_shape")) {
    const auto& plan = d.plan->data->desc;
    if (plan.n != d.n || plan.k != d.k) invalid("weights_desc: another shape than the plan's");
  }
  return d;
}

Region check_span(const ironcl_span& span, const char* name, std::uint64_t needed, std::uint64_t alignment) {
  if (span.buffer == nullptr) invalid(fmt::format("{} is absent", name));
  const std::uint64_t whole = span.buffer->memory->size;
  const bool outside = span.offset > whole || span.size > whole - span.offset;
  if ((outside || span.size < needed) && !fault("accepts_short_spans")) {
    invalid(fmt::format("{}: {} bytes from {} of a buffer of {}, expected {} bytes inside it", name, span.size,
                        span.offset, whole, needed));
  }
  if (outside || span.offset % alignment != 0) invalid(fmt::format("{}.offset is {}", name, span.offset));
  return {span.buffer->memory, span.offset, span.size};
}

Call check_call(const ironcl_gemm_args* in, const ironcl_op_t& plan, WaitList* wait) {
  const auto args = read_struct(in, "gemm_args");
  check_chain(args.next);
  const ironcl_gemm_desc& d = plan.data->desc;
  if (args.m < 0 || args.m > d.m) invalid(fmt::format("gemm_args.m is {}, expected 0 to {}", args.m, d.m));
  check_wait_list(args.wait, args.wait_count, wait);
  if (args.weights == nullptr) invalid("gemm_args.weights is NULL");
  const auto& w = args.weights->data->desc;
  if ((w.n != d.n || w.k != d.k) && !fault("weights_of_any_shape")) {
    invalid(fmt::format("gemm_args.weights are [{}, {}], the plan's are [{}, {}]", w.n, w.k, d.n, d.k));
  }
  if (w.plan == nullptr && fault("usual_weights_refused")) invalid("gemm_args.weights are not this plan's");
  Call call;
  call.m = args.m, call.weights = args.weights->data, call.plan = plan.data;
  if (d.a_rows == 0 ? args.a_rows != 0 : args.a_rows < (args.m == 0 ? 0 : 1) || args.a_rows > d.a_rows) {
    invalid(fmt::format("gemm_args.a_rows is {}, the plan's is {}", args.a_rows, d.a_rows));
  }
  call.a_rows = args.a_rows;
  if (args.m == 0) {
    if (args.d.buffer != nullptr) call.d = {args.d.buffer->memory, args.d.offset, args.d.size};
    return call;
  }
  const bool dynamic = d.a_source_dtype != IRONCL_DTYPE_NONE;
  const ironcl_dtype given = dynamic ? d.a_source_dtype : d.a_dtype;
  const std::int64_t matrices = std::max<std::int64_t>(d.matrices, 1);
  const std::int64_t d_rows = d.grouping == IRONCL_GROUPING_MASKED ? matrices * args.m : args.m;
  const std::int64_t a_rows = d.a_rows == 0 ? d_rows : args.a_rows;
  call.a = check_span(args.a, "gemm_args.a", extent(a_rows, d.lda, d.k, size_of(given)), size_of(given));
  const std::int64_t rows = groups(a_rows, d.a_scale.group_rows);
  const std::int64_t cols = groups(d.k, d.a_scale.group_cols);
  if (!dynamic && d.a_scale.dtype != IRONCL_DTYPE_NONE) {
    call.a_scale = check_span(args.a_scale, "gemm_args.a_scale",
                              extent(rows, d.a_scale.ld, cols, size_of(d.a_scale.dtype)), size_of(d.a_scale.dtype));
  }
  call.d = check_span(args.d, "gemm_args.d", extent(d_rows, d.ldd, d.n, size_of(d.d_dtype)), size_of(d.d_dtype));
  if (d.d_scale.dtype != IRONCL_DTYPE_NONE) {
    const std::int64_t height = groups(d_rows, d.d_scale.group_rows);
    const std::int64_t width = groups(d.n, d.d_scale.group_cols);
    call.d_scale = check_span(args.d_scale, "gemm_args.d_scale", extent(height, d.d_scale.ld, width, 4), 4);
  }
  if (d.bias_dtype != IRONCL_DTYPE_NONE) {
    call.bias = check_span(args.bias, "gemm_args.bias", extent(matrices, 0, d.n, size_of(d.bias_dtype)),
                           size_of(d.bias_dtype));
  }
  if (d.grouping != IRONCL_GROUPING_NONE) {
    call.counts = check_span(args.matrix_rows, "gemm_args.matrix_rows", words(matrices), 4);
    if (fault("counts_are_read_early")) {
      call.early_counts.resize(d.matrices);
      std::memcpy(call.early_counts.data(), call.counts.at(), words(matrices));
    }
  }
  if (d.a_rows != 0) call.index = check_span(args.a_index, "gemm_args.a_index", words(d_rows), 4);
  if (!fault("overlap_accepted")) {
    if (call.d.memory == call.a.memory) invalid("gemm_args.d overlaps gemm_args.a");
    if (call.d.memory == call.index.memory) invalid("gemm_args.d overlaps gemm_args.a_index");
    if (call.d.memory == call.counts.memory) invalid("gemm_args.d overlaps gemm_args.matrix_rows");
    if (call.d.memory == call.a_scale.memory) invalid("gemm_args.d overlaps gemm_args.a_scale");
    if (call.d.memory == call.bias.memory && !fault("overlap_of_the_bias_accepted"))
      invalid("gemm_args.d overlaps gemm_args.bias");
  }
  if (args.workspace.buffer != nullptr) {
    call.workspace = check_span(args.workspace, "gemm_args.workspace", workspace_bytes(d), 1);
  }
  if ((args.a_quantized.buffer == nullptr) != (args.a_quantized_scale.buffer == nullptr)) {
    invalid("gemm_args.a_quantized and a_quantized_scale come together");
  }
  if (args.a_quantized.buffer != nullptr) {
    call.codes = check_span(args.a_quantized, "gemm_args.a_quantized", extent(a_rows, 0, d.k, size_of(d.a_dtype)), 1);
    call.code_scales = check_span(args.a_quantized_scale, "gemm_args.a_quantized_scale", extent(rows, 0, cols, 4), 4);
  }
  return call;
}

ironcl_quantize_desc check_quantize(const ironcl_quantize_desc* in) {
  const auto d = read_struct(in, "quantize_desc");
  known(d.flags, 0, "quantize_desc.flags");
  check_chain(d.next);
  dimension(d.rows, 0, "quantize_desc.rows");
  dimension(d.cols, 1, "quantize_desc.cols");
  known(d.x_dtype, IRONCL_F64, "quantize_desc.x_dtype");
  known(d.code_dtype, IRONCL_F64, "quantize_desc.code_dtype");
  known(d.quantizer.scale_rounding, IRONCL_SCALE_POWER_OF_TWO, "quantize_desc.quantizer.scale_rounding");
  check_scale(d.scale, d.cols, false, "quantize_desc.scale");
  if (!is_float(d.x_dtype)) invalid("quantize_desc.x_dtype is not f32, f16 or bf16");
  if (!is_code(d.code_dtype)) invalid("quantize_desc.code_dtype is not e4m3fn, e5m2 or i8");
  if (d.scale.dtype != IRONCL_F32) invalid("quantize_desc.scale.dtype is not f32");
  if (!std::isfinite(d.quantizer.amax_floor) || d.quantizer.amax_floor < 0) {
    invalid("quantize_desc.quantizer.amax_floor is not a finite number of at least 0");
  }
  leading(d.x_ld, d.cols, d.rows, "quantize_desc: x: x_ld");
  leading(d.code_ld, d.cols, d.rows, "quantize_desc: codes: code_ld");
  return d;
}

QuantizeCall check_quantize_call(const ironcl_quantize_args* in, const ironcl_quantize_desc& desc, WaitList* wait) {
  const auto args = read_struct(in, "quantize_args");
  check_chain(args.next);
  if (args.rows < 0 || args.rows > desc.rows) invalid(fmt::format("quantize_args.rows is {}", args.rows));
  check_wait_list(args.wait, args.wait_count, wait);
  QuantizeCall call;
  call.desc = desc;
  call.rows = args.rows;
  if (args.rows == 0) return call;
  const ironcl_scale_desc& scale = desc.scale;
  const std::int64_t height = groups(args.rows, scale.group_rows);
  const std::int64_t width = groups(desc.cols, scale.group_cols);
  const std::uint32_t element = size_of(desc.x_dtype);
  call.x = check_span(args.x, "quantize_args.x", extent(args.rows, desc.x_ld, desc.cols, element), element);
  call.codes = check_span(args.codes, "quantize_args.codes", extent(args.rows, desc.code_ld, desc.cols, 1), 1);
  call.scales = check_span(args.scales, "quantize_args.scales", extent(height, scale.ld, width, 4), 4);
  if (call.codes.memory == call.x.memory || call.scales.memory == call.x.memory ||
      call.codes.memory == call.scales.memory) {
    invalid("quantize_args.codes overlaps quantize_args.x or scales");
  }
  return call;
}

}  // namespace ironcl::reference

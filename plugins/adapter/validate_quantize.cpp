// SPDX-License-Identifier: Apache-2.0
// Checks of ironcl_quantize_desc and ironcl_quantize_args. Next door: fields.h, spans.h (what plans share with it).
#include <fmt/format.h>

#include "plugins/adapter/fields.h"
#include "plugins/adapter/spans.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

using backend::DType;

backend::QuantizeDesc quantize_desc(const ironcl_quantize_desc* in) {
  const auto abi = read_struct(in, "quantize_desc");
  check_flags(abi.flags, 0, "quantize_desc.flags");
  check_reserved(abi.reserved, "quantize_desc.reserved");
  find_in_chain(abi.next, 0, "quantize_desc");
  backend::QuantizeDesc out;
  out.rows = dimension(abi.rows, 0, "quantize_desc.rows");
  out.cols = dimension(abi.cols, 1, "quantize_desc.cols");
  out.x_ld = leading(abi.x_ld, out.cols, "quantize_desc.x_ld", "cols");
  out.code_ld = leading(abi.code_ld, out.cols, "quantize_desc.code_ld", "cols");
  out.x = dtype(abi.x_dtype, "quantize_desc.x_dtype");
  out.code = dtype(abi.code_dtype, "quantize_desc.code_dtype");
  out.scale = scale_desc(abi.scale, out.cols, false, "quantize_desc.scale");
  out.quantizer = quantizer(abi.quantizer, "quantize_desc.quantizer");
  if (!numerics::is_float(out.x)) {
    invalid(fmt::format("quantize_desc.x_dtype is {}, expected f32, f16 or bf16", shown(out.x)));
  }
  if (!numerics::is_quantized(out.code)) {
    invalid(fmt::format("quantize_desc.code_dtype is {}, expected e4m3fn, e5m2, i8 or e2m1", shown(out.code)));
  }
  if (out.scale.dtype == DType::none || (out.scale.dtype != DType::f32 && !out.quantizer.given)) {
    invalid(fmt::format("quantize_desc.scale.dtype is {}, but the scales that quantising makes are f32",
                        shown(out.scale.dtype)));
  }
  check_nibbles(out.code, out.cols, out.code_ld, "quantize_desc: codes");
  check_extent(out.rows, out.x_ld, 1, "quantize_desc: x");
  check_extent(out.rows, out.code_ld, 1, "quantize_desc: codes");
  check_extent(out.rows, out.scale.ld, 1, "quantize_desc: scales");
  return out;
}

backend::QuantizeArgs quantize_args(const ironcl_quantize_args* in, const QuantizeOp& quantize,
                                    const ironcl_queue_t& queue) {
  const auto abi = read_struct(in, "quantize_args");
  check_reserved(abi.reserved, "quantize_args.reserved");
  find_in_chain(abi.next, 0, "quantize_args");
  if (queue.device != quantize.device) {
    invalid("queue is of another device than the quantiser; use one of the quantiser's device");
  }
  const backend::QuantizeDesc& desc = quantize.desc;
  if (abi.rows < 0 || abi.rows > desc.rows) {
    invalid(fmt::format("quantize_args.rows is {}, expected 0 to the description's {}; create one with more rows",
                        abi.rows, desc.rows));
  }
  backend::QuantizeArgs out;
  out.rows = abi.rows;
  out.wait = wait_list(abi.wait, abi.wait_count, "quantize_args");
  const auto operand = [&](const ironcl_span& given, std::string_view name, std::uint64_t bytes, DType type) {
    backend::Span span = span_in_buffer(given, name, *quantize.device);
    if (!span && out.rows != 0) invalid(fmt::format("{} is absent; give a span of at least {} bytes", name, bytes));
    if (span) {
      check_room(span, name, bytes, size_of(type), fmt::format("rows = {}", out.rows), *quantize.device);
    }
    return span;
  };
  const backend::ScaleDesc& scale = desc.scale;
  out.x = operand(abi.x, "quantize_args.x", bytes_of(out.rows, desc.x_ld, desc.cols, desc.x), desc.x);
  out.codes =
      operand(abi.codes, "quantize_args.codes", bytes_of(out.rows, desc.code_ld, desc.cols, desc.code), desc.code);
  out.scales =
      operand(abi.scales, "quantize_args.scales",
              bytes_of(scale.grid.scale_rows(out.rows), scale.ld, scale.grid.scale_cols(desc.cols), scale.dtype),
              scale.dtype);
  if (scale.global) {
    out.global = operand(abi.global, "quantize_args.global", sizeof(float), DType::f32);
  } else if (abi.global.buffer != nullptr) {
    invalid("quantize_args.global is given, but scale.global_dtype is none; leave it zero");
  }
  check_overlaps({{"quantize_args.codes", out.codes, true},
                  {"quantize_args.scales", out.scales, !desc.quantizer.given},
                  {"quantize_args.global", out.global, false},
                  {"quantize_args.x", out.x, false}});
  return out;
}

}  // namespace ironcl::adapter

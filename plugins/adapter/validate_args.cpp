// SPDX-License-Identifier: Apache-2.0
// Checks of one call: ironcl_gemm_args against its plan. Next door: spans.h, validate_desc.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "plugins/adapter/spans.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

using backend::DType;

/// The checks of one call, operand by operand.
class Call {
 public:
  /// `a_rows`: rows of a gathered A.
  Call(const GemmOp& plan, std::int64_t m, std::int64_t a_rows)
      : plan_(plan), desc_(plan.desc), m_(m), a_rows_(a_rows) {
    matrices_ = desc_.grouping == backend::Grouping::masked ? desc_.matrices : 1;
    gathers_ = desc_.a_rows != 0;
  }

  /// Rows of the problem, and with them of D.
  std::int64_t rows() const { return matrices_ * m_; }
  std::int64_t a_rows() const { return gathers_ ? a_rows_ : rows(); }

  std::int64_t a_scale_rows() const {
    const numerics::ScaleGrid& grid = desc_.a_scale.grid;
    return gathers_ ? grid.scale_rows(a_rows_) : matrices_ * grid.scale_rows(m_);
  }
  std::int64_t d_scale_rows() const { return matrices_ * desc_.d_scale.grid.scale_rows(m_); }

  /// An operand of type `type` that needs `bytes`; `wanted`: the plan has it. Where m is 0 any span may be absent.
  backend::Span operand(const ironcl_span& in, std::string_view name, bool wanted, std::uint64_t bytes, DType type,
                        std::string_view why_not) const {
    backend::Span span = span_in_buffer(in, name, *plan_.device);
    if (!wanted) {
      if (span) invalid(fmt::format("{} is given, but {}; leave it zero", name, why_not));
      return span;
    }
    if (!span) {
      if (m_ != 0) invalid(fmt::format("{} is absent; give a span of at least {} bytes", name, bytes));
      return span;
    }
    check_room(span, name, bytes, size_of(type));
    return span;
  }

  void check_room(const backend::Span& span, std::string_view name, std::uint64_t bytes,
                  std::uint64_t element) const {
    const std::string rows = gathers_ ? fmt::format("m = {}, a_rows = {}", m_, a_rows_) : fmt::format("m = {}", m_);
    adapter::check_room(span, name, bytes, element, rows, *plan_.device);
  }

 private:
  const GemmOp& plan_;
  const backend::GemmDesc& desc_;
  std::int64_t m_, a_rows_, matrices_ = 1;
  bool gathers_ = false;
};

void check_m(const backend::GemmDesc& plan, std::int64_t m) {
  if (m < 0 || m > plan.m) {
    invalid(fmt::format("gemm_args.m is {}, expected 0 to the plan's {}; create a plan with a larger m", m, plan.m));
  }
  if (plan.grouping == backend::Grouping::masked && m != plan.m) {
    invalid(fmt::format("gemm_args.m is {}, expected the plan's {}: matrices of a masked group lie m rows apart", m,
                        plan.m));
  }
}

void check_a_rows(const backend::GemmDesc& plan, std::int64_t m, std::int64_t a_rows) {
  if (plan.a_rows == 0 && a_rows != 0) {
    invalid(fmt::format("gemm_args.a_rows is {}, but the plan gathers no rows of A; leave it 0", a_rows));
  }
  const std::int64_t least = plan.a_rows == 0 || m == 0 ? 0 : 1;
  if (a_rows < least || a_rows > plan.a_rows) {
    invalid(fmt::format("gemm_args.a_rows is {}, expected {} to the plan's {}", a_rows, least, plan.a_rows));
  }
}

std::shared_ptr<backend::Weights> plan_weights(ironcl_weights weights, const GemmOp& plan) {
  require(weights, "gemm_args.weights");
  if (weights->device != plan.device) {
    invalid("gemm_args.weights are of another device; prepare them on the plan's device");
  }
  check_same_matrix(plan.desc, weights->dtype, weights->n, weights->k, weights->matrices, weights->scale,
                    "gemm_args.weights");
  return weights->weights;
}

}  // namespace

backend::GemmArgs gemm_args(const ironcl_gemm_args* in, const GemmOp& plan, const ironcl_queue_t& queue) {
  const auto abi = read_struct(in, "gemm_args");
  check_reserved(abi.reserved, "gemm_args.reserved");
  find_in_chain(abi.next, 0, "gemm_args");
  if (queue.device != plan.device) invalid("queue is of another device than the plan; use one of the plan's device");
  const backend::GemmDesc& desc = plan.desc;
  check_m(desc, abi.m);
  check_a_rows(desc, abi.m, abi.a_rows);

  backend::GemmArgs out;
  out.m = abi.m;
  out.a_rows = abi.a_rows;
  out.weights = plan_weights(abi.weights, plan);
  out.wait = wait_list(abi.wait, abi.wait_count, "gemm_args");

  const Call call(plan, abi.m, abi.a_rows);
  const std::int64_t rows = call.rows(), a_rows = call.a_rows(), k = desc.k, n = desc.n;
  const std::int64_t matrices = std::max<std::int64_t>(1, desc.matrices);
  const bool quantises = desc.a_source != DType::none;
  const bool given_scales = desc.a_scale.dtype != DType::none && (!quantises || desc.a_quantizer.given);
  const DType a_type = quantises ? desc.a_source : desc.a;
  const std::int64_t a_scale_cols = desc.a_scale.grid.scale_cols(k), d_scale_cols = desc.d_scale.grid.scale_cols(n);

  out.a = call.operand(abi.a, "gemm_args.a", true, bytes_of(a_rows, desc.lda, k, a_type), a_type, "");
  out.a_scale =
      call.operand(abi.a_scale, "gemm_args.a_scale", given_scales,
                   bytes_of(call.a_scale_rows(), desc.a_scale.ld, a_scale_cols, desc.a_scale.dtype),
                   desc.a_scale.dtype, quantises ? "the plan makes A's scales" : "the plan's A has no scales");
  out.a_global = call.operand(abi.a_global, "gemm_args.a_global", desc.a_scale.global, sizeof(float), DType::f32,
                              "the plan's A has no global scale");
  out.d_global = call.operand(abi.d_global, "gemm_args.d_global", desc.d_scale.global, sizeof(float), DType::f32,
                              "the plan's D has no global scale");
  out.d = call.operand(abi.d, "gemm_args.d", true, bytes_of(rows, desc.ldd, n, desc.d), desc.d, "");
  out.d_scale = call.operand(abi.d_scale, "gemm_args.d_scale", desc.d_scale.dtype != DType::none,
                             bytes_of(call.d_scale_rows(), desc.d_scale.ld, d_scale_cols, desc.d_scale.dtype),
                             desc.d_scale.dtype, "the plan's D is not quantised");
  out.bias = call.operand(abi.bias, "gemm_args.bias", desc.bias != DType::none, bytes_of(matrices, n, n, desc.bias),
                          desc.bias, "the plan has no bias");
  out.matrix_rows =
      call.operand(abi.matrix_rows, "gemm_args.matrix_rows", desc.grouping != backend::Grouping::none,
                   bytes_of(1, desc.matrices, desc.matrices, DType::s32), DType::s32, "the plan has no groups");
  out.a_index = call.operand(abi.a_index, "gemm_args.a_index", desc.a_rows != 0, bytes_of(1, rows, rows, DType::s32),
                             DType::s32, "the plan gathers no rows of A");

  out.workspace = span_in_buffer(abi.workspace, "gemm_args.workspace", *plan.device);
  if (out.workspace) call.check_room(out.workspace, "gemm_args.workspace", plan.workspace_bytes, 0);

  const bool codes = abi.a_quantized.buffer != nullptr, scales = abi.a_quantized_scale.buffer != nullptr;
  if (codes != scales) {
    invalid(fmt::format("gemm_args.{} is absent, but gemm_args.{} is given; give both or neither",
                        codes ? "a_quantized_scale" : "a_quantized", codes ? "a_quantized" : "a_quantized_scale"));
  }
  const bool kept = quantises && codes;
  out.a_quantized = call.operand(abi.a_quantized, "gemm_args.a_quantized", kept, bytes_of(a_rows, k, k, desc.a),
                                 desc.a, "the plan does not quantise A");
  out.a_quantized_scale = call.operand(abi.a_quantized_scale, "gemm_args.a_quantized_scale", kept,
                                       bytes_of(call.a_scale_rows(), a_scale_cols, a_scale_cols, DType::f32),
                                       DType::f32, "the plan does not quantise A");

  check_overlaps(
      {NamedSpan{"gemm_args.d", out.d, true}, NamedSpan{"gemm_args.d_scale", out.d_scale, !desc.d_quantizer.given},
       NamedSpan{"gemm_args.workspace", out.workspace, true},
       NamedSpan{"gemm_args.a_quantized", out.a_quantized, true},
       NamedSpan{"gemm_args.a_quantized_scale", out.a_quantized_scale, true}, NamedSpan{"gemm_args.a", out.a, false},
       NamedSpan{"gemm_args.a_scale", out.a_scale, false}, NamedSpan{"gemm_args.a_global", out.a_global, false},
       NamedSpan{"gemm_args.d_global", out.d_global, false}, NamedSpan{"gemm_args.bias", out.bias, false},
       NamedSpan{"gemm_args.matrix_rows", out.matrix_rows, false},
       NamedSpan{"gemm_args.a_index", out.a_index, false}});
  return out;
}

}  // namespace ironcl::adapter

// SPDX-License-Identifier: Apache-2.0
// Checks of one call: ironcl_gemm_args against its plan. Next door: spans.h, validate_desc.cpp.
#include <fmt/format.h>

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
  Call(const ironcl_gemm_t& plan, std::int64_t m) : plan_(plan), desc_(plan.desc), m_(m) {
    const bool masked = desc_.grouping == backend::Grouping::masked;
    matrices_ = masked ? desc_.group_count : 1;
  }

  std::int64_t rows() const { return matrices_ * m_; }

  /// Rows of scales of an operand with m rows in each matrix.
  std::int64_t scale_rows(const backend::ScaleDesc& scale) const { return matrices_ * scale.grid.scale_rows(m_); }

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
    adapter::check_room(span, name, bytes, element, fmt::format("m = {}", m_), *plan_.device);
  }

 private:
  const ironcl_gemm_t& plan_;
  const backend::GemmDesc& desc_;
  std::int64_t m_, matrices_;
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

std::shared_ptr<backend::Weights> plan_weights(ironcl_weights weights, const ironcl_gemm_t& plan) {
  require(weights, "gemm_args.weights");
  if (weights->device != plan.device) {
    invalid("gemm_args.weights are of another device; prepare them on the plan's device");
  }
  check_same_matrix(plan.desc, weights->dtype, weights->n, weights->k, weights->group_count, weights->scale,
                    "gemm_args.weights");
  return weights->weights;
}

}  // namespace

backend::GemmArgs gemm_args(const ironcl_gemm_args* in, const ironcl_gemm_t& plan, const ironcl_queue_t& queue) {
  const auto abi = read_struct(in, "gemm_args");
  find_in_chain(abi.next, 0, "gemm_args");
  if (queue.device != plan.device) invalid("queue is of another device than the plan; use one of the plan's device");
  const backend::GemmDesc& desc = plan.desc;
  check_m(desc, abi.m);

  backend::GemmArgs out;
  out.m = abi.m;
  out.weights = plan_weights(abi.weights, plan);
  out.wait = wait_list(abi.wait, abi.wait_count, "gemm_args");

  const Call call(plan, abi.m);
  const std::int64_t rows = call.rows(), k = desc.k, n = desc.n;
  const bool quantises = desc.a_source != DType::none;
  const bool given_scales = !quantises && desc.a_scale.dtype != DType::none;
  const DType a_type = quantises ? desc.a_source : desc.a;
  const std::int64_t a_scale_cols = desc.a_scale.grid.scale_cols(k), d_scale_cols = desc.d_scale.grid.scale_cols(n);

  out.a = call.operand(abi.a, "gemm_args.a", true, bytes_of(rows, desc.lda, k, a_type), a_type, "");
  out.a_scale =
      call.operand(abi.a_scale, "gemm_args.a_scale", given_scales,
                   bytes_of(call.scale_rows(desc.a_scale), desc.a_scale.ld, a_scale_cols, desc.a_scale.dtype),
                   desc.a_scale.dtype, quantises ? "the plan makes A's scales" : "the plan's A has no scales");
  out.d = call.operand(abi.d, "gemm_args.d", true, bytes_of(rows, desc.ldd, n, desc.d), desc.d, "");
  out.d_scale =
      call.operand(abi.d_scale, "gemm_args.d_scale", desc.d_scale.dtype != DType::none,
                   bytes_of(call.scale_rows(desc.d_scale), desc.d_scale.ld, d_scale_cols, desc.d_scale.dtype),
                   desc.d_scale.dtype, "the plan's D is not quantised");
  out.bias = call.operand(abi.bias, "gemm_args.bias", desc.bias != DType::none, bytes_of(1, n, n, desc.bias),
                          desc.bias, "the plan has no bias");
  out.group_sizes = call.operand(abi.group_sizes, "gemm_args.group_sizes", desc.grouping != backend::Grouping::none,
                                 static_cast<std::uint64_t>(desc.group_count) * sizeof(std::int32_t), DType::s32,
                                 "the plan has no groups");

  out.workspace = span_in_buffer(abi.workspace, "gemm_args.workspace", *plan.device);
  if (out.workspace) call.check_room(out.workspace, "gemm_args.workspace", plan.workspace_bytes, 0);

  const bool codes = abi.a_quantized.buffer != nullptr, scales = abi.a_quantized_scale.buffer != nullptr;
  if (codes != scales) {
    invalid(fmt::format("gemm_args.{} is absent, but gemm_args.{} is given; give both or neither",
                        codes ? "a_quantized_scale" : "a_quantized", codes ? "a_quantized" : "a_quantized_scale"));
  }
  const bool kept = quantises && codes;
  out.a_quantized = call.operand(abi.a_quantized, "gemm_args.a_quantized", kept, bytes_of(rows, k, k, desc.a), desc.a,
                                 "the plan does not quantise A");
  out.a_quantized_scale =
      call.operand(abi.a_quantized_scale, "gemm_args.a_quantized_scale", kept,
                   bytes_of(call.scale_rows(desc.a_scale), a_scale_cols, a_scale_cols, DType::f32), DType::f32,
                   "the plan does not quantise A");

  check_overlaps({NamedSpan{"gemm_args.d", out.d, true}, NamedSpan{"gemm_args.d_scale", out.d_scale, true},
                  NamedSpan{"gemm_args.workspace", out.workspace, true},
                  NamedSpan{"gemm_args.a_quantized", out.a_quantized, true},
                  NamedSpan{"gemm_args.a_quantized_scale", out.a_quantized_scale, true},
                  NamedSpan{"gemm_args.a", out.a, false}, NamedSpan{"gemm_args.a_scale", out.a_scale, false},
                  NamedSpan{"gemm_args.bias", out.bias, false},
                  NamedSpan{"gemm_args.group_sizes", out.group_sizes, false}});
  return out;
}

}  // namespace ironcl::adapter

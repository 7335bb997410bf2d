// SPDX-License-Identifier: Apache-2.0
// A list of operations through the plugin's table: one function creates an operation, one enqueues it.
#include "host/layer/runner.h"

#include <boost/hana/functional/overload.hpp>

#include "host/layer/operands.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

ironcl_dtype to_c(DType type) { return static_cast<ironcl_dtype>(type); }

}  // namespace

Runner::Runner(const Device& device, Graph graph, std::int64_t tokens)
    : device_(device), graph_(std::move(graph)), tokens_(tokens) {
  prepared_.reserve(graph_.operations.size());
  for (const Operation& operation : graph_.operations) {
    prepared_.push_back({create(operation), {}});
    if (std::holds_alternative<ProductOp>(operation.what))
      prepared_.back().weights = std::make_shared<std::vector<Weights>>();
  }
  memory_.resize(graph_.values.size());
  for (ValueId id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    if (value.brought) continue;
    memory_[id].values = Buffer(device_, value.bytes(tokens_));
    if (value.scales.dtype != DType::none) memory_[id].scales = Buffer(device_, value.scale_bytes(tokens_));
  }
}

std::vector<PlanInfo> Runner::plans() const {
  std::vector<PlanInfo> all(prepared_.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!std::holds_alternative<Gemm>(prepared_[i].object)) continue;
    const ironcl_op_info info = gemm(i).info();
    all[i] = {static_cast<numerics::AccuracyClass>(info.accuracy_class), info.accumulation_length, info.variant,
              info.tuning};
  }
  return all;
}

ironcl_span Runner::span(ValueId value, std::int64_t tokens) const {
  return memory_[value].values.span(0, graph_.values[value].bytes(tokens));
}

ironcl_span Runner::scales(ValueId value, std::int64_t tokens) const {
  return memory_[value].scales.span(0, graph_.values[value].scale_bytes(tokens));
}

void Runner::prepare(std::size_t operation, std::span<const std::byte> codes, std::span<const std::byte> scales,
                     std::span<const float> globals) {
  const report::Problem& problem = std::get<ProductOp>(graph_.operations[operation].what).problem;
  prepared_[operation].weights->emplace_back(device_,
                                             WeightsDesc{.n = problem.b_rows(),
                                                         .k = problem.k,
                                                         .matrices = static_cast<std::uint32_t>(problem.matrices),
                                                         .dtype = to_c(problem.b),
                                                         .scale = report::to_desc(problem.b_scale),
                                                         .data = codes,
                                                         .scales = scales,
                                                         .global_scales = globals},
                                             &gemm(operation));
}

Runner::Object Runner::create(const Operation& operation) const {
  const auto value = [&](ValueId id) -> const Value& { return graph_.values[id]; };
  const std::vector<ValueId>&in = operation.in, &out = operation.out;
  return std::visit(
      boost::hana::overload(
          [&](const ProductOp& op) -> Object {
            GemmDesc desc = report::to_gemm_desc(op.problem);
            if (in[ProductOp::kIndex] != kNoValue) desc.a_rows = value(in[ProductOp::kA]).rows_of(tokens_);
            return Gemm(device_, desc);
          },
          [&](const QuantizeOp& op) -> Object {
            const Value &x = value(in[0]), &codes = value(out[0]);
            return Quantize(device_, {.rows = x.rows_of(tokens_),
                                      .cols = x.cols,
                                      .x = to_c(x.dtype),
                                      .code = to_c(codes.dtype),
                                      .scale = report::to_desc(codes.scales),
                                      .quantizer = report::to_desc(op.quantizer)});
          },
          [&](const RouteOp& op) -> Object {
            const bool given = in[RouteOp::kIds] != kNoValue, gate = out[RouteOp::kSharedWeights] != kNoValue;
            RouteDesc desc;
            desc.tokens = tokens_;
            desc.experts = static_cast<std::uint32_t>(op.routing.experts);
            desc.top_k = static_cast<std::uint32_t>(op.routing.top_k);
            desc.flags = 0;
            if (gate) desc.flags |= IRONCL_ROUTE_SHARED_GATE;
            if (op.shared_first) desc.flags |= IRONCL_ROUTE_SHARED_EXPERT;
            desc.first_expert = static_cast<std::uint32_t>(op.first_expert);
            desc.local_experts = static_cast<std::uint32_t>(value(out[RouteOp::kCounts]).cols - op.shared_first);
            if (given) {
              desc.score = 0;
              desc.flags |= IRONCL_ROUTE_GIVEN;
              if (!gate) desc.logits = IRONCL_DTYPE_NONE;
              return Route(device_, desc);
            }
            desc.score = static_cast<std::uint32_t>(op.routing.score);
            desc.expert_groups = static_cast<std::uint32_t>(op.routing.expert_groups);
            desc.top_groups = static_cast<std::uint32_t>(op.routing.top_groups);
            desc.scale = op.routing.scale;
            if (in[RouteOp::kBias] != kNoValue) desc.bias = IRONCL_F32;
            if (op.routing.normalize) desc.flags |= IRONCL_ROUTE_NORMALIZE;
            if (op.routing.best_of_two) desc.flags |= IRONCL_ROUTE_BEST_OF_TWO;
            return Route(device_, desc);
          },
          [&](const ActivateOp& op) -> Object {
            const Value &gate = value(in[ActivateOp::kGate]), &y = value(out[0]);
            const ValueId counts = in[ActivateOp::kCounts];
            ActivateDesc desc{.rows = gate.rows_of(tokens_),
                              .cols = gate.cols,
                              .x = to_c(gate.dtype),
                              .y = to_c(y.dtype),
                              .activation = static_cast<std::uint32_t>(op.function),
                              .limit = op.limit};
            if (counts != kNoValue) {
              desc.grouping = IRONCL_GROUPING_CONTIGUOUS;
              desc.matrices = static_cast<std::uint32_t>(value(counts).cols);
            }
            desc.scale = report::to_desc(y.scales);
            if (y.scales.dtype != DType::none) desc.quantizer = report::to_desc(op.quantizer);
            return Activate(device_, desc);
          },
          [&](const CombineOp&) -> Object {
            const Value &x = value(in[CombineOp::kX]), &y = value(out[0]);
            const ValueId add = in[CombineOp::kAdd];
            return Combine(device_,
                           {.tokens = tokens_,
                            .cols = y.cols,
                            .rows = x.rows_of(tokens_),
                            .top_k = static_cast<std::uint32_t>(value(in[CombineOp::kRows]).cols),
                            .x = to_c(x.dtype),
                            .add = add == kNoValue ? ironcl_dtype{IRONCL_DTYPE_NONE} : to_c(value(add).dtype),
                            .y = to_c(y.dtype)});
          }),
      operation.what);
}

template <class Consume>
auto Runner::with_call(std::size_t index, const Call& call, std::vector<ironcl_event> wait, Consume&& run) {
  const Operation& operation = graph_.operations[index];
  const std::vector<ValueId>&in = operation.in, &out = operation.out;
  const auto rows = [&](ValueId value) { return graph_.values[value].rows_of(call.tokens); };
  const auto bound = [&](ValueId value) -> const Bound* {
    const auto at = std::ranges::find(call.bound, value, &Bound::value);
    return at == call.bound.end() ? nullptr : &*at;
  };
  const auto span_of = [&](ValueId value) -> ironcl_span {
    if (value == kNoValue) return {};
    return bound(value) != nullptr ? bound(value)->span : span(value, call.tokens);
  };
  const auto scales_of = [&](ValueId value) -> ironcl_span {
    if (value == kNoValue || graph_.values[value].scales.dtype == DType::none) return {};
    return bound(value) != nullptr ? bound(value)->scales : scales(value, call.tokens);
  };
  return std::visit(boost::hana::overload(
                        [&](const Gemm& gemm) {
                          const std::vector<Weights>& copies = *prepared_[index].weights;
                          GemmArgs args{.m = rows(out[0]),
                                        .weights = copies[call.copy % copies.size()],
                                        .a = span_of(in[ProductOp::kA]),
                                        .a_scale = scales_of(in[ProductOp::kA]),
                                        .bias = span_of(in[ProductOp::kBias]),
                                        .matrix_rows = span_of(in[ProductOp::kCounts]),
                                        .a_index = span_of(in[ProductOp::kIndex])};
                          if (in[ProductOp::kIndex] != kNoValue) args.a_rows = rows(in[ProductOp::kA]);
                          args.d = span_of(out[0]);
                          args.d_scale = scales_of(out[0]);
                          if (const Bound* shown = bound(std::get<ProductOp>(operation.what).quantized_a)) {
                            args.a_quantized = shown->span;
                            args.a_quantized_scale = shown->scales;
                          }
                          args.workspace = call.workspace;
                          args.wait = std::move(wait);
                          return run(gemm, args);
                        },
                        [&](const Quantize& quantize) {
                          return run(quantize, QuantizeArgs{.rows = rows(in[0]),
                                                            .x = span_of(in[0]),
                                                            .codes = span_of(out[0]),
                                                            .scales = scales_of(out[0]),
                                                            .wait = std::move(wait)});
                        },
                        [&](const Route& route) {
                          const ValueId ids = in[RouteOp::kIds];
                          return run(route,
                                     RouteArgs{.tokens = call.tokens,
                                               .logits = span_of(in[RouteOp::kLogits]),
                                               .bias = span_of(in[RouteOp::kBias]),
                                               .ids = span_of(ids != kNoValue ? ids : out[RouteOp::kChosenIds]),
                                               .weights = span_of(out[RouteOp::kWeights]),
                                               .matrix_rows = span_of(out[RouteOp::kCounts]),
                                               .a_index = span_of(out[RouteOp::kIndex]),
                                               .rows = span_of(out[RouteOp::kRows]),
                                               .shared_weights = span_of(out[RouteOp::kSharedWeights]),
                                               .wait = std::move(wait)});
                        },
                        [&](const Activate& activate) {
                          return run(activate, ActivateArgs{.rows = rows(out[0]),
                                                            .gate = span_of(in[ActivateOp::kGate]),
                                                            .up = span_of(in[ActivateOp::kUp]),
                                                            .y = span_of(out[0]),
                                                            .scales = scales_of(out[0]),
                                                            .matrix_rows = span_of(in[ActivateOp::kCounts]),
                                                            .wait = std::move(wait)});
                        },
                        [&](const Combine& combine) {
                          // All rows of x that the list was made for: fewer are valid in a shorter call, and none of
                          // the others is named by `rows`.
                          return run(combine, CombineArgs{.tokens = call.tokens,
                                                          .x = span(in[CombineOp::kX], tokens_),
                                                          .rows = span_of(in[CombineOp::kRows]),
                                                          .weights = span_of(in[CombineOp::kWeights]),
                                                          .add = span_of(in[CombineOp::kAdd]),
                                                          .add_weights = span_of(in[CombineOp::kAddWeights]),
                                                          .y = span_of(out[0]),
                                                          .wait = std::move(wait)});
                        }),
                    prepared_[index].object);
}

const std::vector<std::size_t>& Runner::order_of(const Call& call) {
  std::vector<ValueId> given;
  for (const Bound& bound : call.bound)
    if (bound.given) given.push_back(bound.value);
  for (const auto& [known, order] : orders_)
    if (known == given) return order;
  std::vector<std::size_t> order = graph_.needed(given, graph_.result);
  return orders_.emplace_back(std::move(given), std::move(order)).second;
}

std::uint64_t Runner::weights_bytes() const {
  std::uint64_t bytes = 0;
  for (const Prepared& one : prepared_)
    if (one.weights && !one.weights->empty()) bytes += one.weights->front().info().device_bytes;
  return bytes;
}

Event Runner::enqueue(Queue& queue, const Call& call, std::vector<Event>* steps) {
  std::vector<ironcl_event> wait = call.wait;
  const std::vector<std::size_t>& order = order_of(call);
  for (const std::size_t& operation : order) {
    const bool is_last = &operation == &order.back();
    Event done = with_call(operation, call, std::exchange(wait, {}), [&](const auto& object, const auto& args) {
      if (is_last || steps != nullptr) return queue.run(object, args);
      queue.submit(object, args);
      return Event();
    });
    if (is_last) return done;
    if (steps != nullptr) steps->push_back(std::move(done));
  }
  return Event();
}

void Runner::record(const Call& call, SequenceDesc& into) {
  for (const std::size_t operation : order_of(call))
    with_call(operation, call, {}, [&](const auto& object, const auto& args) { into.add(object, args); });
}

}  // namespace ironcl::layer

// SPDX-License-Identifier: Apache-2.0
// A layer of experts through the plugin's table.
#include "host/layer/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"
#include "host/layer/operands.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

constexpr DType kBetween = DType::f32;  // of what lies between the products: rounded once, at the end

[[noreturn]] void invalid(const std::string& text) { throw Error(IRONCL_INVALID_ARGUMENT, 0, text); }

ironcl_dtype to_c(DType type) { return static_cast<ironcl_dtype>(type); }

Scale to_c(const report::Scales& scales) {
  return {to_c(scales.dtype), static_cast<std::uint32_t>(scales.grid.group_rows),
          static_cast<std::uint32_t>(scales.grid.group_cols), 0};
}

Scale row_scale(const ExpertsActivations& activations) {
  if (activations.code == DType::none) return {};
  return {IRONCL_F32, 1, static_cast<std::uint32_t>(activations.grid.group_cols), 0};
}

ironcl_quantizer_desc to_c(const numerics::Quantizer& quantizer) {
  ironcl_quantizer_desc desc{};
  desc.amax_floor = quantizer.amax_floor;
  desc.scale_rounding = static_cast<std::uint32_t>(quantizer.rounding);
  return desc;
}

Buffer buffer(const Device& device, std::size_t bytes) { return {device, std::max<std::size_t>(bytes, 1)}; }

/// The first bytes of a buffer that is as large as its largest call.
ironcl_span part(const Buffer& buffer, DType type, std::int64_t rows, std::int64_t cols) {
  return buffer.span(0, bytes_of_matrix(type, rows, cols));
}
/// s32 numbers have the size of f32.
constexpr DType kS32 = DType::f32;

void check_span(const char* what, const ironcl_span& span, std::size_t bytes) {
  if (span.buffer == nullptr) invalid(fmt::format("{} is absent", what));
  if (span.size < bytes) invalid(fmt::format("{} has {} bytes, {} are needed", what, span.size, bytes));
}

void check(const ExpertsForm& form, const ExpertsChoices& choices) {
  if (choices.tokens < 1)
    invalid(fmt::format("tokens is {}; a layer of experts is made for at least 1", choices.tokens));
  if (form.hidden < 1 || form.experts.width < 1 || form.experts.count != form.routing.experts)
    invalid(fmt::format("a layer of {} experts with {} matrices of [{}, {}]", form.routing.experts,
                        form.experts.count, form.experts.width, form.hidden));
  for (const DType type : {choices.x, choices.out})
    if (!numerics::is_float(type))
      invalid(fmt::format("x or y is {}; f32, f16 and bf16 are taken", numerics::name_of(type)));
  const std::int64_t rows = numerics::checked_mul(choices.tokens, form.routing.top_k);
  if (rows > INT32_MAX)
    invalid(fmt::format("{} tokens for {} experts each are {} rows; at most 2^31 - 1 go into one call",
                        choices.tokens, form.routing.top_k, rows));
}

/// The product of a projection, with its groups.
GemmDesc product_of(const ExpertsForm& form, const ExpertsChoices& choices, bool shared, Projection projection) {
  const GatedForm& gated = shared ? *form.shared : form.experts;
  const bool down = projection == Projection::down;
  const ExpertsActivations& a = down ? form.between : form.x;
  const MatrixForm& b = down ? gated.down : gated.gate;
  GemmDesc desc;
  desc.m = shared ? choices.tokens : choices.tokens * form.routing.top_k;
  std::tie(desc.n, desc.k) = shape_of(form, gated, projection);
  desc.a = to_c(a.code != DType::none ? a.code : down ? kBetween : choices.x);
  desc.b = to_c(b.code);
  desc.d = to_c(kBetween);
  desc.a_scale = row_scale(a);
  desc.b_scale = to_c(b.scale);
  desc.weakest_accuracy = static_cast<std::uint32_t>(choices.weakest_accuracy);
  if (shared) return desc;
  desc.grouping = IRONCL_GROUPING_CONTIGUOUS;
  desc.group_count = static_cast<std::uint32_t>(gated.count);
  if (!down) desc.a_rows = choices.tokens;
  desc.options = choices.options;
  return desc;
}

}  // namespace

Experts::Experts(const Device& device, const ExpertsSource& source, const ExpertsChoices& choices)
    : device_(device), form_(source.form()), choices_(choices) {
  check(form_, choices_);
  const std::int64_t tokens = choices_.tokens, top_k = form_.routing.top_k, rows = tokens * top_k;
  create_router(source);
  if (form_.x.code != DType::none) {
    QuantizeDesc desc;
    desc.rows = tokens;
    desc.cols = form_.hidden;
    desc.x = to_c(choices_.x);
    desc.code = to_c(form_.x.code);
    desc.scale = row_scale(form_.x);
    desc.quantizer = to_c(form_.x.quantizer);
    quantize_ = Quantize(device_, desc);
    buffers_.x_codes = buffer(device_, bytes_of_matrix(form_.x.code, tokens, form_.hidden));
    buffers_.x_scales = buffer(device_, bytes_of_matrix(DType::f32, tokens, form_.x.grid.scale_cols(form_.hidden)));
  }
  create_mlp(source, false, experts_, buffers_.experts);
  if (form_.shared) create_mlp(source, true, shared_, buffers_.shared);
  CombineDesc combine;
  combine.tokens = tokens;
  combine.cols = form_.hidden;
  combine.rows = rows;
  combine.top_k = static_cast<std::uint32_t>(top_k);
  combine.x = to_c(kBetween);
  if (form_.shared) combine.add = to_c(kBetween);
  combine.y = to_c(choices_.out);
  combine_ = Combine(device_, combine);
}

void Experts::create_router(const ExpertsSource& source) {
  const std::int64_t tokens = choices_.tokens, top_k = form_.routing.top_k, experts = form_.routing.experts;
  GemmDesc desc;
  desc.m = tokens;
  desc.n = form_.logits();
  desc.k = form_.hidden;
  desc.a = to_c(choices_.x);
  desc.b = to_c(form_.router);
  desc.d = IRONCL_F32;
  desc.a_scale = desc.b_scale = {};
  router_ = Gemm(device_, desc);
  const std::vector<std::byte> router = source.router();
  router_weights_ = Weights(
      device_, {.n = desc.n, .k = desc.k, .dtype = desc.b, .scale = {}, .data = router, .scales = {}}, &router_);
  weights_bytes_ += router_weights_.info().device_bytes;

  RouteDesc route;
  route.tokens = tokens;
  route.experts = static_cast<std::uint32_t>(experts);
  route.top_k = static_cast<std::uint32_t>(top_k);
  route.score = static_cast<std::uint32_t>(form_.routing.score);
  route.expert_groups = static_cast<std::uint32_t>(form_.routing.expert_groups);
  route.top_groups = static_cast<std::uint32_t>(form_.routing.top_groups);
  route.scale = form_.routing.scale;
  if (form_.correction_bias) route.bias = IRONCL_F32;
  const std::uint32_t gate = form_.shared_gate ? std::uint32_t{IRONCL_ROUTE_SHARED_GATE} : 0u;
  route.flags = gate | (form_.routing.normalize ? std::uint32_t{IRONCL_ROUTE_NORMALIZE} : 0u) |
                (form_.routing.best_of_two ? std::uint32_t{IRONCL_ROUTE_BEST_OF_TWO} : 0u);
  made_ = Route(device_, route);
  RouteDesc given;
  given.tokens = tokens;
  given.experts = route.experts;
  given.top_k = route.top_k;
  given.score = 0;
  given.flags = IRONCL_ROUTE_GIVEN | gate;
  if (gate == 0) given.logits = IRONCL_DTYPE_NONE;
  given_ = Route(device_, given);

  buffers_.logits = buffer(device_, bytes_of_matrix(DType::f32, tokens, form_.logits()));
  buffers_.ids = buffer(device_, bytes_of_matrix(kS32, tokens, top_k));
  buffers_.weights = buffer(device_, bytes_of_matrix(DType::f32, tokens, top_k));
  buffers_.counts = buffer(device_, bytes_of_matrix(kS32, 1, experts));
  buffers_.index = buffer(device_, bytes_of_matrix(kS32, tokens, top_k));
  buffers_.rows = buffer(device_, bytes_of_matrix(kS32, tokens, top_k));
  if (form_.shared_gate) buffers_.shared_weights = buffer(device_, bytes_of_matrix(DType::f32, 1, tokens));
  if (!form_.correction_bias) return;
  const std::vector<float> bias = source.correction_bias();
  bias_ = buffer(device_, bias.size() * sizeof(float));
  Queue queue(device_);
  queue.write(bias_.span(), std::span(bias)).wait();
}

Gemm Experts::plan(bool shared, Projection projection) const {
  return {device_, product_of(form_, choices_, shared, projection)};
}

GemmDesc Experts::describe(const ExpertsForm& form, const ExpertsChoices& choices) {
  check(form, choices);
  return product_of(form, choices, false, form.experts.may_fuse() ? Projection::gate_up : Projection::gate);
}

Weights Experts::prepare(const ExpertsSource& source, bool shared, Projection projection, const Gemm& plan) {
  const GatedForm& gated = shared ? *form_.shared : form_.experts;
  const MatrixForm& form = projection == Projection::down ? gated.down : gated.gate;
  const StackedMatrices all = stack(source, shared, projection);
  Weights weights(device_,
                  {.n = all.n,
                   .k = all.k,
                   .group_count = shared ? 0u : static_cast<std::uint32_t>(all.count),
                   .dtype = to_c(form.code),
                   .scale = to_c(form.scale),
                   .data = all.codes,
                   .scales = all.scales},
                  &plan);
  weights_bytes_ += weights.info().device_bytes;
  return weights;
}

void Experts::create_mlp(const ExpertsSource& source, bool shared, Mlp& mlp, ExpertsBuffers::Mlp& buffers) {
  const GatedForm& gated = shared ? *form_.shared : form_.experts;
  const std::int64_t rows = shared ? choices_.tokens : choices_.tokens * form_.routing.top_k, width = gated.width;
  // Up's half of a fused row must begin where the device lets a span begin.
  const std::uint64_t alignment = std::max<std::uint64_t>(device_.props().buffer_alignment, 1);
  const bool aligned = static_cast<std::uint64_t>(width) * numerics::size_of(kBetween) % alignment == 0;
  mlp.fused = gated.may_fuse() && aligned;
  if (!mlp.fused && !gated.may_split())
    throw Error(IRONCL_UNSUPPORTED, 0,
                fmt::format("{}: gate and up are one matrix of {} rows whose blocks of {} rows span both, and its "
                            "halves lie at {} bytes, no multiple of the {} that the device asks for",
                            form_.name, 2 * width, gated.gate.scale.grid.group_rows,
                            width * static_cast<std::int64_t>(numerics::size_of(kBetween)), alignment));
  const auto make = [&](Projection projection, Gemm& gemm, Weights& weights) {
    gemm = plan(shared, projection);
    weights = prepare(source, shared, projection, gemm);
  };
  make(mlp.fused ? Projection::gate_up : Projection::gate, mlp.gate, mlp.gate_weights);
  if (!mlp.fused) make(Projection::up, mlp.up, mlp.up_weights);
  make(Projection::down, mlp.down, mlp.down_weights);
  buffers.gate = buffer(device_, bytes_of_matrix(kBetween, rows, mlp.fused ? 2 * width : width));
  if (!mlp.fused) buffers.up = buffer(device_, bytes_of_matrix(kBetween, rows, width));
  const DType h = form_.between.code != DType::none ? form_.between.code : kBetween;
  buffers.h = buffer(device_, bytes_of_matrix(h, rows, width));
  if (form_.between.code != DType::none)
    buffers.h_scales = buffer(device_, bytes_of_matrix(DType::f32, rows, form_.between.grid.scale_cols(width)));
  buffers.down = buffer(device_, bytes_of_matrix(kBetween, rows, form_.hidden));

  ActivateDesc activate;
  activate.rows = rows;
  activate.cols = width;
  activate.gate_ld = activate.up_ld = mlp.fused ? 2 * width : 0;
  activate.x = to_c(kBetween);
  activate.y = to_c(h);
  if (!shared) activate.grouping = IRONCL_GROUPING_CONTIGUOUS;
  activate.group_count = shared ? 0u : static_cast<std::uint32_t>(gated.count);
  activate.scale = row_scale(form_.between);
  if (form_.between.code != DType::none) activate.quantizer = to_c(form_.between.quantizer);
  mlp.activate = Activate(device_, activate);
}

ExpertsPlanInfo Experts::info_of(const Gemm& plan) {
  const ironcl_gemm_info info = plan.info();
  return {static_cast<numerics::AccuracyClass>(info.accuracy_class), info.accumulation_length, info.variant};
}

void Experts::route(Queue& queue, const ExpertsArgs& args, ironcl_span ids, ironcl_span weights) {
  const std::int64_t tokens = args.tokens, top_k = form_.routing.top_k;
  const bool given = args.routed == RoutedBy::given;
  RouteArgs route;
  route.tokens = tokens;
  if (args.routed == RoutedBy::logits) {
    route.logits = args.logits;
  } else if (!given || form_.shared_gate) {
    GemmArgs product;
    product.m = tokens;
    product.weights = router_weights_;
    product.a = args.x;
    product.d = part(buffers_.logits, DType::f32, tokens, form_.logits());
    product.wait = args.wait;
    step(queue, router_, product);
    route.logits = product.d;
  }
  if (form_.correction_bias && !given) route.bias = bias_;
  route.ids = ids;
  route.weights = weights;
  route.group_sizes = buffers_.counts;
  route.a_index = part(buffers_.index, kS32, tokens, top_k);
  route.rows = part(buffers_.rows, kS32, tokens, top_k);
  if (form_.shared_gate) route.shared_weights = part(buffers_.shared_weights, DType::f32, 1, tokens);
  route.wait = args.wait;
  step(queue, given ? given_ : made_, route);
}

void Experts::run_mlp(Queue& queue, bool shared, std::int64_t tokens, ironcl_span x, Mlp& mlp,
                      ExpertsBuffers::Mlp& buffers) {
  const GatedForm& gated = shared ? *form_.shared : form_.experts;
  const std::int64_t rows = shared ? tokens : tokens * form_.routing.top_k, width = gated.width;
  const auto product = [&](const Gemm& gemm, const Weights& weights, bool down, ironcl_span d) {
    GemmArgs args;
    args.m = rows;
    args.weights = weights;
    args.d = d;
    const ExpertsActivations& a = down ? form_.between : form_.x;
    if (down) {
      args.a = part(buffers.h, a.code != DType::none ? a.code : kBetween, rows, width);
      if (a.code != DType::none) args.a_scale = part(buffers.h_scales, DType::f32, rows, a.grid.scale_cols(width));
    } else if (a.code != DType::none) {
      args.a = part(buffers_.x_codes, a.code, tokens, form_.hidden);
      args.a_scale = part(buffers_.x_scales, DType::f32, tokens, a.grid.scale_cols(form_.hidden));
    } else {
      args.a = x;
    }
    if (!shared) {
      args.group_sizes = buffers_.counts;
      if (!down) {
        args.a_rows = tokens;
        args.a_index = part(buffers_.index, kS32, tokens, form_.routing.top_k);
      }
    }
    step(queue, gemm, args);
  };
  product(mlp.gate, mlp.gate_weights, false, part(buffers.gate, kBetween, rows, mlp.fused ? 2 * width : width));
  if (!mlp.fused) product(mlp.up, mlp.up_weights, false, part(buffers.up, kBetween, rows, width));
  ActivateArgs activate;
  activate.rows = rows;
  activate.gate = part(buffers.gate, kBetween, rows, mlp.fused ? 2 * width : width);
  activate.up = mlp.fused ? activate.gate : part(buffers.up, kBetween, rows, width);
  if (mlp.fused && rows > 0) {
    const std::uint64_t half = bytes_of_matrix(kBetween, 1, width);
    activate.up.offset += half;
    activate.up.size -= half;
    activate.gate.size -= half;  // of the last row
  }
  activate.y = part(buffers.h, form_.between.code != DType::none ? form_.between.code : kBetween, rows, width);
  if (form_.between.code != DType::none)
    activate.scales = part(buffers.h_scales, DType::f32, rows, form_.between.grid.scale_cols(width));
  if (!shared) activate.group_sizes = buffers_.counts;
  step(queue, mlp.activate, activate);
  product(mlp.down, mlp.down_weights, true, part(buffers.down, kBetween, rows, form_.hidden));
}

Event Experts::enqueue(Queue& queue, const ExpertsArgs& args, std::vector<Event>* steps) {
  steps_ = steps;
  const std::int64_t tokens = args.tokens, top_k = form_.routing.top_k;
  if (tokens < 0 || tokens > choices_.tokens)
    invalid(fmt::format("tokens is {}; this layer was made for 0 to {}", tokens, choices_.tokens));
  const bool given = args.routed == RoutedBy::given;
  if (tokens > 0) {
    check_span("x", args.x, bytes_of_matrix(choices_.x, tokens, form_.hidden));
    check_span("y", args.y, bytes_of_matrix(choices_.out, tokens, form_.hidden));
    if (args.routed == RoutedBy::logits)
      check_span("logits", args.logits, bytes_of_matrix(DType::f32, tokens, form_.logits()));
    if (given || args.ids.buffer != nullptr) check_span("ids", args.ids, bytes_of_matrix(kS32, tokens, top_k));
    if (given || args.weights.buffer != nullptr)
      check_span("weights", args.weights, bytes_of_matrix(DType::f32, tokens, top_k));
  }
  const ironcl_span ids = args.ids.buffer != nullptr ? args.ids : part(buffers_.ids, kS32, tokens, top_k);
  const ironcl_span weights =
      args.weights.buffer != nullptr ? args.weights : part(buffers_.weights, DType::f32, tokens, top_k);
  route(queue, args, ids, weights);
  if (quantize_) {
    QuantizeArgs quantize;
    quantize.rows = tokens;
    quantize.x = args.x;
    quantize.codes = part(buffers_.x_codes, form_.x.code, tokens, form_.hidden);
    quantize.scales = part(buffers_.x_scales, DType::f32, tokens, form_.x.grid.scale_cols(form_.hidden));
    step(queue, quantize_, quantize);
  }
  run_mlp(queue, false, tokens, args.x, experts_, buffers_.experts);
  if (form_.shared) run_mlp(queue, true, tokens, args.x, shared_, buffers_.shared);
  CombineArgs combine;
  combine.tokens = tokens;
  // All rows that a layer was made for: fewer are valid in a shorter call, and none of the others is named by `rows`.
  combine.x = buffers_.experts.down;
  combine.rows = part(buffers_.rows, kS32, tokens, top_k);
  combine.weights = weights;
  if (form_.shared) combine.add = part(buffers_.shared.down, kBetween, tokens, form_.hidden);
  if (form_.shared_gate) combine.add_weights = part(buffers_.shared_weights, DType::f32, 1, tokens);
  combine.y = args.y;
  return queue.run(combine_, combine);
}

}  // namespace ironcl::layer

// SPDX-License-Identifier: Apache-2.0
// Calls of a sequence that are a layer of experts for few tokens, as one launch of cl/fused_experts.cl: which those
// are, and the launch. Next door: router.cpp, gemm.cpp and combiner.cpp, whose calls it stands for.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

using backend::DType;
using numerics::Size;

namespace {

constexpr std::int64_t kMostSlots = 512, kMostMatrices = 256;  ///< SLOTS of the kernel; its table in local memory.
/// Rows of an expert, on average over all: of more, weights are read again for a second tile.
constexpr std::int64_t kMostRows = 4;
constexpr std::int64_t kAtOnce = 4, kItems = 128;  ///< Work-groups of a compute unit (//at_once of the kernel).
constexpr cl_int kWaits = 1 << 24, kWaitsOfTrial = 1 << 16;  ///< Some 0.5 us each.

bool same(const backend::Span& a, const backend::Span& b) { return a.buffer == b.buffer && a.offset == b.offset; }

/// A product of the layer, as its plan and its call describe it.
struct Product {
  const Problem& problem;
  const backend::GemmArgs& args;
  const DeviceWeights& weights;
  WeightExtent extent;
  bool in_turns;  ///< Gates and ups.

  Product(const Gemm& gemm, const backend::GemmArgs& call)
      : problem(gemm.choice().problem),
        args(call),
        weights(static_cast<const Weights&>(*call.weights).in(*gemm.weight_form())),
        extent(gemm.weight_form()->extent(problem.n, problem.k, problem.b_scale.grid.scale_cols(problem.k))),
        in_turns(gemm.weight_form()->name() != swizzled_form()->name()) {}
  std::int64_t blocks() const { return problem.k / 128; }
};

/// The calls that stand for a layer.
struct Layer {
  const backend::RouteDesc& route;
  const backend::RouteArgs& routed;
  const backend::CombineDesc& combine;
  const backend::CombineArgs& combined;
  Product up, down;

  const backend::Quantizer& x_quantizer() const { return up.problem.a_quantizer; }
  const backend::Quantizer& h_quantizer() const {
    return down.problem.a_source != DType::none ? down.problem.a_quantizer : up.problem.d_quantizer;
  }
  std::int64_t slots() const { return combined.tokens * route.top_k; }
  std::int64_t hidden() const { return up.problem.k; }
  std::int64_t width() const { return down.problem.k; }
  bool is_one() const;
  bool fits() const;
};

/// Whether one call reads what the other has made.
bool Layer::is_one() const {
  return same(up.args.matrix_rows, routed.matrix_rows) && same(down.args.matrix_rows, routed.matrix_rows) &&
         same(up.args.a_index, routed.a_index) && same(down.args.a, up.args.d) &&
         same(down.args.a_scale, up.args.d_scale) && same(combined.x, down.args.d) &&
         same(combined.rows, routed.rows) && combined.tokens == routed.tokens && combined.tokens == up.args.a_rows &&
         up.args.m == slots() && down.args.m == slots();
}

/// Whether the kernel computes it: what it takes is what checkpoints of fp8 in blocks of 128 x 128 have. Of 512
/// columns each warp has a K block.
bool Layer::fits() const {
  const auto takes = [](const Product& product) {
    const Problem& p = product.problem;
    const numerics::ScaleGrid& grid = p.b_scale.grid;
    return p.grouping == backend::Grouping::contiguous && p.k_group == 128 && p.k % 256 == 0 &&
           p.bias == DType::none && (p.a == DType::e4m3fn || p.a == DType::e5m2) &&
           (p.b == DType::e4m3fn || p.b == DType::e5m2) && p.b_scale.dtype != DType::none && !p.b_scale.global &&
           grid.group_rows == 128 && grid.group_cols == 128 && grid.row_origin == 0 && grid.col_origin == 0 &&
           p.given_source == DType::none && p.a_scale.grid == numerics::ScaleGrid{1, 128} && !p.a_scale.global &&
           !product.args.a_quantized;
  };
  const Problem &p = up.problem, &q = down.problem;
  const bool h_is_codes = p.quantizes_d();
  const backend::Quantizer &x = x_quantizer(), &h = h_quantizer();
  return takes(up) && takes(down) && p.gated() && p.gathers() && !q.gathers() && !q.gated() && q.d == DType::f32 &&
         !q.quantizes_d() && q.ldd == hidden() && combine.x_ld == hidden() && combine.x == DType::f32 && p.a == q.a &&
         p.b == q.b && p.matrices == route.local_experts && p.matrices <= kMostMatrices &&
         (h_is_codes ? p.activates_to_codes() && p.d_code == q.a && q.a_source == DType::none &&
                           p.d_scale.grid == numerics::ScaleGrid{1, 128}
                     : p.d_gated == DType::f32 && q.a_source == DType::f32) &&
         p.a_source != DType::none && x == h && !h.given && hidden() >= 512 && p.n == 2 * width() &&
         q.n == hidden() && route.capacity == 0 && slots() <= kMostSlots && slots() <= kMostRows * p.matrices;
}

class FusedExperts final : public backend::Operation<backend::SequenceArgs> {
 public:
  /// Builds the kernel, and launches it once with no tokens. `calls`: those that it stands for, whose memory it
  /// keeps.
  FusedExperts(ContextPtr context, const Layer& layer, std::vector<backend::RecordedCall> calls)
      : context_(std::move(context)), calls_(std::move(calls)) {
    guarded("building a layer of experts", [&] {
      build(layer);
      bind_all(layer);
    });
  }

  /// Whether the device ran all work-groups at once.
  bool meets() {
    const cl::CommandQueue queue(context_->context, context_->device);
    bind<FusedExpertsArg::tokens>(kernel_, 0);
    bind<FusedExpertsArg::waits>(kernel_, kWaitsOfTrial);
    queue.enqueueNDRangeKernel(kernel_, cl::NullRange, cl::NDRange(groups() * kItems), cl::NDRange(kItems));
    std::array<cl_uint, 16> counters{};
    queue.enqueueReadBuffer(workspace_, CL_TRUE, 0, sizeof counters, counters.data());
    const bool met =
        std::all_of(counters.begin(), counters.begin() + 4, [&](cl_uint come) { return come == groups(); }) &&
        counters[7] == 0;
    counters.fill(0);
    queue.enqueueWriteBuffer(workspace_, CL_TRUE, 0, sizeof counters, counters.data());
    bind<FusedExpertsArg::tokens>(kernel_, tokens_);
    bind<FusedExpertsArg::waits>(kernel_, kWaits);
    return met;
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::SequenceArgs& args) override {
    return guarded("a layer of experts", [&]() -> std::shared_ptr<backend::Event> {
      Launcher call(context_, queue, args.wait, args.wants_event);
      const std::scoped_lock lock(context_->persistent.mutex);
      context_->persistent.launches.begin(call);
      call.launch(kernel_, static_cast<std::int64_t>(groups()), 1, kItems);
      return context_->persistent.launches.end(call);
    });
  }

 private:
  std::size_t groups() const { return static_cast<std::size_t>(kAtOnce * context_->features.compute_units); }

  void build(const Layer& layer) {
    const Features& f = context_->features;
    const Problem& p = layer.up.problem;
    Defines defines = device_defines(f);
    defines.merge(quantizer_defines(f, DType::f32, p.a, layer.h_quantizer()));
    const auto floor = std::bit_cast<std::uint32_t>(layer.h_quantizer().amax_floor);
    defines["FLOOR_BITS"] = std::to_string(floor) + "u";
    defines["A_TYPE"] = kernel_number(p.a);
    defines["B_TYPE"] = kernel_number(p.b);
    defines["X_TYPE"] = kernel_number(p.a_source);
    defines["Y_TYPE"] = kernel_number(layer.combine.y);
    defines["ADD_TYPE"] = kernel_number(layer.combine.add);
    defines["WEIGH_ADD"] = layer.combined.add_weights ? "1" : "0";
    defines["IN_TURNS"] = layer.up.in_turns ? "1" : "0";
    defines["ACTIVATION"] = std::to_string(static_cast<std::uint32_t>(p.gate));
    defines["ACTIVATION_LIMIT"] = fmt::format("{:a}f", p.activation_limit);
    kernel_ = cl::Kernel(context_->builder->build("fused_experts.cl", defines, quantizer_options(f), ptx_at_once()),
                         "fused_experts");
  }

  template <auto kName>
  void bind_span(const backend::Span& span, DType type, cl_uint first = 0) {
    bind_memory<kName>(kernel_, {&own(span.buffer).memory(), span.offset}, numerics::size_of(type), first);
  }

  void bind_all(const Layer& layer) {
    using Arg = FusedExpertsArg;
    const Problem& p = layer.up.problem;
    const std::int64_t slots = layer.slots(), tokens = layer.combined.tokens, hidden = layer.hidden(),
                       width = layer.width();
    tokens_ = tokens;
    // As the kernel divides it: codes and scales of h and x, h, what experts made.
    const Size bytes =
        Size(64) + Size(slots) * width + Size(tokens) * hidden +
        (Size(slots) * (width / 128) + Size(tokens) * (hidden / 128) + Size(slots) * width + Size(slots) * hidden) *
            4;
    std::vector<std::byte> zeros(static_cast<std::size_t>(bytes.bytes()));
    workspace_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, zeros.size(), zeros.data());
    bind<Arg::tokens>(kernel_, tokens);
    bind<Arg::top_k>(kernel_, layer.route.top_k);
    bind<Arg::first_expert>(kernel_, layer.route.first_expert);
    bind<Arg::matrices>(kernel_, p.matrices);
    bind<Arg::hidden>(kernel_, hidden);
    bind<Arg::width>(kernel_, width);
    bind_span<Arg::ids>(layer.routed.ids, DType::s32);
    bind_span<Arg::weights>(layer.combined.weights, DType::f32);
    bind_span<Arg::x>(layer.up.args.a, p.a_source);
    bind<Arg::ldx>(kernel_, p.lda);
    const auto stride_of_scales = [](const Product& product) { return product.extent.scales.value(); };
    bind<Arg::up_b>(kernel_, layer.up.weights.codes);
    bind<Arg::up_sb>(kernel_, layer.up.weights.scales);
    bind<Arg::up_stride>(kernel_, layer.up.extent.code_bytes.bytes());
    bind<Arg::up_sb_stride>(kernel_, stride_of_scales(layer.up));
    // Slots of 64 columns by 128 k, 8 KiB each; scales of 128 columns.
    bind<Arg::up_at>(kernel_, layer.up.in_turns ? 0 : width / 64 * layer.up.blocks() * 8192);
    bind<Arg::up_sb_at>(kernel_, layer.up.in_turns ? 1 : width / 128 * layer.up.blocks() * 128);
    bind<Arg::down_b>(kernel_, layer.down.weights.codes);
    bind<Arg::down_sb>(kernel_, layer.down.weights.scales);
    bind<Arg::down_stride>(kernel_, layer.down.extent.code_bytes.bytes());
    bind<Arg::down_sb_stride>(kernel_, stride_of_scales(layer.down));
    bind_span<Arg::y>(layer.combined.y, layer.combine.y);
    bind<Arg::ldy>(kernel_, layer.combine.y_ld);
    bind<Arg::workspace>(kernel_, workspace_);
    bind<Arg::waits>(kernel_, kWaits);
    bind<Arg::table>(kernel_, cl::Local(static_cast<std::size_t>(p.matrices) * 48));
    cl_uint next = kCountOf<Arg>;
    if (layer.combine.add != DType::none) {
      bind_span<FusedAddArg::add>(layer.combined.add, layer.combine.add, next);
      bind<FusedAddArg::ld_add>(kernel_, layer.combine.add_ld, next);
      next += kCountOf<FusedAddArg>;
    }
    if (layer.combined.add_weights)
      bind_span<FusedAddWeightsArg::add_weights>(layer.combined.add_weights, DType::f32, next);
  }

  ContextPtr context_;
  std::vector<backend::RecordedCall> calls_;
  std::int64_t tokens_ = 0;
  cl::Kernel kernel_;
  cl::Buffer workspace_;
};

/// The call at `at`, where it is of such an operation; else null.
template <class Operation, class Args>
const Operation* operation_at(const std::vector<backend::RecordedCall>& calls, std::size_t at, const Args** args) {
  const auto* recorded = at < calls.size() ? std::get_if<backend::Recorded<Args>>(&calls[at]) : nullptr;
  if (recorded == nullptr) return nullptr;
  *args = &recorded->args;
  return dynamic_cast<const Operation*>(recorded->operation.get());
}

}  // namespace

std::shared_ptr<backend::Sequence> fuse_experts(const ContextPtr& context, std::vector<backend::RecordedCall> calls) {
  std::string variant;
  for (std::size_t at = 0; context->features.ptx_sm_90 && at < calls.size(); ++at) {
    const backend::RouteArgs* routed = nullptr;
    const backend::GemmArgs *up_args = nullptr, *down_args = nullptr;
    const backend::CombineArgs* combined = nullptr;
    const auto* route = operation_at<DescribedRoute>(calls, at, &routed);
    if (route == nullptr) continue;
    const auto* up = operation_at<Gemm>(calls, at + 1, &up_args);
    const auto* down = operation_at<Gemm>(calls, at + 2, &down_args);
    // The products of a shared expert may come before the sum: they know nothing of the others.
    std::size_t last = at + 3;
    while (last < calls.size() && std::holds_alternative<backend::Recorded<backend::GemmArgs>>(calls[last])) ++last;
    const auto* combine = operation_at<DescribedCombine>(calls, last, &combined);
    if (up == nullptr || down == nullptr || combine == nullptr || combined->tokens == 0) continue;
    const Layer layer{
        route->desc(), *routed, combine->desc(), *combined, Product(*up, *up_args), Product(*down, *down_args)};
    if (!layer.is_one() || !layer.fits()) continue;
    std::vector<backend::RecordedCall> own = {calls[at], calls[at + 1], calls[at + 2], calls[last]};
    auto fused = std::make_shared<FusedExperts>(context, layer, std::move(own));
    if (!guarded("trying a layer of experts", [&] { return fused->meets(); })) break;
    variant = "fused_experts";
    // Given ids are sorted by the launch; chosen ones, and weights of a shared expert, are made before.
    const bool routes = !route->desc().given || route->desc().shared_gate;
    calls[last] = backend::Recorded<backend::SequenceArgs>{std::move(fused), {}};
    const auto begin = calls.begin() + static_cast<std::ptrdiff_t>(at);
    calls.erase(begin + (routes ? 1 : 0), begin + 3);
  }
  return std::make_shared<backend::Sequence>(std::move(calls), std::move(variant));
}

}  // namespace ironcl::opencl

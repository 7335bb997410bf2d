// SPDX-License-Identifier: Apache-2.0
// Calls of a sequence that are a layer of experts for few tokens, as one launch of cl/fused_experts.cl: which those
// are, and the launch. Next door: router.cpp, gemm.cpp and combiner.cpp, whose calls it stands for.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/persistent.h"
#include "backends/spans.h"

namespace ironcl::opencl {

using backend::DType;
using numerics::Size;

namespace {

constexpr std::int64_t kMostMatrices = 256;

/// A form of the kernel: its TILE_M, TEAMS and SLOTS. Local memory of several teams is an array of the kernel's own.
struct Form {
  std::int64_t tile_m = 8, teams = 1, slots = 512;

  std::int64_t items() const { return 128 * teams; }
  std::int64_t at_once() const { return teams == 1 ? 4 : 1; }  ///< Work-groups of a compute unit.
  /// Of local memory beside `memory`, with room to align.
  std::int64_t local_bytes() const { return 512 * teams * (tile_m + 1) + 16 * teams + 4 * slots + 600; }
  std::int64_t most_local_bytes(const Features& f) const { return teams == 1 ? f.local_bytes : f.own_local_bytes; }
};
/// Few rows per expert by work-groups that have a tile each; more by teams that share one.
constexpr Form kForms[] = {{8, 1, 512}, {16, 4, 2048}, {24, 4, 2048}};

bool same(const backend::Span& a, const backend::Span& b) { return a.buffer == b.buffer && a.offset == b.offset; }

/// A product of the layer, as its plan and its call describe it.
struct Product {
  const Problem& problem;
  const backend::GemmArgs& args;
  const DeviceWeights& weights;
  WeightExtent extent;
  std::string form;

  Product(const Gemm& gemm, const backend::GemmArgs& call)
      : problem(gemm.choice().problem),
        args(call),
        weights(static_cast<const Weights&>(*call.weights).in(*gemm.weight_form())),
        extent(gemm.weight_form()->extent(problem.n, problem.k, problem.b_scale.grid.scale_cols(problem.k))),
        form(gemm.weight_form()->name()) {}
  std::int64_t blocks() const { return problem.k / 128; }
  bool is_swizzled() const { return form == swizzled_form()->name(); }
  bool in_turns() const { return form == swizzled_form()->name() + "_gate1"; }
  bool fits() const;
};

/// Whether the kernel has its types, its scales and its form: those of checkpoints of fp8 in blocks of 128 x 128.
bool Product::fits() const {
  const Problem& p = problem;
  const numerics::ScaleGrid& grid = p.b_scale.grid;
  return p.k_group == 128 && p.k % 256 == 0 && p.bias == DType::none &&
         (p.a == DType::e4m3fn || p.a == DType::e5m2) && (p.b == DType::e4m3fn || p.b == DType::e5m2) &&
         p.b_scale.dtype != DType::none && !p.b_scale.global && grid.group_rows == 128 && grid.group_cols == 128 &&
         grid.row_origin == 0 && grid.col_origin == 0 && p.given_source == DType::none &&
         p.a_scale.grid == numerics::ScaleGrid{1, 128} && !p.a_scale.global && !args.a_quantized &&
         (is_swizzled() || in_turns());
}

/// The two products of a gated MLP.
struct Mlp {
  Product up, down;

  const backend::Quantizer& h_quantizer() const {
    return down.problem.a_source != DType::none ? down.problem.a_quantizer : up.problem.d_quantizer;
  }
  bool fits() const;
};

bool Mlp::fits() const {
  const Problem &p = up.problem, &q = down.problem;
  return up.fits() && down.fits() && down.is_swizzled() && same(down.args.a, up.args.d) &&
         same(down.args.a_scale, up.args.d_scale) && up.args.m == down.args.m && p.gated() && !q.gathers() &&
         !q.gated() && q.d == DType::f32 && !q.quantizes_d() && q.ldd == q.n && p.a == q.a && p.b == q.b &&
         p.n == 2 * q.k && q.n == p.k && !h_quantizer().given &&
         (p.quantizes_d() ? p.activates_to_codes() && p.d_later == q.a && q.a_source == DType::none &&
                                p.d_scale.grid == numerics::ScaleGrid{1, 128}
                          : p.d_later == DType::f32 && q.a_source == DType::f32);
}

/// The activations of the layer before they are codes.
struct Activations {
  const backend::Span& span;
  DType type;
  std::int64_t ld;
  const backend::Quantizer& quantizer;
};

/// The calls that stand for a layer. `quantised`: where it has that. Of a shared expert whose rows are the first, the
/// products are those of the experts, and what is added are its rows of the second one's D.
struct Layer {
  const backend::RouteDesc& route;
  const backend::RouteArgs& routed;
  const QuantizeOperation* quantiser;
  const backend::QuantizeArgs* quantised;
  Mlp experts;
  const backend::CombineDesc& combine;
  const backend::CombineArgs& combined;

  Activations x() const {
    const Problem& p = experts.up.problem;
    if (quantiser == nullptr) return {experts.up.args.a, p.a_source, p.lda, p.a_quantizer};
    return {quantised->x, quantiser->desc().x, quantiser->desc().x_ld, quantiser->desc().quantizer};
  }
  std::int64_t tokens() const { return combined.tokens; }
  std::int64_t slots() const { return tokens() * route.top_k; }
  std::int64_t rows() const { return route.rows(tokens()); }
  std::int64_t hidden() const { return experts.up.problem.k; }
  std::int64_t width() const { return experts.down.problem.k; }
  /// Bytes of `memory` of the kernel. Of several teams, where it is part of the program, for all calls of the layer.
  std::int64_t local_bytes(const Form& form, std::int64_t tile_rows) const {
    const std::int64_t longest = std::max(hidden(), width());
    const std::int64_t most_slots = form.teams > 1 ? form.slots : slots(), most_tokens = most_slots / route.top_k;
    const std::int64_t tiles = std::min(most_slots, route.local_experts + most_slots / tile_rows) +
                               (route.shared_expert ? (most_tokens + tile_rows - 1) / tile_rows : 0);
    return (tiles + 1) / 2 * 16 +
           std::max(16 * form.teams * route.local_experts, tile_rows * (longest + longest / 32));
  }
  std::int64_t tile_rows(const Form& form, const Features& f) const;
  /// The first form that has room; null: none.
  const Form* form(const Features& f) const {
    const auto* found =
        std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) { return tile_rows(form, f) > 0; });
    return found == std::end(kForms) ? nullptr : found;
  }
  bool is_one() const;
  bool fits() const;
};

/// Rows of a tile: twice an expert's average and two, since of more weights are read again for a second tile; less
/// where there is no room, and of teams all that a tile can have. 0: too little room, or not half as many again as an
/// expert has on average.
std::int64_t Layer::tile_rows(const Form& form, const Features& f) const {
  const auto average = [&](int halves) { return numerics::ceil_div(halves * slots(), 2 * route.local_experts); };
  std::int64_t rows = form.teams > 1 ? form.tile_m : std::min({form.tile_m, tokens(), average(4) + 2});
  const auto has_room = [&] { return form.local_bytes() + local_bytes(form, rows) <= form.most_local_bytes(f); };
  while (form.teams == 1 && rows > 0 && !has_room()) --rows;
  return slots() > form.slots || rows < std::min(tokens(), average(3)) || !has_room() ? 0 : rows;
}

/// Whether one call reads what the other has made.
bool Layer::is_one() const {
  const Product &up = experts.up, &down = experts.down;
  const auto reads_x = [&](const Product& product) {
    return quantised == nullptr
               ? same(product.args.a, up.args.a)
               : same(product.args.a, quantised->codes) && same(product.args.a_scale, quantised->scales);
  };
  return same(up.args.matrix_rows, routed.matrix_rows) && same(down.args.matrix_rows, routed.matrix_rows) &&
         same(up.args.a_index, routed.a_index) && same(combined.x, down.args.d) && same(combined.rows, routed.rows) &&
         combined.tokens == routed.tokens && combined.tokens == up.args.a_rows && up.args.m == rows() &&
         reads_x(up) && (!route.shared_expert || same(combined.add, down.args.d));
}

/// Whether the kernel computes it. Of 512 columns each of its warps has a K block.
bool Layer::fits() const {
  const Problem& p = experts.up.problem;
  const Activations from = x();
  return experts.fits() && p.grouping == backend::Grouping::contiguous &&
         experts.down.problem.grouping == backend::Grouping::contiguous && p.gathers() && combine.x_ld == hidden() &&
         combine.x == DType::f32 && p.matrices == route.matrices() && route.local_experts <= kMostMatrices &&
         from.type != DType::none && from.quantizer == experts.h_quantizer() && hidden() >= 512 &&
         route.capacity == 0 &&
         (quantised == nullptr || (quantised->rows == combined.tokens && quantiser->desc().code == p.a &&
                                   quantiser->desc().scale.dtype == DType::f32 &&
                                   quantiser->desc().scale.grid == numerics::ScaleGrid{1, 128})) &&
         (!route.shared_expert || (combine.add == DType::f32 && combine.add_ld == hidden()));
}

class FusedExperts final : public PersistentLaunch {
 public:
  FusedExperts(ContextPtr context, const Layer& layer, std::vector<backend::RecordedCall> calls)
      : PersistentLaunch(std::move(context), "a layer of experts", std::move(calls)),
        form_(*layer.form(context_->features)) {
    meetings_ = 4, tried_ = 4;
    groups_ = form_.at_once() * context_->features.compute_units, items_ = form_.items();
    guarded("building a layer of experts", [&] {
      build(layer);
      bind_all(layer);
    });
  }

 private:
  void bind_size(bool nothing, cl_int waits) override {
    bind<FusedExpertsArg::tokens>(kernel_, nothing ? 0 : tokens_);
    bind<FusedExpertsArg::waits>(kernel_, waits);
  }

  void build(const Layer& layer) {
    const Features& f = context_->features;
    const Problem& p = layer.experts.up.problem;
    Defines defines = device_defines(f);
    defines.merge(quantizer_defines(f, DType::f32, p.a, layer.experts.h_quantizer()));
    const auto floor = std::bit_cast<std::uint32_t>(layer.experts.h_quantizer().amax_floor);
    defines["FLOOR_BITS"] = std::to_string(floor) + "u";
    defines["A_TYPE"] = kernel_number(p.a);
    defines["B_TYPE"] = kernel_number(p.b);
    defines["X_TYPE"] = kernel_number(layer.x().type);
    defines["Y_TYPE"] = kernel_number(layer.combine.y);
    if (layer.route.shared_expert) defines["SHARED"];
    defines["ADD_TYPE"] = kernel_number(layer.route.shared_expert ? DType::none : layer.combine.add);
    defines["WEIGH_ADD"] = layer.combined.add_weights ? "1" : "0";
    defines["IN_TURNS"] = layer.experts.up.in_turns() ? "1" : "0";
    defines["ACTIVATION"] = std::to_string(static_cast<std::uint32_t>(p.gate));
    defines["TILE_M"] = std::to_string(form_.tile_m);
    defines["TEAMS"] = std::to_string(form_.teams);
    defines["SLOTS"] = std::to_string(form_.slots);
    if (form_.teams > 1) {
      const std::int64_t bytes = layer.local_bytes(form_, form_.tile_m);
      defines["OWN_BYTES"] = std::to_string(numerics::round_up(bytes, 16));
    }
    defines["ACTIVATION_LIMIT"] = fmt::format("{:a}f", p.activation_limit);
    kernel_ = cl::Kernel(context_->builder->build("fused_experts.cl", defines, quantizer_options(f), kPtxAtOnce),
                         "fused_experts");
  }

  template <auto kName>
  void bind_span(const backend::Span& span, DType type, cl_uint first = 0) {
    bind_memory<kName>(kernel_, {&own(span.buffer).memory(), span.offset}, numerics::size_of(type), first);
  }

  void bind_all(const Layer& layer) {
    using Arg = FusedExpertsArg;
    const Product &up = layer.experts.up, &down = layer.experts.down;
    const Activations x = layer.x();
    const std::int64_t hidden = layer.hidden(), width = layer.width(),
                       tile_rows = layer.tile_rows(form_, context_->features);
    tokens_ = layer.combined.tokens;
    // As the kernel divides it: codes and scales of h and x, h, what experts made; scales are padded to 16 bytes.
    const Size bytes = Size(96) + Size(layer.rows()) * (width + width / 32 + 4 * width + 4 * hidden) +
                       Size(tokens_) * (hidden + hidden / 32);
    workspace_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, static_cast<std::size_t>(bytes.bytes()));
    bind<Arg::top_k>(kernel_, layer.route.top_k);
    bind<Arg::first_expert>(kernel_, layer.route.first_expert);
    bind<Arg::matrices>(kernel_, layer.route.local_experts);
    bind<Arg::hidden>(kernel_, hidden);
    bind<Arg::width>(kernel_, width);
    bind<Arg::tile_rows>(kernel_, tile_rows);
    bind_span<Arg::ids>(layer.routed.ids, DType::s32);
    bind_span<Arg::weights>(layer.combined.weights, DType::f32);
    bind_span<Arg::x>(x.span, x.type);
    bind<Arg::ldx>(kernel_, x.ld);
    bind<Arg::up_b>(kernel_, up.weights.codes);
    bind<Arg::up_sb>(kernel_, up.weights.scales);
    bind<Arg::up_stride>(kernel_, up.extent.code_bytes.bytes());
    bind<Arg::up_sb_stride>(kernel_, up.extent.scales.value());
    // Slots of 64 columns by 128 k, 8 KiB each; scales of 128 columns.
    bind<Arg::up_at>(kernel_, up.in_turns() ? 0 : width / 64 * up.blocks() * 8192);
    bind<Arg::up_sb_at>(kernel_, up.in_turns() ? 1 : width / 128 * up.blocks() * 128);
    bind<Arg::down_b>(kernel_, down.weights.codes);
    bind<Arg::down_sb>(kernel_, down.weights.scales);
    bind<Arg::down_stride>(kernel_, down.extent.code_bytes.bytes());
    bind<Arg::down_sb_stride>(kernel_, down.extent.scales.value());
    bind_span<Arg::y>(layer.combined.y, layer.combine.y);
    bind<Arg::ldy>(kernel_, layer.combine.y_ld);
    bind<Arg::workspace>(kernel_, workspace_);
    const std::int64_t lent = form_.teams > 1 ? 16 : layer.local_bytes(form_, tile_rows);
    bind<Arg::memory>(kernel_, cl::Local(static_cast<std::size_t>(lent)));
    cl_uint next = kCountOf<Arg>;
    if (layer.combine.add != DType::none && !layer.route.shared_expert) {
      bind_span<FusedAddArg::add>(layer.combined.add, layer.combine.add, next);
      bind<FusedAddArg::ld_add>(kernel_, layer.combine.add_ld, next);
      next += kCountOf<FusedAddArg>;
    }
    if (layer.combined.add_weights)
      bind_span<FusedAddWeightsArg::add_weights>(layer.combined.add_weights, DType::f32, next);
  }

  Form form_;
  std::int64_t tokens_ = 0;
};

/// What calls write. None is a sequence.
std::vector<backend::Place> written_by(std::span<const backend::RecordedCall> calls) {
  std::vector<backend::Place> out;
  for (const backend::RecordedCall& call : calls) {
    std::visit(
        [&]<class Args>(const backend::Recorded<Args>& recorded) {
          if constexpr (!std::is_same_v<Args, backend::SequenceArgs>)
            for (const backend::Span* span : backend::operands(recorded.args))
              if (*span && span->written) out.push_back(backend::place_of(*span));
        },
        call);
  }
  return out;
}

/// Whether calls from `first` on read nothing that the launch in place of call `last` has left unwritten of
/// `dropped`, and write nothing that it reads later than its calls did. A sequence among them may read all.
bool may_drop(std::vector<backend::Place> dropped, const Layer& layer,
              const std::vector<backend::RecordedCall>& calls, std::size_t first, std::size_t last) {
  const auto is_dropped = [&](const backend::Span& span) {
    return span && std::any_of(dropped.begin(), dropped.end(),
                               [place = backend::place_of(span)](const auto& d) { return d.overlaps(place); });
  };
  const auto write = [&](const backend::Place& w) {
    std::vector<backend::Place> rest;
    for (const backend::Place& d : dropped) {
      if (!d.overlaps(w)) rest.push_back(d);
      if (d.overlaps(w) && d.begin < w.begin) rest.push_back({d.space, d.begin, w.begin});
      if (d.overlaps(w) && w.end < d.end) rest.push_back({d.space, w.end, d.end});
    }
    dropped = std::move(rest);
  };
  const auto allows = [&]<class Args>(const backend::Recorded<Args>& call, bool is_last) {
    if constexpr (std::is_same_v<Args, backend::SequenceArgs>) {
      return dropped.empty();
    } else {
      const auto operands = backend::operands(call.args);
      const bool ok = std::all_of(operands.begin(), operands.end(), [&](const backend::Span* span) {
        if (!span->written)
          return !is_dropped(*span) ||
                 (is_last && (same(*span, layer.combined.x) || same(*span, layer.combined.rows) ||
                              (layer.route.shared_expert && same(*span, layer.combined.add))));
        return is_last || !(overlap(*span, layer.routed.ids) || overlap(*span, layer.x().span));
      });
      for (const backend::Span* span : operands)
        if (*span && span->written) write(backend::place_of(*span));
      return ok;
    }
  };
  for (std::size_t i = first; i < calls.size(); ++i)
    if (!std::visit([&](const auto& call) { return allows(call, i == last); }, calls[i])) return false;
  return true;
}

/// The call at `at` with its arguments, where it is of such an operation; else nulls.
template <class Operation, class Args>
std::pair<const Operation*, const Args*> operation_at(const std::vector<backend::RecordedCall>& calls,
                                                      std::size_t at) {
  const auto* recorded = at < calls.size() ? std::get_if<backend::Recorded<Args>>(&calls[at]) : nullptr;
  if (recorded == nullptr) return {};
  return {dynamic_cast<const Operation*>(recorded->operation.get()), &recorded->args};
}

}  // namespace

std::string fuse_experts(const ContextPtr& context, std::vector<backend::RecordedCall>& calls) {
  std::string variant;
  for (std::size_t at = 0; context->features.ptx_sm_90 && at < calls.size(); ++at) {
    const auto [route, routed] = operation_at<RouteOperation, backend::RouteArgs>(calls, at);
    if (route == nullptr) continue;
    const auto [quantiser, quantised] = operation_at<QuantizeOperation, backend::QuantizeArgs>(calls, at + 1);
    const std::size_t first = at + (quantiser != nullptr ? 2 : 1);
    const auto mlp_at = [&](std::size_t i) -> std::optional<Mlp> {
      const auto [up, up_args] = operation_at<Gemm, backend::GemmArgs>(calls, i);
      const auto [down, down_args] = operation_at<Gemm, backend::GemmArgs>(calls, i + 1);
      if (up == nullptr || down == nullptr) return std::nullopt;
      return Mlp{Product(*up, *up_args), Product(*down, *down_args)};
    };
    // The products of a shared expert of another form come before the sum: may_drop() looks at them, and what
    // quantises x for them stays.
    std::size_t last = first + 2;
    while (last < calls.size() && !std::holds_alternative<backend::Recorded<backend::CombineArgs>>(calls[last]))
      ++last;
    const auto experts = mlp_at(first);
    const auto [combine, combined] = operation_at<CombineOperation, backend::CombineArgs>(calls, last);
    if (!experts || combine == nullptr || combined->tokens == 0) continue;
    const Layer layer{route->desc(), *routed, quantiser, quantised, *experts, combine->desc(), *combined};
    if (!layer.is_one() || !layer.fits() || layer.form(context->features) == nullptr) continue;
    // The launch sorts ids; where they are chosen, they and weights of a shared expert are made before.
    const bool routes = !route->desc().given || route->desc().shared_gate;
    const bool quantises = quantiser != nullptr && last > first + 2;
    const auto call_at = [&](std::size_t i) { return calls.begin() + static_cast<std::ptrdiff_t>(i); };
    const std::size_t dropped = quantises ? first : at + (routes ? 1 : 0), after_own = first + 2;
    std::vector<backend::RecordedCall> own(call_at(dropped), call_at(after_own));
    std::vector<backend::Place> unwritten = written_by(own);
    if (routes)
      for (const backend::Span& span : {routed->matrix_rows, routed->a_index, routed->rows})
        unwritten.push_back(backend::place_of(span));
    if (!may_drop(std::move(unwritten), layer, calls, after_own, last)) continue;
    own.insert(own.end(), {calls[at], calls[last]});
    auto fused = std::make_shared<FusedExperts>(context, layer, std::move(own));
    if (!guarded("trying a layer of experts", [&] { return fused->meets(); })) break;
    variant = "fused_experts";
    calls[last] = backend::Recorded<backend::SequenceArgs>{std::move(fused), {}};
    calls.erase(call_at(dropped), call_at(after_own));
    if (quantises && !routes) calls.erase(call_at(at));
    if (routes) {
      backend::RouteArgs& kept = std::get<backend::Recorded<backend::RouteArgs>>(calls[at]).args;
      kept.matrix_rows = kept.a_index = kept.rows = {};
    }
  }
  return variant;
}

}  // namespace ironcl::opencl

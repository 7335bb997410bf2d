// SPDX-License-Identifier: Apache-2.0
// A router on the device: the experts of each token (cl/choose_experts.cl), and rows sorted by expert
// (cl/sort_rows.cl).
#include "backends/opencl/arguments.h"
#include "backends/opencl/device.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

using backend::DType;
using numerics::Size;

namespace {

/// Local memory for all experts, and in all, while `lanes` work-items sort: WIDTH of cl/sort_rows.cl is 32, and
/// choose_experts.cl has the most for each work-item.
Size of_experts(const backend::RouteDesc& desc, std::int64_t lanes) {
  return Size(desc.local_experts) * 4 * (1 + numerics::ceil_div(lanes, 32));
}
Size sorting_bytes(const backend::RouteDesc& desc, std::int64_t lanes) {
  return of_experts(desc, lanes) + Size(lanes) * 16;
}

/// As many work-items as there is room for what they count, up to `most`.
std::int64_t lanes_with_room(const Features& f, const backend::RouteDesc& desc, std::uint64_t most) {
  std::int64_t lanes = lanes_of(f, most);
  while (lanes > 32 && sorting_bytes(desc, lanes) > f.local_bytes) lanes /= 2;
  return lanes;
}

class Router final : public DescribedRoute {
 public:
  Router(ContextPtr context, const backend::RouteDesc& desc) : DescribedRoute(desc), context_(std::move(context)) {
    expect_countable("slots of tokens", Size(desc.tokens) * desc.rows_of_token());
    expect_countable("rows of all experts", Size(desc.local_experts) * desc.capacity);
    choosing_lanes_ = lanes_with_room(context_->features, desc, 64);
    const std::int64_t slots = desc.tokens * desc.top_k;
    sorting_lanes_ = lanes_with_room(context_->features, desc, slots > 4096 ? 1024 : slots > 512 ? 512 : 256);
    const Size memory =
        choosing() ? Size(std::max<std::int64_t>(desc.tokens, 1)) * (2 * desc.experts + 2 * desc.expert_groups)
                   : Size(1);
    expect_fits(context_->features, "the scores of all tokens", memory * 4);
    const Size local = sorting_bytes(desc, sorting_lanes_);
    if (local > context_->features.local_bytes)
      throw backend::Error(backend::Status::unsupported,
                           "{} experts take {} bytes of local memory while rows are sorted, the device has {}",
                           desc.local_experts, local.value(), context_->features.local_bytes);
    guarded("building a router", [&] {
      scores_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, (memory * 4).bytes());
      build();
    });
  }

  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::RouteArgs& args) override {
    return guarded("routing", [&]() -> std::shared_ptr<backend::Event> {
      Launcher call(context_, queue, args.wait, args.wants_event);
      own_memory_.begin(call);
      const auto bind_rows = [&](cl::Kernel& kernel, cl_uint next) {
        bind<SortedArg::slots>(kernel, args.tokens * desc_.top_k, next);
        bind_memory<SortedArg::counts_memory>(kernel, call.memory(args.matrix_rows), 4, next);
        bind_memory<SortedArg::index_memory>(kernel, call.memory(args.a_index), 4, next);
        bind_memory<SortedArg::rows_memory>(kernel, call.memory(args.rows), 4, next);
      };
      if (choose_() != nullptr && args.tokens != 0) {
        bind<ChooseArg::tokens>(choose_, args.tokens);
        bind_memory<ChooseArg::logits>(choose_, call.memory(args.logits), numerics::size_of(desc_.logits));
        bind_memory<ChooseArg::bias>(choose_, call.memory(args.bias), 4);
        bind_memory<ChooseArg::ids>(choose_, call.memory(args.ids), 4);
        bind_memory<ChooseArg::weights>(choose_, call.memory(args.weights), 4);
        bind_memory<ChooseArg::shared_weights>(choose_, call.memory(args.shared_weights), 4);
        bind_rows(choose_, kCountOf<ChooseArg>);
        call.launch(choose_, args.tokens, 1, choosing_lanes_);
      }
      if (!choosing() || args.tokens != 1) {  // Of a single token choosing has sorted the slots.
        bind_memory<SortArg::ids>(sort_, call.memory(args.ids), 4);
        bind_rows(sort_, kCountOf<SortArg>);
        call.launch(sort_, 1, 1, sorting_lanes_);
      }
      return own_memory_.end(call);
    });
  }

 private:
  bool choosing() const noexcept { return desc_.score != backend::Score::none; }

  /// Binds what is constant of SORTED_LIST of cl/arguments.cl, from argument `next` on.
  void bind_sorted(cl::Kernel& kernel, std::int64_t lanes, cl_uint next) {
    bind<SortedArg::first>(kernel, desc_.first_expert, next);
    bind<SortedArg::local_experts>(kernel, desc_.local_experts, next);
    bind<SortedArg::capacity>(kernel, desc_.capacity, next);
    bind<SortedArg::shared_expert>(kernel, desc_.shared_expert, next);
    bind<SortedArg::of_experts>(kernel, cl::Local(of_experts(desc_, lanes).bytes()), next);
  }

  void build() {
    ProgramBuilder& builder = *context_->builder;
    Defines defines = device_defines(context_->features);
    defines["LANES"] = std::to_string(sorting_lanes_);
    sort_ = cl::Kernel(builder.build("sort_rows.cl", defines), "sort_rows");
    bind<SortArg::top_k>(sort_, desc_.top_k);
    bind_sorted(sort_, sorting_lanes_, kCountOf<SortArg>);
    if (desc_.logits == DType::none) return;
    defines["LANES"] = std::to_string(choosing_lanes_);
    defines["LOGITS_TYPE"] = kernel_number(desc_.logits);
    defines["SCORE"] = std::to_string(static_cast<std::uint32_t>(desc_.score));
    defines["HAS_BIAS"] = std::to_string(desc_.bias != DType::none);
    defines["NORMALIZE"] = std::to_string(desc_.normalize);
    defines["SHARED_GATE"] = std::to_string(desc_.shared_gate);
    defines["BEST_OF_TWO"] = std::to_string(desc_.best_of_two);
    choose_ = cl::Kernel(builder.build("choose_experts.cl", defines), "choose_experts");
    bind<ChooseArg::experts>(choose_, desc_.experts);
    bind<ChooseArg::top_k>(choose_, desc_.top_k);
    bind<ChooseArg::groups>(choose_, desc_.expert_groups);
    bind<ChooseArg::top_groups>(choose_, desc_.top_groups);
    bind<ChooseArg::factor>(choose_, desc_.scale);
    bind<ChooseArg::ld>(choose_, desc_.logits_ld);
    bind<ChooseArg::memory>(choose_, scores_);
    bind_sorted(choose_, choosing_lanes_, kCountOf<ChooseArg>);
  }

  ContextPtr context_;
  std::int64_t choosing_lanes_ = 1, sorting_lanes_ = 1;
  cl::Kernel choose_, sort_;
  cl::Buffer scores_;
  Exclusive own_memory_;  ///< Of scores_.
};

}  // namespace

std::shared_ptr<backend::Route> Device::create_route(const backend::RouteDesc& desc) {
  return std::make_shared<Router>(context(), desc);
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// A router on the device: the experts of each token (cl/choose_experts.cl), and rows sorted by expert
// (cl/sort_rows.cl).
#include <bit>

#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

using backend::DType;
using backend::Error;
using backend::Score;
using backend::Status;
using numerics::Size;

namespace {

class Router final : public backend::Route {
 public:
  Router(ContextPtr context, const backend::RouteDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::RouteArgs& args) override;

 private:
  void build();
  /// Binds what is constant of SORTED_LIST of cl/arguments.cl, from argument `next` on.
  void bind_sorted(cl::Kernel& kernel, cl_uint next);

  ContextPtr context_;
  backend::RouteDesc desc_;
  std::int64_t choosing_lanes_, sorting_lanes_;
  cl::Kernel choose_, sort_;
  cl::Buffer null_buffer_, scores_, begins_;
  Exclusive own_memory_;  ///< Of scores_ and begins_.
};

std::int64_t lanes(const Features& f, std::uint64_t most) {
  return f.prefers_vectors() ? 1 : std::bit_floor(std::min<std::uint64_t>(most, f.max_work_group));
}

Router::Router(ContextPtr context, const backend::RouteDesc& desc)
    : context_(std::move(context)),
      desc_(desc),
      choosing_lanes_(lanes(context_->features, 64)),
      sorting_lanes_(lanes(context_->features, 256)) {
  if (desc_.logits != DType::none) expect_real("logits are", desc_.logits);
  if (desc_.bias != DType::none && desc_.bias != DType::f32)
    throw Error(Status::unsupported, "the bias of a router is f32 here");
  expect_countable("slots of tokens", Size(desc_.tokens) * desc_.top_k);
  expect_countable("rows of all experts", Size(desc_.local_experts) * desc_.capacity);
  const Size memory = desc_.score == Score::none ? Size(1)
                                                 : Size(std::max<std::int64_t>(desc_.tokens, 1)) *
                                                       (2 * desc_.experts + 2 * desc_.expert_groups);
  expect_fits(context_->features, "the scores of all tokens", memory * 4);
  guarded("building a router", [&] {
    null_buffer_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, std::size_t{256});
    scores_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, (memory * 4).bytes());
    begins_ = cl::Buffer(context_->context, CL_MEM_READ_WRITE, static_cast<std::size_t>(desc_.local_experts) * 4);
    build();
  });
}

void Router::bind_sorted(cl::Kernel& kernel, cl_uint next) {
  bind<SortedArg::first>(kernel, desc_.first_expert, next);
  bind<SortedArg::local_experts>(kernel, desc_.local_experts, next);
  bind<SortedArg::capacity>(kernel, desc_.capacity, next);
  bind<SortedArg::begins>(kernel, begins_, next);
}

void Router::build() {
  const auto flag = [](bool set) { return std::string(set ? "1" : "0"); };
  ProgramBuilder& builder = *context_->builder;
  sort_ = cl::Kernel(builder.build("sort_rows.cl", {{"LANES", std::to_string(sorting_lanes_)}}), "sort_rows");
  bind<SortArg::top_k>(sort_, desc_.top_k);
  bind_sorted(sort_, kCountOf<SortArg>);
  if (desc_.logits == DType::none) return;
  Defines defines = device_defines(context_->features);
  defines["LANES"] = std::to_string(choosing_lanes_);
  defines["LOGITS_TYPE"] = kernel_number(desc_.logits);
  defines["SCORE"] = std::to_string(static_cast<std::uint32_t>(desc_.score));
  defines["HAS_BIAS"] = flag(desc_.bias != DType::none);
  defines["NORMALIZE"] = flag(desc_.normalize);
  defines["SHARED_GATE"] = flag(desc_.shared_gate);
  defines["BEST_OF_TWO"] = flag(desc_.best_of_two);
  choose_ = cl::Kernel(builder.build("choose_experts.cl", defines), "choose_experts");
  bind<ChooseArg::experts>(choose_, desc_.experts);
  bind<ChooseArg::top_k>(choose_, desc_.top_k);
  bind<ChooseArg::groups>(choose_, desc_.expert_groups);
  bind<ChooseArg::top_groups>(choose_, desc_.top_groups);
  bind<ChooseArg::factor>(choose_, desc_.scale);
  bind<ChooseArg::ld>(choose_, desc_.logits_ld);
  bind<ChooseArg::memory>(choose_, scores_);
  bind_sorted(choose_, kCountOf<ChooseArg>);
}

std::shared_ptr<backend::Event> Router::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                const backend::RouteArgs& args) {
  expect_at_most("tokens", args.tokens, "the router", desc_.tokens);
  return guarded("routing", [&]() -> std::shared_ptr<backend::Event> {
    Launcher call(context_, queue, args.wait, args.wants_event);
    const Size slots = Size(args.tokens) * desc_.top_k;
    const Size rows = args.tokens == 0      ? Size(0)
                      : desc_.capacity == 0 ? slots
                                            : Size(desc_.local_experts) * desc_.capacity;
    const auto memory = [&](const backend::Span& span, const char* what, Size count) {
      return call.memory(span, what, count * 4, null_buffer_);
    };
    const Memory ids = memory(args.ids, "ids", slots);
    const Memory counts = memory(args.matrix_rows, "matrix_rows", desc_.local_experts);
    const Memory index = memory(args.a_index, "a_index", rows), of_slots = memory(args.rows, "rows", slots);
    const std::int64_t width = desc_.experts + (desc_.shared_gate ? 1 : 0);
    const Memory logits = call.memory(args.logits, "logits",
                                      matrix_bytes(args.tokens, desc_.logits_ld, width, desc_.logits), null_buffer_);
    const bool choosing = desc_.score != Score::none;
    const Memory bias = memory(args.bias, "bias", desc_.bias != DType::none ? desc_.experts : 0);
    const Memory weights = memory(args.weights, "weights", choosing ? slots : Size(0));
    const Memory shared = memory(args.shared_weights, "shared_weights", desc_.shared_gate ? args.tokens : 0);
    own_memory_.begin(call);
    const auto bind_rows = [&](cl::Kernel& kernel, cl_uint next) {
      bind<SortedArg::slots>(kernel, slots.value(), next);
      bind_memory<SortedArg::counts_memory>(kernel, counts, 4, next);
      bind_memory<SortedArg::index_memory>(kernel, index, 4, next);
      bind_memory<SortedArg::rows_memory>(kernel, of_slots, 4, next);
    };
    if (choose_() != nullptr && args.tokens != 0) {
      bind<ChooseArg::tokens>(choose_, args.tokens);
      bind_memory<ChooseArg::logits>(choose_, logits, numerics::size_of(desc_.logits));
      bind_memory<ChooseArg::bias>(choose_, bias, 4);
      bind_memory<ChooseArg::ids>(choose_, ids, 4);
      bind_memory<ChooseArg::weights>(choose_, weights, 4);
      bind_memory<ChooseArg::shared_weights>(choose_, shared, 4);
      bind_rows(choose_, kCountOf<ChooseArg>);
      call.launch(choose_, args.tokens, 1, choosing_lanes_);
    }
    if (!choosing || args.tokens != 1) {  // Of a single token choosing has sorted the slots.
      bind_memory<SortArg::ids>(sort_, ids, 4);
      bind_rows(sort_, kCountOf<SortArg>);
      call.launch(sort_, 1, 1, sorting_lanes_);
    }
    return own_memory_.end(call);
  });
}

}  // namespace

std::shared_ptr<backend::Route> make_router(ContextPtr context, const backend::RouteDesc& desc) {
  return std::make_shared<Router>(std::move(context), desc);
}

}  // namespace ironcl::opencl

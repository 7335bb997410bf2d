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

/// Local memory of cl/sort_rows.cl, whose WIDTH is 32, for all experts; that of cl/choose_experts.cl for their
/// scores; and the most that either takes with `lanes` work-items.
Size of_experts(const backend::RouteDesc& desc, std::int64_t lanes) {
  return Size(desc.local_experts) * 4 * (1 + numerics::ceil_div(lanes, 32));
}
Size of_scores(const backend::RouteDesc& desc) { return Size(desc.experts) * 8 + Size(desc.expert_groups) * 4; }
Size local_bytes(const backend::RouteDesc& desc, std::int64_t lanes) {
  return of_experts(desc, lanes) + Size(lanes) * 16 + (desc.logits == DType::none ? Size(0) : of_scores(desc));
}

/// As many work-items as there is room for what they count, up to `most`.
std::int64_t lanes_with_room(const Features& f, const backend::RouteDesc& desc, std::uint64_t most) {
  std::int64_t lanes = lanes_of(f, most);
  while (lanes > 32 && local_bytes(desc, lanes) > f.local_bytes) lanes /= 2;
  return lanes;
}

/// Binds what is constant of SORTED_LIST of cl/arguments.cl, from argument `next` on.
void bind_sorted(cl::Kernel& kernel, const backend::RouteDesc& desc, std::int64_t lanes, cl_uint next) {
  bind<SortedArg::first>(kernel, desc.first_expert, next);
  bind<SortedArg::local_experts>(kernel, desc.local_experts, next);
  bind<SortedArg::capacity>(kernel, desc.capacity, next);
  bind<SortedArg::shared_expert>(kernel, desc.shared_expert, next);
  bind<SortedArg::of_experts>(kernel, cl::Local(of_experts(desc, lanes).bytes()), next);
}

}  // namespace

std::shared_ptr<backend::Route> Device::create_route(const backend::RouteDesc& desc) {
  const Features& f = context()->features;
  expect_countable("slots of tokens", Size(desc.tokens) * desc.rows_of_token());
  expect_countable("rows of all experts", Size(desc.local_experts) * desc.capacity);
  const bool chooses = desc.score != backend::Score::none;
  const std::int64_t choosing_lanes = lanes_with_room(f, desc, f.ptx_sm_80 ? 32 : 64),
                     slots = desc.tokens * desc.top_k;
  const std::int64_t sorting_lanes = lanes_with_room(f, desc, slots > 4096 ? 1024 : slots > 512 ? 512 : 256);
  if (const Size local = local_bytes(desc, sorting_lanes); local > f.local_bytes)
    throw backend::Error(backend::Status::unsupported,
                         "{} experts, {} of them here, take {} bytes of local memory while rows are sorted, the "
                         "device has {}",
                         desc.experts, desc.local_experts, local.value(), f.local_bytes);
  cl::Kernel choose, sort;
  guarded("building a router", [&] {
    Defines defines = device_defines(f);
    defines["LANES"] = std::to_string(sorting_lanes);
    sort = cl::Kernel(context()->builder->build("sort_rows.cl", defines), "sort_rows");
    bind<SortArg::top_k>(sort, desc.top_k);
    bind_sorted(sort, desc, sorting_lanes, kCountOf<SortArg>);
    if (desc.logits == DType::none) return;
    defines["LANES"] = std::to_string(choosing_lanes);
    defines["LOGITS_TYPE"] = kernel_number(desc.logits);
    defines["SCORE"] = std::to_string(static_cast<std::uint32_t>(desc.score));
    defines["HAS_BIAS"] = std::to_string(desc.bias != DType::none);
    defines["NORMALIZE"] = std::to_string(desc.normalize);
    defines["SHARED_GATE"] = std::to_string(desc.shared_gate);
    defines["BEST_OF_TWO"] = std::to_string(desc.best_of_two);
    choose = cl::Kernel(context()->builder->build("choose_experts.cl", defines), "choose_experts");
    bind<ChooseArg::experts>(choose, desc.experts);
    bind<ChooseArg::top_k>(choose, desc.top_k);
    bind<ChooseArg::groups>(choose, desc.expert_groups);
    bind<ChooseArg::top_groups>(choose, desc.top_groups);
    bind<ChooseArg::factor>(choose, desc.scale);
    bind<ChooseArg::ld>(choose, desc.logits_ld);
    bind<ChooseArg::scores>(choose, cl::Local(of_scores(desc).bytes()));
    bind_sorted(choose, desc, choosing_lanes, kCountOf<ChooseArg>);
  });
  auto run = [=](Call& call, const backend::RouteArgs& args) mutable {
    const bool sorts = static_cast<bool>(args.matrix_rows);  // Where the launch in place of a layer does not.
    const auto bind_rows = [&](cl::Kernel& kernel, cl_uint next) {
      bind<SortedArg::slots>(kernel, sorts ? args.tokens * desc.top_k : 0, next);
      bind_memory<SortedArg::counts_memory>(kernel, call.memory(args.matrix_rows), 4, next);
      bind_memory<SortedArg::index_memory>(kernel, call.memory(args.a_index), 4, next);
      bind_memory<SortedArg::rows_memory>(kernel, call.memory(args.rows), 4, next);
    };
    if (choose() != nullptr && args.tokens != 0) {
      bind<ChooseArg::tokens>(choose, args.tokens);
      bind_memory<ChooseArg::logits>(choose, call.memory(args.logits), numerics::size_of(desc.logits));
      bind_memory<ChooseArg::bias>(choose, call.memory(args.bias), 4);
      bind_memory<ChooseArg::ids>(choose, call.memory(args.ids), 4);
      bind_memory<ChooseArg::weights>(choose, call.memory(args.weights), 4);
      bind_memory<ChooseArg::shared_weights>(choose, call.memory(args.shared_weights), 4);
      bind_rows(choose, kCountOf<ChooseArg>);
      call.launch(choose, args.tokens, 1, choosing_lanes);
    }
    if (sorts && (!chooses || args.tokens != 1)) {  // Of a single token choosing has sorted the slots.
      bind_memory<SortArg::ids>(sort, call.memory(args.ids), 4);
      bind_rows(sort, kCountOf<SortArg>);
      call.launch(sort, 1, 1, sorting_lanes);
    }
  };
  return std::make_shared<RouteOperation>(context(), desc, "routing", nullptr, std::move(run));
}

}  // namespace ironcl::opencl

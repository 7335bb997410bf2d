// SPDX-License-Identifier: Apache-2.0
// The C door of layers of experts (checkpoint.h). Part of libironcl. Next door: c_api.cpp (single matrices).
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/c_checkpoint.h"
#include "host/layer/experts.h"
#include "host/layer/selection.h"
#include "host/registry/complete_table.h"

namespace layer = ironcl::layer;
using ironcl::checkpoint::ExpertsLayer;
using ironcl::numerics::DType;
using namespace ironcl::layer::c_api;

struct ironcl_experts_t {
  ironcl_experts_t(const ironcl_plugin& api, ironcl_device handle, const layer::ExpertsSource& source,
                   const layer::ExpertsChoices& choices)
      : table(ironcl::registry::complete_table(api).table),
        device(&table, handle, table.name),
        layer(device, source, choices) {}
  ironcl_experts_t(const ironcl_experts_t&) = delete;
  ironcl_experts_t& operator=(const ironcl_experts_t&) = delete;
  /// The caller's may be a plugin's own: shorter, or with slots that are NULL.
  ironcl_plugin table;
  ironcl::Device device;
  layer::Experts layer;
};

namespace {

/// Throws unless a table says enough of itself to be copied.
void check_table(const ironcl_plugin& api) {
  if (api.struct_size < offsetof(ironcl_plugin, extensions) || api.name == nullptr)
    invalid("api is not a plugin's table: its struct_size is too small, or it has no name");
  if (api.abi_major != IRONCL_ABI_MAJOR)
    refuse(IRONCL_INCOMPATIBLE, "api is a table of ABI {}, this library has ABI {}", api.abi_major, IRONCL_ABI_MAJOR);
}

/// A queue that stays the caller's.
class BorrowedQueue : public ironcl::Queue {
 public:
  BorrowedQueue(const ironcl::Device& device, ironcl_queue queue) {
    owner_ = device.owner();
    api_ = &device.api();
    handle_ = queue;
  }
  BorrowedQueue(const BorrowedQueue&) = delete;
  BorrowedQueue& operator=(const BorrowedQueue&) = delete;
  ~BorrowedQueue() { handle_ = nullptr; }
};

/// An event that becomes the caller's.
class HandedOver : public ironcl::Event {
 public:
  explicit HandedOver(ironcl::Event&& event) : Event(std::move(event)) {}
  ironcl_event release() { return std::exchange(handle_, nullptr); }
};

}  // namespace

extern "C" {

uint32_t ironcl_checkpoint_experts_count(ironcl_checkpoint checkpoint) {
  return checkpoint == nullptr ? 0 : static_cast<uint32_t>(checkpoint->checkpoint.experts().size());
}

ironcl_status ironcl_checkpoint_experts_info(ironcl_checkpoint checkpoint, uint32_t index,
                                             ironcl_experts_info* out_info, ironcl_error* error) {
  return guarded(error, [&] {
    require("checkpoint or out_info", checkpoint, out_info);
    const auto& all = checkpoint->checkpoint.experts();
    if (index >= all.size()) invalid("layer of experts {} does not exist; there are {}", index, all.size());
    const ExpertsLayer& one = all[index];
    ironcl_experts_info info{};
    info.top_k = static_cast<std::uint32_t>(one.routing.top_k);
    info.experts = static_cast<std::uint32_t>(one.routing.experts);
    info.shared = one.shared ? 1 : 0;
    info.hidden = one.hidden;
    info.width = one.width;
    info.name = one.name.c_str();
    info.problem = one.problem ? one.problem->what() : "";
    info.bytes = one.bytes;
    check_out(out_info, "ironcl_experts_info");
    write_struct(out_info, info);
  });
}

ironcl_status ironcl_experts_create(ironcl_checkpoint checkpoint, const char* name, const ironcl_plugin* api,
                                    ironcl_device device, const ironcl_experts_choices* choices,
                                    ironcl_experts* out_experts, ironcl_error* error) {
  return guarded(error, [&] {
    require("checkpoint, name, api, device, choices or out_experts", checkpoint, name, api, device, choices,
            out_experts);
    const auto given = read_struct(choices, "ironcl_experts_choices", IRONCL_EXPERTS_WEIGHT_ONLY);
    check_table(*api);
    const layer::ExpertsChoices chosen{.tokens = given.tokens,
                                       .x = float_type("x_dtype", given.x_dtype, DType::bf16),
                                       .out = float_type("y_dtype", given.y_dtype, DType::bf16),
                                       .weakest_accuracy = accuracy_class(given.weakest_accuracy)};
    const ExpertsLayer& found = layer::find_experts(checkpoint->checkpoint, name);
    const auto source =
        layer::source_of(checkpoint->checkpoint, found, (given.flags & IRONCL_EXPERTS_WEIGHT_ONLY) == 0);
    const std::int64_t experts = source->form().routing.experts, first = given.first_expert;
    if (first + given.local_experts > experts || (given.local_experts == 0 && first != 0))
      invalid("{} experts from {} on are asked for, of {}", given.local_experts, first, experts);
    const layer::LocalExperts local(*source, first, given.local_experts == 0 ? experts : given.local_experts,
                                    first == 0);
    *out_experts = std::make_unique<ironcl_experts_t>(*api, device, local, chosen).release();
  });
}

void ironcl_experts_destroy(ironcl_experts experts) { delete experts; }

ironcl_status ironcl_experts_enqueue(ironcl_experts experts, ironcl_queue queue, const ironcl_experts_args* args,
                                     ironcl_event* out_event, ironcl_error* error) {
  return guarded(error, [&] {
    require("experts, queue or args", experts, queue, args);
    const auto given = read_struct(args, "ironcl_experts_args");
    if (given.routed > IRONCL_ROUTED_BY_CALLER) invalid("routed is {}; IRONCL_ROUTED_BY_* are known", given.routed);
    if (given.wait_count != 0 && given.wait == nullptr) invalid("wait is NULL, but wait_count is not 0");
    BorrowedQueue borrowed(experts->device, queue);
    HandedOver event(experts->layer.enqueue(borrowed, given));
    if (out_event != nullptr) *out_event = event.release();
  });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Entries about the steps of a layer of experts: route, activate, combine. Next door: entries_gemm.cpp (plans),
// entries.h.
#include "plugins/adapter/entries.h"
#include "plugins/adapter/guard.h"
#include "plugins/adapter/handles.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter::entries {

namespace {

/// Runs `command` on the backend's queue and hands its event out, where one is wanted.
template <class Command>
void enqueue(const ironcl_queue_t& queue, ironcl_event* out_event, Command&& command) {
  // Before the command: once it is queued, nothing may fail.
  auto handle = out_event == nullptr ? nullptr : std::make_unique<ironcl_event_t>();
  auto event = command();
  if (handle == nullptr) return;
  if (event == nullptr) refuse(backend::Status::internal, "the backend made no event");
  handle->device = queue.device;
  handle->event = std::move(event);
  *out_event = handle.release();
}

}  // namespace

ironcl_status route_create(ironcl_device device, const ironcl_route_desc* desc, ironcl_route* out_route,
                           ironcl_error* error) noexcept {
  return guard("route_create", error, [&] {
    const auto& state = state_of(device);
    require(out_route, "out_route");
    auto handle = std::make_unique<ironcl_route_t>();
    handle->device = state;
    handle->desc = route_desc(desc);
    handle->route = state->device->create_route(handle->desc);
    if (handle->route == nullptr) refuse(backend::Status::internal, "the backend made no router");
    *out_route = handle.release();
  });
}

ironcl_status route_enqueue(ironcl_route route, ironcl_queue queue, const ironcl_route_args* args,
                            ironcl_event* out_event, ironcl_error* error) noexcept {
  return guard("route_enqueue", error, [&] {
    usable(route, "route");
    usable(queue, "queue");
    const backend::RouteArgs known = route_args(args, *route, *queue);
    enqueue(*queue, out_event, [&] { return route->route->enqueue(queue->queue, known); });
  });
}

void route_destroy(ironcl_route route) noexcept { destroy(route); }

ironcl_status activate_create(ironcl_device device, const ironcl_activate_desc* desc, ironcl_activate* out_activate,
                              ironcl_error* error) noexcept {
  return guard("activate_create", error, [&] {
    const auto& state = state_of(device);
    require(out_activate, "out_activate");
    auto handle = std::make_unique<ironcl_activate_t>();
    handle->device = state;
    handle->desc = activate_desc(desc);
    handle->activate = state->device->create_activate(handle->desc);
    if (handle->activate == nullptr) refuse(backend::Status::internal, "the backend made no activation");
    *out_activate = handle.release();
  });
}

ironcl_status activate_enqueue(ironcl_activate activate, ironcl_queue queue, const ironcl_activate_args* args,
                               ironcl_event* out_event, ironcl_error* error) noexcept {
  return guard("activate_enqueue", error, [&] {
    usable(activate, "activate");
    usable(queue, "queue");
    const backend::ActivateArgs known = activate_args(args, *activate, *queue);
    enqueue(*queue, out_event, [&] { return activate->activate->enqueue(queue->queue, known); });
  });
}

void activate_destroy(ironcl_activate activate) noexcept { destroy(activate); }

ironcl_status combine_create(ironcl_device device, const ironcl_combine_desc* desc, ironcl_combine* out_combine,
                             ironcl_error* error) noexcept {
  return guard("combine_create", error, [&] {
    const auto& state = state_of(device);
    require(out_combine, "out_combine");
    auto handle = std::make_unique<ironcl_combine_t>();
    handle->device = state;
    handle->desc = combine_desc(desc);
    handle->combine = state->device->create_combine(handle->desc);
    if (handle->combine == nullptr) refuse(backend::Status::internal, "the backend made no combination");
    *out_combine = handle.release();
  });
}

ironcl_status combine_enqueue(ironcl_combine combine, ironcl_queue queue, const ironcl_combine_args* args,
                              ironcl_event* out_event, ironcl_error* error) noexcept {
  return guard("combine_enqueue", error, [&] {
    usable(combine, "combine");
    usable(queue, "queue");
    const backend::CombineArgs known = combine_args(args, *combine, *queue);
    enqueue(*queue, out_event, [&] { return combine->combine->enqueue(queue->queue, known); });
  });
}

void combine_destroy(ironcl_combine combine) noexcept { destroy(combine); }

}  // namespace ironcl::adapter::entries

// SPDX-License-Identifier: Apache-2.0
// Entries about quantisers. Next door: entries_gemm.cpp (plans), entries.h.
#include "plugins/adapter/entries.h"
#include "plugins/adapter/guard.h"
#include "plugins/adapter/handles.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter::entries {

ironcl_status quantize_create(ironcl_device device, const ironcl_quantize_desc* desc, ironcl_quantize* out_quantize,
                              ironcl_error* error) noexcept {
  return guard("quantize_create", error, [&] {
    const auto& state = state_of(device);
    require(out_quantize, "out_quantize");
    auto handle = std::make_unique<ironcl_quantize_t>();
    handle->device = state;
    handle->desc = quantize_desc(desc);
    handle->quantize = state->device->create_quantize(handle->desc);
    if (handle->quantize == nullptr) refuse(backend::Status::internal, "the backend made no quantiser");
    *out_quantize = handle.release();
  });
}

ironcl_status quantize_enqueue(ironcl_quantize quantize, ironcl_queue queue, const ironcl_quantize_args* args,
                               ironcl_event* out_event, ironcl_error* error) noexcept {
  return guard("quantize_enqueue", error, [&] {
    usable(quantize, "quantize");
    usable(queue, "queue");
    const backend::QuantizeArgs known = quantize_args(args, *quantize, *queue);
    // Before the command: once it is queued, nothing may fail.
    auto handle = out_event == nullptr ? nullptr : std::make_unique<ironcl_event_t>();
    auto event = quantize->quantize->enqueue(queue->queue, known);
    if (handle == nullptr) return;
    if (event == nullptr) refuse(backend::Status::internal, "the backend made no event");
    handle->device = queue->device;
    handle->event = std::move(event);
    *out_event = handle.release();
  });
}

void quantize_destroy(ironcl_quantize quantize) noexcept { destroy(quantize); }

}  // namespace ironcl::adapter::entries

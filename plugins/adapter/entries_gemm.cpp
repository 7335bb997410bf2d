// SPDX-License-Identifier: Apache-2.0
// Entries about plans. Next door: entries_objects.cpp, entries.h.
#include "plugins/adapter/entries.h"
#include "plugins/adapter/guard.h"
#include "plugins/adapter/handles.h"
#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter::entries {

ironcl_status gemm_create(ironcl_device device, const ironcl_gemm_desc* desc, ironcl_gemm* out_gemm,
                          ironcl_error* error) noexcept {
  return guard("gemm_create", error, [&] {
    const auto& state = state_of(device);
    require(out_gemm, "out_gemm");
    auto handle = std::make_unique<ironcl_gemm_t>();
    handle->device = state;
    handle->desc = gemm_desc(desc);
    // The same question as supports(), so that both give the same answer with the same text.
    const backend::Support support = state->device->supports(handle->desc);
    if (support.reason != backend::Reason::none) refuse(backend::Status::unsupported, support.text);
    handle->gemm = state->device->create_gemm(handle->desc);
    if (handle->gemm == nullptr) refuse(backend::Status::internal, "the backend made no plan");
    handle->workspace_bytes = handle->gemm->info().workspace_bytes;
    *out_gemm = handle.release();
  });
}

ironcl_status gemm_info(ironcl_gemm gemm, ironcl_gemm_info* out_info, ironcl_error* error) noexcept {
  return guard("gemm_info", error, [&] {
    usable(gemm, "gemm");
    check_out(out_info, "gemm_info");
    const backend::GemmInfo info = gemm->gemm->info();
    ironcl_gemm_info full{};
    full.accuracy_class = static_cast<std::uint32_t>(info.accuracy);
    full.accumulation_length = info.accumulation_length;
    full.workspace_bytes = info.workspace_bytes;
    copy_text(full.variant, info.variant);
    copy_text(full.config, info.config);
    write_struct(out_info, full);
  });
}

ironcl_status gemm_enqueue(ironcl_gemm gemm, ironcl_queue queue, const ironcl_gemm_args* args,
                           ironcl_event* out_event, ironcl_error* error) noexcept {
  return guard("gemm_enqueue", error, [&] {
    usable(gemm, "gemm");
    usable(queue, "queue");
    const backend::GemmArgs known = gemm_args(args, *gemm, *queue);
    // Before the command: once it is queued, nothing may fail.
    auto handle = out_event == nullptr ? nullptr : std::make_unique<ironcl_event_t>();
    auto event = gemm->gemm->enqueue(queue->queue, known);
    if (handle == nullptr) return;
    if (event == nullptr) refuse(backend::Status::internal, "the backend made no event");
    handle->device = queue->device;
    handle->event = std::move(event);
    *out_event = handle.release();
  });
}

void gemm_destroy(ironcl_gemm gemm) noexcept { destroy(gemm); }

}  // namespace ironcl::adapter::entries

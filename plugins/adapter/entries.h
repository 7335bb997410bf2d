// SPDX-License-Identifier: Apache-2.0
// The entries of the table that need no instance: a handle says everything. One function a slot, same name, and the
// contract of that slot in ironcl/plugin.h. Next door: plugin_definition.h (puts them into a table).
#pragma once

#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::adapter::entries {

ironcl_status device_props(ironcl_device device, ironcl_device_props* out_props, ironcl_error* error) noexcept;
ironcl_status device_query(ironcl_device device, const char* key, const void* desc, char* out_text, uint64_t capacity,
                           uint64_t* out_size, ironcl_error* error) noexcept;

ironcl_status queue_create(ironcl_device device, uint32_t flags, ironcl_queue* out_queue,
                           ironcl_error* error) noexcept;
ironcl_status queue_finish(ironcl_queue queue, ironcl_error* error) noexcept;
ironcl_status queue_wait(ironcl_queue queue, ironcl_event event, ironcl_error* error) noexcept;
void queue_destroy(ironcl_queue queue) noexcept;

ironcl_status buffer_create(ironcl_device device, const ironcl_buffer_desc* desc, ironcl_buffer* out_buffer,
                            ironcl_error* error) noexcept;
void buffer_destroy(ironcl_buffer buffer) noexcept;

ironcl_status write(ironcl_queue queue, ironcl_span dst, const void* src, uint32_t host_semantics,
                    ironcl_event* out_event, ironcl_error* error) noexcept;
ironcl_status read(ironcl_queue queue, ironcl_span src, void* dst, ironcl_event* out_event,
                   ironcl_error* error) noexcept;

ironcl_status weights_prepare(ironcl_device device, const ironcl_weights_desc* desc, ironcl_weights* out_weights,
                              ironcl_error* error) noexcept;
ironcl_status weights_export(ironcl_weights weights, void* data, uint64_t data_bytes, void* scales,
                             uint64_t scale_bytes, ironcl_error* error) noexcept;
ironcl_status weights_info(ironcl_weights weights, ironcl_weights_info* out_info, ironcl_error* error) noexcept;
void weights_destroy(ironcl_weights weights) noexcept;

ironcl_status supports(ironcl_device device, const void* desc, ironcl_support* out_support,
                       ironcl_error* error) noexcept;
ironcl_status op_create(ironcl_device device, const void* desc, ironcl_op* out_op, ironcl_error* error) noexcept;
ironcl_status op_info(ironcl_op op, ironcl_op_info* out_info, ironcl_error* error) noexcept;
ironcl_status op_enqueue(ironcl_op op, ironcl_queue queue, const void* args, ironcl_event* out_event,
                         ironcl_error* error) noexcept;
void op_destroy(ironcl_op op) noexcept;

ironcl_status event_wait(ironcl_event event, uint64_t timeout_ns, ironcl_error* error) noexcept;
ironcl_status event_profile(ironcl_event event, ironcl_event_profile* out_profile, ironcl_error* error) noexcept;
void event_destroy(ironcl_event event) noexcept;

}  // namespace ironcl::adapter::entries

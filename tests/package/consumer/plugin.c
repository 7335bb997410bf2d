/* SPDX-License-Identifier: Apache-2.0
 * A plugin of somebody else: it has no device, and says so. */
#include <ironcl/plugin.h>

static ironcl_status enumerate(ironcl_device* out_devices, uint32_t capacity, uint32_t* out_count,
                               ironcl_error* error) {
  (void)out_devices;
  (void)capacity;
  (void)error;
  *out_count = 0;
  return IRONCL_OK;
}

static ironcl_status device_props(ironcl_device device, ironcl_device_props* out_props, ironcl_error* error) {
  (void)device;
  (void)out_props;
  (void)error;
  return IRONCL_INVALID_ARGUMENT;
}

IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor) {
  static const ironcl_plugin table = {.struct_size = sizeof table,
                                      .abi_major = IRONCL_ABI_MAJOR,
                                      .abi_minor = IRONCL_ABI_MINOR,
                                      .name = "mine",
                                      .build_id = "mine 1",
                                      .enumerate = enumerate,
                                      .device_props = device_props};
  (void)host_minor;
  return host_major == IRONCL_ABI_MAJOR ? &table : 0;
}

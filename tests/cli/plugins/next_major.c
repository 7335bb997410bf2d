/* SPDX-License-Identifier: Apache-2.0
 * A plugin of the next major version: only the six leading fields of its table mean anything to this host. */
#include "host/include/ironcl/plugin.h"

static const ironcl_plugin kTable = {
    .struct_size = sizeof(ironcl_plugin),
    .abi_major = IRONCL_ABI_MAJOR + 1u,
    .abi_minor = 0,
    .name = "next_major",
    .build_id = "test",
};

IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor) {
  (void)host_major;
  (void)host_minor;
  return &kTable;
}

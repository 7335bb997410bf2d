/* SPDX-License-Identifier: Apache-2.0
 * Looks like a plugin, but needs a function that nobody has: RTLD_NOW refuses it. */
#include "host/include/ironcl/plugin.h"

const ironcl_plugin* a_function_that_nobody_has(void);
IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor) {
  (void)host_major;
  (void)host_minor;
  return a_function_that_nobody_has();
}

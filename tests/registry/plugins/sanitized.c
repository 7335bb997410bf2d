/* SPDX-License-Identifier: Apache-2.0
 * Has a sanitizer's name in it as a library built with it has; opening such a library would end the process. */
#include <stdlib.h>

#include "host/include/ironcl/plugin.h"

const char kNames[] = "\0__msan_init\0";

__attribute__((constructor)) static void end_the_process(void) { _Exit(99); }

IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor) {
  return host_major + host_minor == 0 ? (const ironcl_plugin*)kNames : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * The C API from C: counts plugins; the exit status says whether there is any, and whether each has a name. */
#include <ironcl/ironcl.h>
#include <stdio.h>

int main(void) {
  ironcl_registry registry = NULL;
  ironcl_error error = {.struct_size = sizeof error};
  if (ironcl_registry_create(NULL, &registry, &error) != IRONCL_OK ||
      ironcl_registry_discover(registry, &error) != IRONCL_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  const uint32_t plugins = ironcl_registry_plugin_count(registry);
  for (uint32_t i = 0; i < plugins; ++i) {
    ironcl_plugin_info info = {.struct_size = sizeof info};
    if (ironcl_registry_plugin_info(registry, i, &info, &error) != IRONCL_OK || !info.name[0]) return 1;
    printf("%s: %u devices\n", info.name, info.device_count);
  }
  ironcl_registry_destroy(registry);
  return plugins > 0 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0
 * plugin.h alone as C11. */
#include <ironcl/plugin.h>

int plugin_h_alone(void);
int plugin_h_alone(void) { return (int)sizeof(ironcl_plugin); }

/* SPDX-License-Identifier: Apache-2.0
 * Nothing but the headers, as C and as C++ (CMakeLists.txt gives the language and the warnings). */
#include "../../host/include/ironcl/plugin_ops.h"

/* A translation unit is not empty, and the sizes that the headline of docs/abi.md gives. */
typedef char ironcl_sizes[sizeof(ironcl_plugin) == 248 && sizeof(ironcl_error) == 512 ? 1 : -1];

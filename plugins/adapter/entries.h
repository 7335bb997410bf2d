// SPDX-License-Identifier: Apache-2.0
// The functions of the table: one per slot, with its name and type, and its contract in ironcl/plugin.h. Next door:
// plugin_definition.h (puts them into a table).
#pragma once

#include <type_traits>

#include "host/include/ironcl/fields.h"
#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::adapter::entries {

#define IRONCL_ENTRY(slot) \
  std::remove_pointer_t<decltype(ironcl_plugin::slot)> slot;  // NOLINT(bugprone-macro-parentheses): a declarator
IRONCL_FOR_EACH_SLOT(IRONCL_ENTRY)
#undef IRONCL_ENTRY

}  // namespace ironcl::adapter::entries

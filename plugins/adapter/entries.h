// SPDX-License-Identifier: Apache-2.0
// The functions of the table: one per slot, with its name and parameters, and its contract in ironcl/plugin.h. What
// they throw becomes a status in Entry. Next door: plugin_definition.h (puts them into a table).
#pragma once

#include "backends/interface.h"
#include "host/boundary/structs.h"
#include "host/include/ironcl/fields.h"

namespace ironcl::adapter {

/// `function` as the slot that has its parameters; of those that give a status the last one is the error.
template <class Slot>
struct Entry;
template <class Result, class... Args>
struct Entry<Result (*)(Args...)> {
  using Function = void(Args...);
  template <boundary::SlotName Name, Function* function>
  static Result call(Args... args) noexcept {
    if constexpr (std::is_void_v<Result>)
      return function(args...);
    else
      return boundary::guard(Name.text, boundary::error_of(args...), [&] {
        try {
          function(args...);
        } catch (const backend::Error& thrown) {
          throw boundary::Refused(static_cast<ironcl_status>(thrown.status()), thrown.what(), thrown.native_code());
        }
      });
  }
};

namespace entries {

#define IRONCL_ENTRY(slot) Entry<decltype(ironcl_plugin::slot)>::Function slot;
IRONCL_FOR_EACH_SLOT(IRONCL_ENTRY)
#undef IRONCL_ENTRY

}  // namespace entries
}  // namespace ironcl::adapter

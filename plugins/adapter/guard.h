// SPDX-License-Identifier: Apache-2.0
// The wall of the boundary: runs the body of an entry and turns whatever it throws into a status and an error text.
// Next door: structs.h (structs that cross), entries.h (the entries).
#pragma once

#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "backends/interface.h"
#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::adapter {

/// Fills *error (may be null): min(struct_size, known) bytes, struct_size left alone, the text cut at a whole UTF-8
/// character. Returns `status`. Allocates nothing.
ironcl_status fail(ironcl_error* error, ironcl_status status, const char* message, std::int32_t native_code) noexcept;

/// INTERNAL with the slot's name before the text: what was thrown there is a bug of the backend.
ironcl_status fail_internal(ironcl_error* error, const char* slot, const char* what) noexcept;

/// A backend's own error; a status that is no failure (ok) or is unknown becomes INTERNAL.
ironcl_status fail_with(ironcl_error* error, const char* slot, const backend::Error& thrown) noexcept;

/// Runs `body`, which returns nothing or an ironcl_status. Nothing leaves: bad_alloc is OUT_OF_HOST_MEMORY,
/// backend::Error its own status, anything else INTERNAL.
template <class Body>
ironcl_status guard(const char* slot, ironcl_error* error, Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      std::forward<Body>(body)();
      return IRONCL_OK;
    } else {
      return std::forward<Body>(body)();
    }
  } catch (const backend::Error& thrown) {
    return fail_with(error, slot, thrown);
  } catch (const std::bad_alloc&) {
    return fail(error, IRONCL_OUT_OF_HOST_MEMORY, "the host is out of memory; free some and try again", 0);
  } catch (const std::exception& thrown) {
    return fail_internal(error, slot, thrown.what());
  } catch (...) {
    return fail_internal(error, slot, "something other than a std::exception was thrown");
  }
}

}  // namespace ironcl::adapter

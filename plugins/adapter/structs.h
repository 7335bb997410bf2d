// SPDX-License-Identifier: Apache-2.0
// The door of a plugin: host/boundary/structs.h, with what backends throw. Next door: validate.h (what is in
// structs), entries.h (the entries).
#pragma once

#include <utility>

#include "backends/interface.h"
#include "host/boundary/structs.h"

namespace ironcl::adapter {

using namespace boundary;

/// boundary::guard, with a backend's own errors.
template <class Body>
ironcl_status guard(const char* slot, ironcl_error* error, Body&& body) noexcept {
  return boundary::guard(slot, error, [&] {
    try {
      return body();
    } catch (const backend::Error& thrown) {
      throw Refused(static_cast<ironcl_status>(thrown.status()), thrown.what(), thrown.native_code());
    }
  });
}

}  // namespace ironcl::adapter

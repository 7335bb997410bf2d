// SPDX-License-Identifier: Apache-2.0
// A call into a plugin that may break the rules: what it throws becomes INTERNAL. Next door: shared_plugin.h, load.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "host/registry/text.h"

namespace ironcl::registry {

/// function(ironcl_error*) -> ironcl_status. The result has the plugin's message, or `what` where it gave none.
template <class Function>
Result call_plugin(const char* what, Function&& function) {
  ironcl_error error{};
  error.struct_size = sizeof error;
  ironcl_status status = IRONCL_OK;
  try {
    status = std::forward<Function>(function)(&error);
  } catch (const std::exception& thrown) {
    return {IRONCL_INTERNAL, std::string(what) + " threw an exception, which a plugin must not: " + thrown.what()};
  } catch (...) {
    return {IRONCL_INTERNAL, std::string(what) + " threw something, which a plugin must not"};
  }
  if (status == IRONCL_OK) return {};
  error.message[sizeof error.message - 1] = '\0';
  return {status, error.message[0] != '\0' ? error.message : std::string(what) + " failed and gave no message",
          error.native_code};
}

}  // namespace ironcl::registry

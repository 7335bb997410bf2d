// SPDX-License-Identifier: Apache-2.0
// Structs of the C API as a caller makes them, and its statuses in words.
#pragma once

#include <dlfcn.h>

#include <array>
#include <stdexcept>
#include <string>

#include "host/include/ironcl/handles.hpp"

namespace ironcl {

using detail::sized;

/// Zeros, but for the size in the chain item that the struct begins with.
template <class Struct>
Struct chained() {
  Struct value{};
  value.chain.struct_size = sizeof value;
  return value;
}

/// "INVALID_ARGUMENT" and so on; "status 42" for a value that plugin.h does not have.
inline std::string status_name(ironcl_status status) {
  constexpr std::array kNames{"OK",
                              "INVALID_ARGUMENT",
                              "UNSUPPORTED",
                              "UNIMPLEMENTED",
                              "UNAVAILABLE",
                              "OUT_OF_HOST_MEMORY",
                              "OUT_OF_DEVICE_MEMORY",
                              "BUILD_FAILED",
                              "DEVICE_LOST",
                              "TIMEOUT",
                              "INCOMPATIBLE",
                              "INTERNAL"};
  return status < kNames.size() ? kNames[status] : "status " + std::to_string(status);
}

/// The table of a plugin's file, which stays open. Throws std::runtime_error.
inline const ironcl_plugin& open_plugin(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(file + ": " + dlerror());
  const auto query = reinterpret_cast<ironcl_plugin_query_fn>(dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL));
  if (query == nullptr) throw std::runtime_error(file + ": no plugin of IronCL");
  const ironcl_plugin* const table = query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  if (table == nullptr || table->struct_size < sizeof(ironcl_plugin)) throw std::runtime_error(file + ": too old");
  return *table;
}

}  // namespace ironcl

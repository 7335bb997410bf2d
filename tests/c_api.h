// SPDX-License-Identifier: Apache-2.0
// Structs of the C API as a caller makes them, and its statuses in words.
#pragma once

#include <array>
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

}  // namespace ironcl

// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: a status that is not OK as an exception, and structs with their size. Next door: handles.hpp.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "ironcl.h"

namespace ironcl {

/// A status that is not OK, with the message and, where there is one, the driver's own code.
class Error : public std::runtime_error {
 public:
  Error(ironcl_status status, std::int32_t native_code, const std::string& message)
      : std::runtime_error(std::string(ironcl_status_name(status)) + ": " + message),
        status_(status),
        native_code_(native_code) {}
  ironcl_status status() const noexcept { return status_; }
  std::int32_t native_code() const noexcept { return native_code_; }

 private:
  ironcl_status status_;
  std::int32_t native_code_;
};

namespace detail {

inline ironcl_error make_error() {
  ironcl_error error{};
  error.struct_size = sizeof error;
  return error;
}

/// Calls function(args..., &error) and throws where the status is not OK.
template <class F, class... Args>
void check(F&& function, Args&&... args) {
  ironcl_error error = make_error();
  const ironcl_status status = function(std::forward<Args>(args)..., &error);
  if (status != IRONCL_OK) throw Error(status, error.native_code, error.message[0] ? error.message : "no message");
}

/// A zeroed struct of the C API with its struct_size set.
template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof value;
  return value;
}

}  // namespace detail

}  // namespace ironcl

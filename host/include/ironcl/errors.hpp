// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: a status that is not OK as an exception, and structs with their size. Next door: handles.hpp.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "ironcl.h"
#include "plugin_ops.h"

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

template <class Struct, class... Any>
inline constexpr bool kIsOneOf = (std::is_same_v<Struct, Any> || ...);

/// The kind of an operation's description or arguments; 0: the struct has none.
template <class Struct>
inline constexpr std::uint32_t kKind =
    kIsOneOf<Struct, ironcl_gemm_desc, ironcl_gemm_args>           ? IRONCL_OP_GEMM
    : kIsOneOf<Struct, ironcl_quantize_desc, ironcl_quantize_args> ? IRONCL_OP_QUANTIZE
    : kIsOneOf<Struct, ironcl_route_desc, ironcl_route_args>       ? IRONCL_OP_ROUTE
    : kIsOneOf<Struct, ironcl_activate_desc, ironcl_activate_args> ? IRONCL_OP_ACTIVATE
    : kIsOneOf<Struct, ironcl_combine_desc, ironcl_combine_args>   ? IRONCL_OP_COMBINE
                                                                   : 0;

/// A zeroed struct of the C API with its struct_size and kind set.
template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof value;
  if constexpr (kKind<Struct> != 0) value.kind = kKind<Struct>;
  return value;
}

}  // namespace detail

}  // namespace ironcl

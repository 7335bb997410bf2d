// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: a status that is not OK as an exception, structs with their size, owners of a plugin's objects.
// Next door: problem.hpp, device.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
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
  /// Whether the device will not or cannot do it, and nothing failed: UNSUPPORTED, UNIMPLEMENTED.
  bool is_refusal() const noexcept { return status_ == IRONCL_UNSUPPORTED || status_ == IRONCL_UNIMPLEMENTED; }

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
    : kIsOneOf<Struct, ironcl_sequence_desc, ironcl_sequence_args> ? IRONCL_OP_SEQUENCE
                                                                   : 0;

/// A zeroed struct of the C API with its struct_size and kind set.
template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof value;
  if constexpr (kKind<Struct> != 0) value.kind = kKind<Struct>;
  return value;
}

/// Keeps the plugins of a registry loaded; shared by every object made with one of its devices.
struct RegistryOwner {
  ironcl_registry registry = nullptr;
  std::function<void(std::string_view)> log;
  RegistryOwner() = default;
  RegistryOwner(const RegistryOwner&) = delete;
  RegistryOwner& operator=(const RegistryOwner&) = delete;
  ~RegistryOwner() { ironcl_registry_destroy(registry); }
};

/// A pointer to a plugin's table. That of an empty object (default-made, reset or moved from) throws where it is
/// used.
class Table {
 public:
  Table(const ironcl_plugin* table = nullptr) noexcept : table_(table) {}
  const ironcl_plugin& operator*() const {
    if (table_ == nullptr)
      throw Error(IRONCL_INVALID_ARGUMENT, 0, "an object is used that is empty: default-made, reset or moved from");
    return *table_;
  }
  const ironcl_plugin* operator->() const { return &**this; }
  const ironcl_plugin* get() const noexcept { return table_; }

 private:
  const ironcl_plugin* table_;
};

/// The one owner of a plugin's object: `Destroy` is the slot of the table that releases it.
template <class Handle, void (*ironcl_plugin::*Destroy)(Handle)>
class Ref {
 public:
  Ref() = default;
  Ref(std::shared_ptr<RegistryOwner> owner, const ironcl_plugin* api, Handle handle) noexcept
      : owner_(std::move(owner)), api_(api), handle_(handle) {}
  Ref(Ref&& other) noexcept
      : owner_(std::move(other.owner_)),
        api_(std::exchange(other.api_, nullptr)),
        handle_(std::exchange(other.handle_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::move(other.owner_);
      api_ = std::exchange(other.api_, nullptr);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Ref() { reset(); }

  /// Releases the object now; legal while work still uses it.
  void reset() noexcept {
    if (handle_) (api_.get()->*Destroy)(std::exchange(handle_, nullptr));
    api_ = nullptr;
    owner_.reset();
  }
  /// Gives the object to the caller, who releases it with the table's function.
  Handle release() noexcept { return std::exchange(handle_, nullptr); }
  Handle handle() const noexcept { return handle_; }
  const ironcl_plugin& api() const { return *api_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 protected:
  std::shared_ptr<RegistryOwner> owner_;
  Table api_;
  Handle handle_ = nullptr;
};

}  // namespace detail

}  // namespace ironcl

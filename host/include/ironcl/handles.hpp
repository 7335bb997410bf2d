// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: owners of a plugin's objects. Next door: errors.hpp.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "errors.hpp"

namespace ironcl {

namespace detail {

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

// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: devices. Next door: registry.hpp (finds them), problem.hpp (what they run).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "problem.hpp"

namespace ironcl {

/// A device of a plugin: a reference, cheap to copy.
class Device {
 public:
  Device() = default;
  // Copies, no moves: a device that was moved from would have a table and a handle, and not what keeps them.
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;
  Device(std::shared_ptr<detail::RegistryOwner> owner, const ironcl_device_info& info)
      : owner_(std::move(owner)),
        api_(info.api),
        handle_(info.handle),
        uri_(info.uri),
        plugin_(info.plugin),
        props_(*info.props) {}
  /// A device of a plugin that the caller opened without a registry. `api` must have no NULL slot and outlive
  /// everything made here.
  Device(const ironcl_plugin* api, ironcl_device handle, std::string uri = {})
      : api_(api),
        handle_(handle),
        uri_(std::move(uri)),
        plugin_(api->name),
        props_(detail::sized<ironcl_device_props>()) {
    detail::check(api_->device_props, handle_, &props_);
  }

  /// The same of a plugin that `owner` keeps loaded.
  Device(std::shared_ptr<detail::RegistryOwner> owner, const ironcl_plugin* api, ironcl_device handle,
         std::string uri)
      : Device(api, handle, std::move(uri)) {
    owner_ = std::move(owner);
  }

  const std::string& uri() const { return uri_; }
  const std::string& plugin() const { return plugin_; }
  const ironcl_device_props& props() const { return props_; }
  std::string name() const { return props_.name; }
  const ironcl_plugin& api() const { return *api_; }
  ironcl_device handle() const { return handle_; }
  const std::shared_ptr<detail::RegistryOwner>& owner() const { return owner_; }
  explicit operator bool() const { return handle_ != nullptr; }

  /// Whether, and how, the device runs an operation of this description.
  template <class Description = GemmDesc>
  Support supports(const Description& desc) const {
    auto answer = detail::sized<ironcl_support>();
    detail::check(api_->supports, handle_, detail::pointer_to(desc.to_c()), &answer);
    return {answer.reason,      answer.accuracy_class,  answer.estimate_kind,
            answer.estimate_ns, answer.workspace_bytes, answer.text};
  }

  /// device_query as text: "features", "options", "variants" and a backend's own keys.
  std::string query(const std::string& key) const { return query_with(key, nullptr); }
  std::string query(const std::string& key, const GemmDesc& desc) const {
    return query_with(key, detail::CGemmDesc(desc).get());
  }

 private:
  std::string query_with(const std::string& key, const ironcl_gemm_desc* desc) const {
    std::uint64_t size = 0;
    detail::check(api_->device_query, handle_, key.c_str(), desc, nullptr, std::uint64_t{0}, &size);
    std::string text;
    while (size > text.size()) {  // an answer may have grown between two calls
      text.assign(size, '\0');    // with the NUL
      detail::check(api_->device_query, handle_, key.c_str(), desc, text.data(), std::uint64_t{text.size()}, &size);
    }
    text.resize(std::strlen(text.c_str()));
    return text;
  }

  std::shared_ptr<detail::RegistryOwner> owner_;
  detail::Table api_;
  ironcl_device handle_ = nullptr;
  std::string uri_, plugin_;
  ironcl_device_props props_{};
};

}  // namespace ironcl

// SPDX-License-Identifier: Apache-2.0
// What a loaded plugin holds: the backend, its devices, the host's log. One Instance a plugin, constant-initialised
// and never destroyed: nothing of a driver is released from a static destructor. Next door: plugin_definition.h.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <initializer_list>
#include <mutex>

#include "backends/interface.h"
#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::adapter {

/// Makes the backend at load. `options` are those of load(); throws invalid_argument for one it does not know. `log`
/// outlives the backend and all its objects.
using MakeBackend = std::unique_ptr<backend::Backend> (*)(const backend::Options& options, backend::Log* log);

/// Throws invalid_argument where an option is not one of `known`, and names those.
void check_option_names(const backend::Options& options, std::initializer_list<std::string_view> known);

/// The value of an option, else of an environment variable (not read in a setuid program), else empty. An empty value
/// counts as unset.
std::optional<std::string> setting(const backend::Options& options, std::string_view option, const char* variable);

/// Thread safe.
class Instance {
 public:
  constexpr Instance(const char* name, MakeBackend make) noexcept : name_(name), make_(make) {}
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Throws invalid_argument where it is loaded already, incompatible where the host is of another major version,
  /// unavailable in a process forked from one that has loaded it.
  void load(const ironcl_host* host, const ironcl_key_value* options, std::uint32_t option_count);
  /// Drops the backend and cuts the log. Handles that the host still holds stay legal to destroy. Does nothing in a
  /// forked child, where the driver must not be called.
  void unload() noexcept;
  /// Throws invalid_argument before load.
  void enumerate(ironcl_device* out_devices, std::uint32_t capacity, std::uint32_t* out_count);
  /// A device over the application's own objects; the same objects give the same handle. Throws invalid_argument
  /// before load.
  void import_device(const ironcl_native_device* desc, ironcl_device* out_device);

 private:
  struct State;
  class HostLog;

  const char* name_;
  MakeBackend make_;
  std::atomic<pid_t> process_{0};  // that loaded it first; 0: none has. Read without the lock, which a fork may hold
  std::mutex mutex_;               // guards the three below
  HostLog* log_ = nullptr;         // made by the first load and kept: objects may outlive unload()
  State* state_ = nullptr;         // null while not loaded
  State* retired_ = nullptr;       // device handles of earlier loads: empty, but still legal to ask
};

/// The one of this library; plugin_definition.h defines it.
extern Instance plugin_instance;

}  // namespace ironcl::adapter

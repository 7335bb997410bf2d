// SPDX-License-Identifier: Apache-2.0
// load() and unload() of a plugin, once a process: registries that take the same plugin share it. Next door: load.h.
#pragma once

#include <memory>

#include "host/registry/log.h"

namespace ironcl::registry {

/// A call into a plugin that may break the rules: what it throws becomes INTERNAL. `function` is
/// ironcl_status(ironcl_error*); Refused has the plugin's message, or `what` where it gave none.
template <class Function>
void call_plugin(const char* what, Function&& function) {
  ironcl_error error{};
  error.struct_size = sizeof error;
  ironcl_status status = IRONCL_OK;
  try {
    status = std::forward<Function>(function)(&error);
  } catch (const std::exception& thrown) {
    refuse(IRONCL_INTERNAL, "{} threw an exception, which a plugin must not: {}", what, thrown.what());
  } catch (...) {
    refuse(IRONCL_INTERNAL, "{} threw something, which a plugin must not", what);
  }
  if (status == IRONCL_OK) return;
  error.message[sizeof error.message - 1] = '\0';
  throw Refused(status, error.message[0] != '\0' ? error.message : fmt::format("{} failed and gave no message", what),
                error.native_code);
}

using PluginOptions = std::vector<std::pair<std::string, std::string>>;

/// A share of a loaded plugin; the last share to go unloads it. Known by the address of the plugin's own table.
///
/// The only state of a process that this library keeps is the list of loaded plugins behind this class. It is never
/// destroyed, so nothing runs when a process ends. While load() or unload() runs, other threads that want the same
/// plugin wait for the outcome; those that want others do not.
class SharedPlugin {
 public:
  SharedPlugin() = default;
  SharedPlugin(const SharedPlugin&) = delete;
  SharedPlugin& operator=(const SharedPlugin&) = delete;
  ~SharedPlugin() { reset(); }
  /// Loads `table` (complete, of `source`), or takes a share where that has happened: then `options` must be the
  /// same. `logger` gets the plugin's lines for as long as this share lives. Call it once. Throws Refused.
  void acquire(const ironcl_plugin* source, const ironcl_plugin& table, const PluginOptions& options,
               std::shared_ptr<Logger> logger);
  /// Gives the share back. True where that unloaded the plugin.
  bool reset() noexcept;

 private:
  struct Entry;

  Entry* entry_ = nullptr;
  std::shared_ptr<Logger> logger_;
};

}  // namespace ironcl::registry

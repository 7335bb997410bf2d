// SPDX-License-Identifier: Apache-2.0
// The plugin under test: one file opened, its table completed with stubs, its devices listed. Nothing here but the C
// ABI. Next door: handles.h (owners of its objects), harness.h (tests that receive it).
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "host/include/ironcl/plugin_ops.h"
#include "tests/c_api.h"

namespace ironcl::conformance {

/// An ironcl_error ready to be filled.
struct Error : ironcl_error {
  Error() : ironcl_error{} { struct_size = sizeof(ironcl_error); }
};

/// What load() and enumerate() said before any test ran.
class Plugin {
 public:
  using Options = std::vector<std::pair<std::string, std::string>>;

  /// Opens `file`, queries it, asks it to refuse an unknown option, loads it with `options` and lists its devices.
  /// Never throws on what a plugin answers: the answers are kept for the tests of the group Plugin. Throws
  /// std::runtime_error where there is no plugin at all (no file, no symbol, no table, other major version).
  Plugin(const std::filesystem::path& file, const Options& options);
  /// Calls unload(). The library stays mapped.
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const ironcl_plugin& table() const { return table_; }  ///< No slot is NULL.
  const ironcl_plugin& raw() const { return *raw_; }     ///< As the plugin gave it.
  ironcl_plugin_query_fn query() const { return query_; }
  const std::vector<ironcl_device>& devices() const { return devices_; }

  ironcl_status refused_option = IRONCL_OK;  ///< What load() answered to an option that nobody has.
  std::string refused_option_text;
  ironcl_status loaded = IRONCL_OK;
  std::string loaded_text;
  ironcl_status enumerated = IRONCL_OK;
  std::string enumerated_text;

 private:
  ironcl_plugin_query_fn query_ = nullptr;
  const ironcl_plugin* raw_ = nullptr;
  ironcl_plugin table_{};
  std::vector<ironcl_device> devices_;
};

}  // namespace ironcl::conformance

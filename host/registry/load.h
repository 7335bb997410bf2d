// SPDX-License-Identifier: Apache-2.0
// The steps from a file to a plugin with its devices, each of which may refuse it. Next door: search.h (which files),
// registry.h (what is done with the outcome), docs/discovery.md (the steps for users).
#pragma once

#include <deque>

#include "host/include/ironcl/ironcl.h"
#include "host/registry/search.h"
#include "host/registry/shared_plugin.h"

namespace ironcl::registry {

/// A device as the registry lists it.
struct DeviceRecord {
  ironcl_device handle = nullptr;
  std::uint32_t number = 0;  ///< in its plugin
  std::string uri;
  ironcl_device_props props{};
};

/// A plugin that passed every step but the last. Never moved: `table` is what applications call.
struct PluginRecord {
  std::string path, name, build_id;
  std::uint32_t source = 0;
  void* library = nullptr;  ///< Of dlopen. It stays mapped: code that ran once may have left threads behind.
  const ironcl_plugin* own_table = nullptr;  ///< the plugin's; `table` is the host's complete copy of it
  ironcl_plugin table{};
  SharedPlugin share;
  std::deque<DeviceRecord> devices;
  Result enumerate{};                ///< OK, or why there is no device
  std::vector<std::string> remarks;  ///< devices that were left out, and why
};

/// A line of the load report: how far a file got.
struct ReportRecord {
  std::uint32_t outcome = IRONCL_REPORT_REFUSED, step = IRONCL_STEP_FOUND, source = 0;
  std::string path;
  Result result{};
  std::string plugin{}, build_id{};  ///< where they are known
};

/// Throws Refused unless it is a library that exports the query function, and one that this process can open. Runs
/// none of its code. `step`: how far it came.
void preflight(const std::filesystem::path& path, std::uint32_t& step);

/// Throws Refused UNAVAILABLE where the process has no file handle left to open `path` with: what opens files by
/// other means (Boost.DLL, the loader) says then that the file is no good.
void check_handle_left(const std::filesystem::path& path);

/// Throws Refused INCOMPATIBLE where a plugin was built with another sanitizer (IRONCL_SANITIZER_*) than this
/// library.
void check_sanitizer(std::uint32_t theirs);

}  // namespace ironcl::registry

// SPDX-License-Identifier: Apache-2.0
// What is behind ironcl_registry: the plugins taken, their devices, the load report, and which device runs a problem
// (select.cpp). Next door: c_api.cpp (the C door), load.h (one file).
#pragma once

#include <map>
#include <set>

#include "host/registry/load.h"
#include "host/registry/log.h"

namespace ironcl::registry {

/// The options of a registry, copied; create() adds to them what the IRONCL_* variables say (secure_getenv: a
/// set-user-id program sees none). Later changes of variables are not seen. docs/environment.md lists them all.
struct Options {
  std::uint32_t flags = 0;
  Logger::Sink log = nullptr;
  void* log_context = nullptr;
  std::optional<std::string> verbose;                   ///< See log.h.
  std::string plugin_files;                             ///< ':'-separated paths of plugins
  std::string plugin_dirs;                              ///< ':'-separated folders of plugins
  std::string disable;                                  ///< ','-separated names of plugins
  std::string device;                                   ///< IRONCL_DEVICE: ','-separated URIs, the best first
  std::map<std::string, PluginOptions> plugin_options;  ///< By plugin.
};

/// Thread safe. `mutex_` guards the lists; it is never held while a plugin or a callback runs. What fails throws
/// Refused.
class Registry {
 public:
  static std::unique_ptr<Registry> create(Options options);
  ~Registry();

  void load_file(const std::string& path);
  void discover();
  void shutdown();

  /// All that there are at this moment.
  std::vector<ironcl_report_entry> report_entries() const;
  std::vector<ironcl_plugin_info> plugins() const;
  std::vector<ironcl_device_info> devices() const;

  const Options& options() const { return options_; }
  Logger& logger() const { return *logger_; }
  /// Why there may be no device: what became of each file, in a few words; of the files that are or may be `plugin`.
  std::string why_no_device(std::string_view plugin = {}) const;

 private:
  Registry(Options options, std::shared_ptr<Logger> logger);
  Result consider(const Candidate& candidate);
  /// Takes a file through found, preflight, open, query, version, sanitizer, load and enumerate (load.cpp). On OK
  /// `record` is complete and its name reserved; else everything is undone in reverse and the library stays mapped.
  ReportRecord load(const Candidate& candidate, PluginRecord& record);
  void report(ReportRecord record);
  void check_not_shut_down() const;
  bool is_taken_file(const FileId& id) const;

  const Options options_;
  const std::shared_ptr<Logger> logger_;
  std::set<std::string> disabled_;

  mutable std::mutex mutex_;
  std::set<std::string> names_;  // taken, or being loaded
  std::set<FileId> files_;       // of plugins_
  std::vector<std::unique_ptr<PluginRecord>> plugins_;
  std::vector<ironcl_device_info> devices_;
  std::deque<ReportRecord> report_;  // a deque: entries do not move, readers borrow their text
  bool shut_down_ = false;
};

/// Implements ironcl_registry_find_device.
ironcl_device_info find_device(const Registry& registry, std::string_view uri);

/// Implements ironcl_registry_select; `options` is complete. Calls supports() and visit without a lock.
ironcl_device_info select_device(const Registry& registry, const ironcl_select_options& options);

}  // namespace ironcl::registry

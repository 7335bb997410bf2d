// SPDX-License-Identifier: Apache-2.0
#include "host/registry/shared_plugin.h"

#include <map>

namespace ironcl::registry {

/// One plugin of the process. Never freed: a plugin's stray thread may log after unload().
struct SharedPlugin::Entry {
  std::mutex mutex;  // of what follows; held while load() or unload() of this plugin runs
  ironcl_plugin table{};
  std::string name;
  PluginOptions options;
  std::uint32_t shares = 0;
  ironcl_host host{};
  std::mutex loggers_mutex;
  std::vector<std::shared_ptr<Logger>> loggers;

  void attach(const std::shared_ptr<Logger>& logger) {
    const std::lock_guard lock(loggers_mutex);
    loggers.push_back(logger);
  }
  void detach(const std::shared_ptr<Logger>& logger) noexcept {
    const std::lock_guard lock(loggers_mutex);
    std::erase(loggers, logger);
  }
  static void log(void* context, std::uint32_t level, const char* text) noexcept {
    auto& self = *static_cast<Entry*>(context);
    if (text == nullptr) return;
    try {
      std::vector<std::shared_ptr<Logger>> loggers;
      {
        const std::lock_guard lock(self.loggers_mutex);
        loggers = self.loggers;
      }
      for (const auto& logger : loggers) logger->write_of_plugin(self.name, level, text);
    } catch (...) {  // a line is lost
    }
  }
};

void SharedPlugin::acquire(const ironcl_plugin* source, const ironcl_plugin& table, const PluginOptions& options,
                           std::shared_ptr<Logger> logger) {
  // Never destroyed: no static destructor meets a driver.
  static auto& all_mutex = *new std::mutex;
  static auto& all = *new std::map<const ironcl_plugin*, Entry>;
  Entry& entry = [source]() -> Entry& {
    const std::lock_guard lock(all_mutex);
    return all[source];
  }();
  const std::lock_guard lock(entry.mutex);
  if (entry.shares != 0 && options != entry.options)
    boundary::invalid(
        "another registry of this process has loaded it with other options; give the same, or shut that registry "
        "down first");
  entry.attach(logger);
  if (entry.shares == 0) {
    entry.table = table;
    entry.name = table.name;
    entry.options = options;
    entry.host = {.struct_size = sizeof(ironcl_host),
                  .abi_major = IRONCL_ABI_MAJOR,
                  .abi_minor = IRONCL_ABI_MINOR,
                  .reserved = 0,
                  .context = &entry,
                  .log = logger->wants_any() ? &Entry::log : nullptr};  // nobody listens: no text is made
    std::vector<ironcl_key_value> items;
    for (const auto& [key, value] : entry.options) items.push_back({key.c_str(), value.c_str()});
    const Result result = result_of([&] {
      call_plugin("load", [&](ironcl_error* error) {
        return entry.table.load(&entry.host, items.empty() ? nullptr : items.data(),
                                static_cast<std::uint32_t>(items.size()), error);
      });
    });
    if (!result.ok()) entry.detach(logger);
    check(result);
  }
  ++entry.shares;
  entry_ = &entry;
  logger_ = std::move(logger);
}

bool SharedPlugin::reset() noexcept {
  if (!entry_) return false;
  Entry& entry = *std::exchange(entry_, nullptr);
  const std::lock_guard lock(entry.mutex);
  const bool last = --entry.shares == 0;
  try {
    if (last) entry.table.unload();
  } catch (...) {  // it broke the rules on its way out; there is nobody left to tell
  }
  entry.detach(logger_);
  logger_.reset();
  return last;
}

}  // namespace ironcl::registry

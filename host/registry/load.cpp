// SPDX-License-Identifier: Apache-2.0
#include "host/registry/load.h"

#include <dlfcn.h>

#include "host/registry/complete_table.h"
#include "host/registry/registry.h"

namespace ironcl::registry {
namespace {

constexpr std::uint32_t kMostDevices = 4096;
constexpr std::size_t kFrozenBytes = offsetof(ironcl_plugin, extensions);  // the six fields that never move

void* open_library(const std::filesystem::path& path) {
  ::dlerror();
  if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* reason = ::dlerror();
  check_handle_left(path);
  refuse(IRONCL_INCOMPATIBLE, "cannot be opened: {}", reason ? reason : "the loader gives no reason");
}

const ironcl_plugin* query(void* library) {
  const auto function = reinterpret_cast<ironcl_plugin_query_fn>(::dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL));
  if (function == nullptr)
    refuse(IRONCL_INCOMPATIBLE, "exports " IRONCL_PLUGIN_QUERY_SYMBOL ", yet it cannot be found after opening");
  const ironcl_plugin* table = nullptr;
  call_plugin(IRONCL_PLUGIN_QUERY_SYMBOL, [&](ironcl_error*) {
    table = function(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
    return ironcl_status{IRONCL_OK};
  });
  if (table == nullptr)
    refuse(IRONCL_INCOMPATIBLE, "cannot serve ABI {}.{}: its query function gave NULL", IRONCL_ABI_MAJOR,
           IRONCL_ABI_MINOR);
  return table;
}

void check_version(const ironcl_plugin& table, ReportRecord& outcome) {
  if (table.struct_size < kFrozenBytes)
    refuse(IRONCL_INCOMPATIBLE, "its table says it has {} bytes; at least {} are needed to tell its version",
           table.struct_size, kFrozenBytes);
  if (table.name != nullptr) outcome.plugin = std::string(table.name).substr(0, 64);
  if (table.build_id != nullptr) outcome.build_id = std::string(table.build_id).substr(0, 128);
  if (table.abi_major != IRONCL_ABI_MAJOR)
    refuse(IRONCL_INCOMPATIBLE,
           "it has ABI {}.{}, this library has ABI {}.{}: the major versions must be equal; take a plugin built for "
           "{}.x",
           table.abi_major, table.abi_minor, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR, IRONCL_ABI_MAJOR);
  if (table.name == nullptr)
    boundary::invalid("its table has no name; a plugin names itself, in the form [a-z0-9_]+");
  if (!is_plugin_name(outcome.plugin) || outcome.plugin == "auto")
    boundary::invalid("its name '{}' is not of the form [a-z0-9_]+ with 32 characters at most, or it is 'auto'",
                      outcome.plugin);
}

void check_extensions(const ironcl_chain* chain) {
  for (int links = 0; chain != nullptr && links < 64; chain = chain->next, ++links) {
    const std::uint32_t type = chain->type & ~IRONCL_CHAIN_REQUIRED;
    if (type == IRONCL_CHAIN_SANITIZER && chain->struct_size >= sizeof(ironcl_sanitizer))
      check_sanitizer(reinterpret_cast<const ironcl_sanitizer*>(chain)->kind);
    else if (type != IRONCL_CHAIN_SANITIZER && (chain->type & IRONCL_CHAIN_REQUIRED) != 0)
      refuse(IRONCL_INCOMPATIBLE,
             "it requires extension {} of its host, which this library does not know; take a newer one", type);
  }
}

std::vector<ironcl_device> handles_of(const ironcl_plugin& table) {
  std::uint32_t count = 0, filled = 0;
  call_plugin("enumerate", [&](ironcl_error* error) { return table.enumerate(nullptr, 0, &count, error); });
  if (count > kMostDevices)
    refuse(IRONCL_INTERNAL, "enumerate speaks of {} devices; at most {} are believed", count, kMostDevices);
  std::vector<ironcl_device> handles(count);
  if (count == 0) return handles;
  call_plugin("enumerate",
              [&](ironcl_error* error) { return table.enumerate(handles.data(), count, &filled, error); });
  if (filled != count) refuse(IRONCL_INTERNAL, "enumerate spoke of {} devices, then of {}", count, filled);
  return handles;
}

void enumerate(PluginRecord& record) {
  std::vector<ironcl_device> handles;
  record.enumerate = result_of([&] { handles = handles_of(record.table); });
  if (record.enumerate.status == IRONCL_UNAVAILABLE) return;  // no driver here: the plugin is fine, and says so
  check(record.enumerate);
  if (handles.empty()) record.enumerate.message = "it found no device";

  for (std::uint32_t i = 0; i < handles.size(); ++i) {
    DeviceRecord device{.handle = handles[i], .number = i, .uri = fmt::format("{}:{}", record.name, i)};
    device.props.struct_size = sizeof device.props;
    const Result props = result_of([&] {
      if (device.handle == nullptr) refuse(IRONCL_INTERNAL, "its handle is NULL");
      call_plugin("device_props", [&](ironcl_error* error) {
        return record.table.device_props(device.handle, &device.props, error);
      });
    });
    if (!props.ok()) {
      record.remarks.push_back(device.uri + " is left out: " + props.message);
      continue;
    }
    device.props.struct_size = sizeof device.props;
    for (char* end : {std::end(device.props.name), std::end(device.props.driver), std::end(device.props.stable_id)})
      end[-1] = '\0';
    record.devices.push_back(device);
  }
  if (!handles.empty() && record.devices.empty())
    refuse(IRONCL_INTERNAL, "none of its {} devices can be used: {}", handles.size(), record.remarks.front());
}

}  // namespace

ReportRecord Registry::load(const Candidate& candidate, PluginRecord& record) {
  ReportRecord now{.source = candidate.source, .path = candidate.path.string()};
  // Runs a step; true where it passed.
  const auto step = [&](std::uint32_t number, auto&& function) {
    now.step = number;
    now.result = result_of(function);
    const bool passed = now.result.ok();
    if (passed && logger_->wants(kLoad))
      logger_->write(kLoad, fmt::format("passed,{},OK,{},{},", ironcl_step_name(number), csv_field(now.plugin),
                                        csv_field(now.path)));
    return passed;
  };
  const auto stop = [&](std::uint32_t outcome, std::string reason) {
    now.outcome = outcome;
    now.result = {IRONCL_INVALID_ARGUMENT, std::move(reason)};
    return now;
  };

  now.plugin = plugin_name_of_file(candidate.path);
  if (!step(IRONCL_STEP_FOUND, [&] { check(candidate.problem); })) return now;
  if (!now.plugin.empty() && disabled_.contains(now.plugin))
    return stop(IRONCL_REPORT_DISABLED, "'" + now.plugin + "' is named in IRONCL_DISABLE or the disable option");
  std::uint32_t reached = IRONCL_STEP_PREFLIGHT;
  const bool fits = step(IRONCL_STEP_PREFLIGHT, [&] { preflight(candidate.path, reached); });
  now.step = reached;
  if (!fits) return now;
  if (!step(IRONCL_STEP_OPEN, [&] { record.library = open_library(candidate.path); })) return now;
  if (!step(IRONCL_STEP_QUERY, [&] { record.own_table = query(record.library); })) return now;

  const bool known = step(IRONCL_STEP_VERSION, [&] {
    check_version(*record.own_table, now);
    const CompletedTable completed = complete_table(*record.own_table);
    if (const auto missing = completed.missing_required(); !missing.empty())
      boundary::invalid("its table has no {}, which every plugin needs", missing);
    record.table = completed.table;
  });
  if (!known) return now;
  record.path = now.path;
  record.name = now.plugin;
  record.build_id = now.build_id;
  record.source = candidate.source;
  record.table.name = record.name.c_str();
  record.table.build_id = record.build_id.c_str();
  if (disabled_.contains(now.plugin))
    return stop(IRONCL_REPORT_DISABLED, "'" + now.plugin + "' is named in IRONCL_DISABLE or the disable option");
  if (!step(IRONCL_STEP_SANITIZER, [&] { check_extensions(record.table.extensions); })) return now;

  const auto with_names = [this](auto&& change) {
    const std::lock_guard lock(mutex_);
    return change(names_);
  };
  if (!with_names([&](auto& names) { return names.insert(now.plugin).second; })) {
    now.step = IRONCL_STEP_REGISTER;
    return stop(IRONCL_REPORT_SHADOWED, "a plugin called '" + now.plugin + "' came first");
  }
  const bool loaded = step(IRONCL_STEP_LOAD, [&] {
    const auto given = options_.plugin_options.find(now.plugin);
    const bool any = given != options_.plugin_options.end();
    record.share.acquire(record.own_table, record.table, any ? given->second : PluginOptions(), logger_);
  });
  if (!loaded || !step(IRONCL_STEP_ENUMERATE, [&] { enumerate(record); })) {
    record.share.reset();
    with_names([&](auto& names) { return names.erase(now.plugin); });
    return now;
  }
  now.outcome = IRONCL_REPORT_TAKEN;
  now.result.message = record.enumerate.message;
  return now;
}

}  // namespace ironcl::registry

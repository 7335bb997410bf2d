// SPDX-License-Identifier: Apache-2.0
#include "host/registry/load.h"

#include <dlfcn.h>

#include <cstddef>
#include <exception>

#include "host/registry/complete_table.h"
#include "host/registry/registry.h"

namespace ironcl::registry {
namespace {

constexpr std::uint32_t kMostDevices = 4096;
constexpr std::size_t kFrozenBytes = offsetof(ironcl_plugin, extensions);  // the six fields that never move

std::string version_text(std::uint32_t major, std::uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Result query(const Library& library, const ironcl_plugin*& table) {
  const auto function = reinterpret_cast<ironcl_plugin_query_fn>(library.symbol(IRONCL_PLUGIN_QUERY_SYMBOL));
  if (function == nullptr)
    return {IRONCL_INCOMPATIBLE, "exports " IRONCL_PLUGIN_QUERY_SYMBOL ", yet it cannot be found after opening"};
  Result called = call_plugin(IRONCL_PLUGIN_QUERY_SYMBOL, [&](ironcl_error*) {
    table = function(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
    return ironcl_status{IRONCL_OK};
  });
  if (called.ok() && table == nullptr)
    return {IRONCL_INCOMPATIBLE, "cannot serve ABI " + version_text(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR) +
                                     ": its query function gave NULL"};
  return called;
}

Result check_version(const ironcl_plugin& table, ReportRecord& outcome) {
  if (table.struct_size < kFrozenBytes)
    return {IRONCL_INCOMPATIBLE, "its table says it has " + std::to_string(table.struct_size) + " bytes; at least " +
                                     std::to_string(kFrozenBytes) + " are needed to tell its version"};
  if (table.name != nullptr) outcome.plugin = std::string(table.name).substr(0, 64);
  if (table.build_id != nullptr) outcome.build_id = std::string(table.build_id).substr(0, 128);
  if (table.abi_major != IRONCL_ABI_MAJOR)
    return {IRONCL_INCOMPATIBLE, "it has ABI " + version_text(table.abi_major, table.abi_minor) +
                                     ", this library has ABI " + version_text(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR) +
                                     ": the major versions must be equal; take a plugin built for " +
                                     std::to_string(IRONCL_ABI_MAJOR) + ".x"};
  if (table.name == nullptr)
    return {IRONCL_INVALID_ARGUMENT, "its table has no name; a plugin names itself, in the form [a-z0-9_]+"};
  if (!is_plugin_name(outcome.plugin) || outcome.plugin == "auto")
    return {IRONCL_INVALID_ARGUMENT,
            "its name '" + outcome.plugin +
                "' is not of the form [a-z0-9_]+ with 32 characters at most, or it is 'auto'"};
  return {};
}

Result check_extensions(const ironcl_chain* chain) {
  for (int links = 0; chain != nullptr && links < 64; chain = chain->next, ++links) {
    const std::uint32_t type = chain->type & ~IRONCL_CHAIN_REQUIRED;
    if (type == IRONCL_CHAIN_SANITIZER && chain->struct_size >= sizeof(ironcl_sanitizer)) {
      if (Result fits = check_sanitizer(reinterpret_cast<const ironcl_sanitizer*>(chain)->kind); !fits.ok())
        return fits;
    } else if (type != IRONCL_CHAIN_SANITIZER && (chain->type & IRONCL_CHAIN_REQUIRED) != 0) {
      return {IRONCL_INCOMPATIBLE, "it requires extension " + std::to_string(type) +
                                       " of its host, which this library does not know; take a newer one"};
    }
  }
  return {};
}

Result enumerate(PluginRecord& record) {
  const ironcl_plugin& table = record.table;
  std::uint32_t count = 0;
  Result result =
      call_plugin("enumerate", [&](ironcl_error* error) { return table.enumerate(nullptr, 0, &count, error); });
  std::vector<ironcl_device> handles;
  if (result.ok() && count > kMostDevices)
    return {IRONCL_INTERNAL, "enumerate speaks of " + std::to_string(count) + " devices; at most " +
                                 std::to_string(kMostDevices) + " are believed"};
  if (result.ok() && count > 0) {
    handles.resize(count);
    std::uint32_t filled = 0;
    result = call_plugin("enumerate",
                         [&](ironcl_error* error) { return table.enumerate(handles.data(), count, &filled, error); });
    if (result.ok() && filled != count)
      return {IRONCL_INTERNAL,
              "enumerate spoke of " + std::to_string(count) + " devices, then of " + std::to_string(filled)};
  }
  if (result.status == IRONCL_UNAVAILABLE) {
    record.enumerate = result;  // no driver here: the plugin is fine, and says why it has no device
    return {};
  }
  if (!result.ok()) return result;
  if (count == 0) record.enumerate.message = "it found no device";

  for (std::uint32_t i = 0; i < count; ++i) {
    DeviceRecord device{.handle = handles[i], .number = i, .uri = record.name + ":" + std::to_string(i)};
    device.props.struct_size = sizeof device.props;
    Result props{IRONCL_INTERNAL, "its handle is NULL"};
    if (device.handle != nullptr) {
      props = call_plugin("device_props", [&](ironcl_error* error) {
        return table.device_props(device.handle, &device.props, error);
      });
    }
    if (!props.ok()) {
      record.remarks.push_back(device.uri + " is left out: " + props.message);
      continue;
    }
    device.props.struct_size = sizeof device.props;
    for (char* end : {std::end(device.props.name), std::end(device.props.driver), std::end(device.props.stable_id)})
      end[-1] = '\0';
    record.devices.push_back(device);
  }
  if (count > 0 && record.devices.empty())
    return {IRONCL_INTERNAL,
            "none of its " + std::to_string(count) + " devices can be used: " + record.remarks.front()};
  return {};
}

}  // namespace

Result Library::open(const std::filesystem::path& path) {
  ::dlerror();
  handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return {};
  const char* reason = ::dlerror();
  if (Result handles = handle_left(path); !handles.ok()) return handles;
  return {IRONCL_INCOMPATIBLE, "cannot be opened: " + std::string(reason ? reason : "the loader gives no reason")};
}

void* Library::symbol(const char* name) const { return handle_ ? ::dlsym(handle_, name) : nullptr; }

void Library::close() noexcept {
  if (handle_ != nullptr) ::dlclose(std::exchange(handle_, nullptr));
}

ReportRecord Registry::load(const Candidate& candidate, PluginRecord& record) {
  ReportRecord now{.source = candidate.source, .path = candidate.path.string()};
  // Runs a step; true where it passed.
  const auto step = [&](std::uint32_t number, auto&& function) {
    now.step = number;
    try {
      now.result = function();
    } catch (const std::bad_alloc&) {
      now.result = {IRONCL_OUT_OF_HOST_MEMORY, "the host is out of memory"};
    } catch (const std::exception& error) {
      now.result = {IRONCL_INTERNAL, error.what()};
    }
    const bool passed = now.result.ok() && now.outcome == IRONCL_REPORT_REFUSED;
    if (passed && logger_->wants(kLoad))
      logger_->write(kLoad, std::string("passed,") + ironcl_step_name(number) + ",OK," + csv_field(now.plugin) + "," +
                                csv_field(now.path) + ",");
    return passed;
  };
  const auto stop = [&](std::uint32_t outcome, std::string reason) {
    now.outcome = outcome;
    now.result = {IRONCL_INVALID_ARGUMENT, std::move(reason)};
    return now;
  };

  now.plugin = plugin_name_of_file(candidate.path);
  if (!step(IRONCL_STEP_FOUND, [&] { return candidate.problem; })) return now;
  if (!now.plugin.empty() && disabled_.contains(now.plugin))
    return stop(IRONCL_REPORT_DISABLED, "'" + now.plugin + "' is named in IRONCL_DISABLE or the disable option");
  std::uint32_t reached = IRONCL_STEP_PREFLIGHT;
  const bool fits = step(IRONCL_STEP_PREFLIGHT, [&] { return preflight(candidate.path, reached); });
  now.step = reached;
  if (!fits) return now;
  if (!step(IRONCL_STEP_OPEN, [&] { return record.library.open(candidate.path); })) return now;
  if (!step(IRONCL_STEP_QUERY, [&] { return query(record.library, record.own_table); })) return now;

  if (!step(IRONCL_STEP_VERSION, [&]() -> Result {
        if (Result result = check_version(*record.own_table, now); !result.ok()) return result;
        const CompletedTable completed = complete_table(*record.own_table);
        if (const auto missing = completed.missing_required(); !missing.empty())
          return {IRONCL_INVALID_ARGUMENT, "its table has no " + std::string(missing) + ", which every plugin needs"};
        record.table = completed.table;
        return {};
      }))
    return now;
  record.path = now.path;
  record.name = now.plugin;
  record.build_id = now.build_id;
  record.source = candidate.source;
  record.table.name = record.name.c_str();
  record.table.build_id = record.build_id.c_str();
  if (disabled_.contains(now.plugin))
    return stop(IRONCL_REPORT_DISABLED, "'" + now.plugin + "' is named in IRONCL_DISABLE or the disable option");
  if (!step(IRONCL_STEP_SANITIZER, [&] { return check_extensions(record.table.extensions); })) return now;

  const auto with_names = [this](auto&& change) {
    const std::lock_guard lock(mutex_);
    return change(names_);
  };
  if (!with_names([&](auto& names) { return names.insert(now.plugin).second; })) {
    now.step = IRONCL_STEP_REGISTER;
    return stop(IRONCL_REPORT_SHADOWED, "a plugin called '" + now.plugin + "' came first");
  }
  const bool loaded = step(IRONCL_STEP_LOAD, [&] {
    PluginOptions options;
    for (const auto& option : options_.plugin_options)
      if (option.plugin == now.plugin) options.emplace_back(option.key, option.value);
    return SharedPlugin::acquire(record.own_table, record.table, options, logger_, record.share);
  });
  if (!loaded || !step(IRONCL_STEP_ENUMERATE, [&] { return enumerate(record); })) {
    record.share.reset();
    with_names([&](auto& names) { return names.erase(now.plugin); });
    return now;
  }
  now.outcome = IRONCL_REPORT_TAKEN;
  now.result.message = record.enumerate.message;
  return now;
}

}  // namespace ironcl::registry

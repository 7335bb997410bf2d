// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: the plugins that were found, and the choice among their devices. Next door: device.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device.hpp"

namespace ironcl {

/// A plugin of a registry, as ironcl_plugin_info.
struct PluginInfo {
  std::string name, build_id, path;
  std::uint32_t abi_major = 0, abi_minor = 0, flags = 0, device_count = 0, source = 0;
  ironcl_status enumerate_status = IRONCL_OK;
  std::string enumerate_reason;
  const ironcl_plugin* api = nullptr;
};

/// An entry of the load report, as ironcl_report_entry.
struct ReportEntry {
  std::uint32_t outcome = 0, step = 0, source = 0;
  ironcl_status status = IRONCL_OK;
  std::string path, plugin, build_id, reason;
};

/// What selection found about a device, as ironcl_candidate.
struct Candidate {
  std::uint32_t verdict = 0, rank = UINT32_MAX, reason = IRONCL_REASON_NONE;
  ironcl_status status = IRONCL_OK;
  std::string text;
  Device device;
  std::optional<Support> support;  ///< empty where the device was not asked
};

/// A choice and how it came about. `device` is empty where nothing was chosen; `error` then says why.
struct Selection {
  std::optional<Device> device;
  std::vector<Candidate> candidates;
  ironcl_status status = IRONCL_OK;
  std::string error;
};

/// The plugins that were found. Thread safe. Devices and what is made with them keep it alive.
class Registry {
 public:
  struct PluginOption {
    std::string plugin, key, value;
  };
  struct Options {
    bool use_environment = true;
    bool unload = false;  ///< IRONCL_REGISTRY_UNLOAD
    std::string plugin_files{}, plugin_dirs{}, disable{};
    std::optional<std::string> verbose{};         ///< as IRONCL_VERBOSE; empty: what that variable says
    std::function<void(std::string_view)> log{};  ///< one line per call, from any thread; it must not throw
    std::vector<PluginOption> plugin_options{};
  };

  /// An empty registry.
  Registry() : Registry(Options{}) {}
  explicit Registry(const Options& options) : owner_(std::make_shared<detail::RegistryOwner>()) {
    owner_->log = options.log;
    auto c = detail::sized<ironcl_registry_options>();
    if (!options.use_environment) c.flags |= IRONCL_REGISTRY_IGNORE_ENVIRONMENT;
    if (options.unload) c.flags |= IRONCL_REGISTRY_UNLOAD;
    c.verbose = options.verbose ? options.verbose->c_str() : nullptr;
    c.plugin_files = options.plugin_files.empty() ? nullptr : options.plugin_files.c_str();
    c.plugin_dirs = options.plugin_dirs.empty() ? nullptr : options.plugin_dirs.c_str();
    c.disable = options.disable.empty() ? nullptr : options.disable.c_str();
    if (owner_->log) {
      c.log_context = owner_.get();
      c.log = [](void* context, const char* line) { static_cast<detail::RegistryOwner*>(context)->log(line); };
    }
    std::vector<ironcl_plugin_option> items;
    for (const auto& option : options.plugin_options)
      items.push_back({option.plugin.c_str(), option.key.c_str(), option.value.c_str()});
    c.plugin_options = items.data();
    c.plugin_option_count = static_cast<std::uint32_t>(items.size());
    detail::check(ironcl_registry_create, &c, &owner_->registry);
  }

  /// A registry with every plugin of the usual places.
  static Registry discover() { return discover(Options{}); }
  static Registry discover(const Options& options) {
    Registry registry(options);
    registry.search();
    return registry;
  }

  void load_file(const std::string& path) { detail::check(ironcl_registry_load_file, handle(), path.c_str()); }
  void search() { detail::check(ironcl_registry_discover, handle()); }
  /// Unloads every plugin now. Everything made with its devices must be gone.
  void shutdown() { detail::check(ironcl_registry_shutdown, handle()); }

  std::vector<PluginInfo> plugins() const {
    std::vector<PluginInfo> all;
    for (std::uint32_t i = 0, count = ironcl_registry_plugin_count(handle()); i < count; ++i) {
      auto c = detail::sized<ironcl_plugin_info>();
      detail::check(ironcl_registry_plugin_info, handle(), i, &c);
      all.push_back({c.name, c.build_id, c.path, c.abi_major, c.abi_minor, c.flags, c.device_count, c.source,
                     c.enumerate_status, c.enumerate_reason, c.api});
    }
    return all;
  }

  std::vector<Device> devices() const {
    std::vector<Device> all;
    for (std::uint32_t i = 0, count = ironcl_registry_device_count(handle()); i < count; ++i) {
      auto c = detail::sized<ironcl_device_info>();
      detail::check(ironcl_registry_device_info, handle(), i, &c);
      all.emplace_back(owner_, c);
    }
    return all;
  }

  /// The device of a URI: "opencl:0", "opencl:gpu", "opencl:cpu:1", "ironwood:0", "auto".
  Device device(const std::string& uri) const {
    auto c = detail::sized<ironcl_device_info>();
    detail::check(ironcl_registry_find_device, handle(), uri.c_str(), &c);
    return Device(owner_, c);
  }

  /// A device of `plugin` ("opencl") over the application's own cl_device_id and cl_context, for buffers that are its
  /// cl_mems: Buffer::wrap(device, IRONCL_MEMORY_CL_MEM, mem, bytes). The plugin retains both until it is unloaded.
  Device import_opencl(const std::string& plugin, void* cl_device, void* cl_context) const {
    for (const PluginInfo& info : plugins()) {
      if (info.name != plugin) continue;
      auto native = detail::sized<ironcl_native_device>();
      native.kind = IRONCL_NATIVE_OPENCL;
      native.device = cl_device;
      native.context = cl_context;
      ironcl_device device = nullptr;
      detail::check(info.api->device_import, &native, &device);
      return Device(owner_, info.api, device, plugin + ":imported");
    }
    throw Error(IRONCL_INVALID_ARGUMENT, 0, "no plugin \"" + plugin + "\" is loaded");
  }

  /// The device that runs the problem, by the caller's URIs (','-separated), IRONCL_DEVICE or the rule of ironcl.h.
  Device select(const GemmDesc& desc, const std::string& preference = {}) const {
    Selection selection = explain(&desc, preference);
    if (!selection.device) throw Error(selection.status, 0, selection.error);
    return *selection.device;
  }

  /// The same, with what was found about each device, and without throwing where none will do. `desc` may be null.
  Selection explain(const GemmDesc* desc, const std::string& preference = {}) const {
    struct Visit {
      const Registry* registry;
      Selection selection;
    } visit{this, {}};
    std::optional<detail::CGemmDesc> c_desc;
    if (desc) c_desc.emplace(*desc);
    auto options = detail::sized<ironcl_select_options>();
    options.desc = c_desc ? c_desc->get() : nullptr;
    options.preference = preference.c_str();
    options.visit_context = &visit;
    options.visit = [](void* context, const ironcl_candidate* c) noexcept {
      auto& self = *static_cast<Visit*>(context);
      Candidate candidate{
          c->verdict, c->rank, c->reason, c->status, c->text, Device(self.registry->owner_, *c->device), {}};
      if (const ironcl_support* s = c->support)
        candidate.support =
            Support{s->reason, s->accuracy_class, s->estimate_kind, s->estimate_ns, s->workspace_bytes, s->text};
      self.selection.candidates.push_back(std::move(candidate));
    };
    auto chosen = detail::sized<ironcl_device_info>();
    ironcl_error error = detail::make_error();
    visit.selection.status = ironcl_registry_select(handle(), &options, &chosen, &error);
    if (visit.selection.status == IRONCL_OK)
      visit.selection.device = Device(owner_, chosen);
    else
      visit.selection.error = error.message;
    return std::move(visit.selection);
  }

  std::vector<ReportEntry> report() const {
    std::vector<ReportEntry> all;
    for (std::uint32_t i = 0, count = ironcl_registry_report_count(handle()); i < count; ++i) {
      auto c = detail::sized<ironcl_report_entry>();
      detail::check(ironcl_registry_report_entry, handle(), i, &c);
      all.push_back({c.outcome, c.step, c.source, c.status, c.path, c.plugin, c.build_id, c.reason});
    }
    return all;
  }

  ironcl_registry handle() const { return owner_->registry; }

 private:
  std::shared_ptr<detail::RegistryOwner> owner_;
};

}  // namespace ironcl

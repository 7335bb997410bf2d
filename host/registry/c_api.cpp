// SPDX-License-Identifier: Apache-2.0
// The C door of the registry: checks structs, turns what is thrown into a status, copies results out.

#include "host/registry/registry.h"

struct ironcl_registry_t {
  std::unique_ptr<ironcl::registry::Registry> registry;
};

namespace {

using namespace ironcl::boundary;
using namespace ironcl::registry;

ironcl::registry::Options read_options(const ironcl_registry_options* in) {
  ironcl::registry::Options out;
  if (in == nullptr) return out;
  const auto options =
      read_struct(in, "ironcl_registry_options", IRONCL_REGISTRY_IGNORE_ENVIRONMENT | IRONCL_REGISTRY_UNLOAD);
  if (options.plugin_option_count > 0 && options.plugin_options == nullptr)
    invalid("ironcl_registry_options.plugin_options is NULL, but plugin_option_count is not 0");
  out.flags = options.flags;
  out.log = options.log;
  out.log_context = options.log_context;
  if (options.verbose) out.verbose = options.verbose;
  if (options.plugin_files) out.plugin_files = options.plugin_files;
  if (options.plugin_dirs) out.plugin_dirs = options.plugin_dirs;
  if (options.disable) out.disable = options.disable;
  for (std::uint32_t i = 0; i < options.plugin_option_count; ++i) {
    const ironcl_plugin_option& option = options.plugin_options[i];
    if (!option.plugin || !option.key || !option.value) invalid("a plugin option has a NULL in it");
    out.plugin_options[option.plugin].emplace_back(option.key, option.value);
  }
  return out;
}

/// An entry of one of the registry's lists.
template <class Struct>
ironcl_status list_entry(ironcl_registry registry, std::uint32_t index, Struct* out, const char* name,
                         const char* what, std::vector<Struct> (Registry::*list)() const, ironcl_error* error) {
  return guard("", error, [&] {
    require("registry or the struct to fill", registry, out);
    const std::vector<Struct> all = (*registry->registry.*list)();
    if (index >= all.size()) invalid("{} {} does not exist; there are {}", what, index, all.size());
    check_out(out, name);
    write_struct(out, all[index]);
  });
}

template <class Struct>
std::uint32_t list_size(ironcl_registry registry, std::vector<Struct> (Registry::*list)() const) {
  return registry ? static_cast<std::uint32_t>((*registry->registry.*list)().size()) : 0;
}

}  // namespace

extern "C" {

ironcl_status ironcl_registry_create(const ironcl_registry_options* options, ironcl_registry* out_registry,
                                     ironcl_error* error) {
  return guard("", error, [&] {
    require("out_registry", out_registry);
    auto handle = std::make_unique<ironcl_registry_t>();
    handle->registry = Registry::create(read_options(options));
    *out_registry = handle.release();
  });
}

ironcl_status ironcl_registry_load_file(ironcl_registry registry, const char* path, ironcl_error* error) {
  return guard("", error, [&] {
    if (registry == nullptr || path == nullptr || *path == '\0') invalid("registry or path is NULL or empty");
    registry->registry->load_file(path);
  });
}

ironcl_status ironcl_registry_discover(ironcl_registry registry, ironcl_error* error) {
  return guard("", error, [&] {
    require("registry", registry);
    registry->registry->discover();
  });
}

ironcl_status ironcl_registry_shutdown(ironcl_registry registry, ironcl_error* error) {
  return guard("", error, [&] {
    require("registry", registry);
    registry->registry->shutdown();
  });
}

void ironcl_registry_destroy(ironcl_registry registry) {
  guard("", nullptr, [&] { delete registry; });
}

uint32_t ironcl_registry_report_count(ironcl_registry registry) {
  return list_size(registry, &Registry::report_entries);
}

ironcl_status ironcl_registry_report_entry(ironcl_registry registry, uint32_t index, ironcl_report_entry* out_entry,
                                           ironcl_error* error) {
  return list_entry(registry, index, out_entry, "ironcl_report_entry", "report entry", &Registry::report_entries,
                    error);
}

uint32_t ironcl_registry_plugin_count(ironcl_registry registry) { return list_size(registry, &Registry::plugins); }

ironcl_status ironcl_registry_plugin_info(ironcl_registry registry, uint32_t index, ironcl_plugin_info* out_info,
                                          ironcl_error* error) {
  return list_entry(registry, index, out_info, "ironcl_plugin_info", "plugin", &Registry::plugins, error);
}

uint32_t ironcl_registry_device_count(ironcl_registry registry) { return list_size(registry, &Registry::devices); }

ironcl_status ironcl_registry_device_info(ironcl_registry registry, uint32_t index, ironcl_device_info* out_info,
                                          ironcl_error* error) {
  return list_entry(registry, index, out_info, "ironcl_device_info", "device", &Registry::devices, error);
}

ironcl_status ironcl_registry_find_device(ironcl_registry registry, const char* uri, ironcl_device_info* out_info,
                                          ironcl_error* error) {
  return guard("", error, [&] {
    require("registry, uri or out_info", registry, uri, out_info);
    check_out(out_info, "ironcl_device_info");
    write_struct(out_info, find_device(*registry->registry, uri));
  });
}

ironcl_status ironcl_registry_select(ironcl_registry registry, const ironcl_select_options* options,
                                     ironcl_device_info* out_info, ironcl_error* error) {
  return guard("", error, [&] {
    require("registry or out_info", registry, out_info);
    ironcl_select_options copy{};
    copy.struct_size = sizeof copy;
    if (options != nullptr) copy = read_struct(options, "ironcl_select_options", IRONCL_SELECT_IGNORE_ENVIRONMENT);
    if (copy.desc != nullptr && copy.desc->struct_size < sizeof(std::uint32_t))
      invalid("ironcl_gemm_desc.struct_size is 0; set it to sizeof(ironcl_gemm_desc)");
    check_out(out_info, "ironcl_device_info");
    write_struct(out_info, select_device(*registry->registry, copy));
  });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// The C door of the registry: checks structs, turns what is thrown into a status, copies results out.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "host/include/ironcl/ironcl.h"
#include "host/registry/c_boundary.h"
#include "host/registry/complete_table.h"
#include "host/registry/registry.h"
#include "host/registry/select.h"

struct ironcl_registry_t {
  std::unique_ptr<ironcl::registry::Registry> registry;
};

namespace {

using ironcl::registry::guard;
using ironcl::registry::read_struct;
using ironcl::registry::Registry;
using ironcl::registry::Result;
using ironcl::registry::write_struct;

Result invalid(const char* message) { return {IRONCL_INVALID_ARGUMENT, message}; }

Result out_of_range(const char* what, std::uint32_t index, std::uint32_t count) {
  return {IRONCL_INVALID_ARGUMENT,
          std::string(what) + " " + std::to_string(index) + " does not exist; there are " + std::to_string(count)};
}

Result read_options(const ironcl_registry_options* in, ironcl::registry::Options& out) {
  if (in == nullptr) return {};
  ironcl_registry_options options{};
  if (Result read = read_struct(in, "ironcl_registry_options", sizeof(std::uint32_t), options); !read.ok())
    return read;
  const std::uint32_t known = IRONCL_REGISTRY_IGNORE_ENVIRONMENT | IRONCL_REGISTRY_UNLOAD;
  if ((options.flags & ~known) != 0)
    return {IRONCL_UNIMPLEMENTED, "ironcl_registry_options.flags has a bit that is none of IRONCL_REGISTRY_*"};
  if (options.reserved != 0) return {IRONCL_UNIMPLEMENTED, "ironcl_registry_options.reserved must be 0"};
  if (options.plugin_option_count > 0 && options.plugin_options == nullptr)
    return invalid("ironcl_registry_options.plugin_options is NULL, but plugin_option_count is not 0");
  out.flags = options.flags;
  out.log = options.log;
  out.log_context = options.log_context;
  if (options.verbose) out.verbose = options.verbose;
  if (options.plugin_files) out.plugin_files = options.plugin_files;
  if (options.plugin_dirs) out.plugin_dirs = options.plugin_dirs;
  if (options.disable) out.disable = options.disable;
  for (std::uint32_t i = 0; i < options.plugin_option_count; ++i) {
    const ironcl_plugin_option& option = options.plugin_options[i];
    if (!option.plugin || !option.key || !option.value) return invalid("a plugin option has a NULL in it");
    out.plugin_options.push_back({option.plugin, option.key, option.value});
  }
  return {};
}

}  // namespace

extern "C" {

ironcl_status ironcl_registry_create(const ironcl_registry_options* options, ironcl_registry* out_registry,
                                     ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (out_registry == nullptr) return invalid("out_registry is NULL");
    ironcl::registry::Options copy;
    if (Result read = read_options(options, copy); !read.ok()) return read;
    auto handle = std::make_unique<ironcl_registry_t>();
    if (Result made = Registry::create(copy, handle->registry); !made.ok()) return made;
    *out_registry = handle.release();
    return {};
  });
}

ironcl_status ironcl_registry_load_file(ironcl_registry registry, const char* path, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr || path == nullptr || *path == '\0') return invalid("registry or path is NULL or empty");
    return registry->registry->load_file(path);
  });
}

ironcl_status ironcl_registry_discover(ironcl_registry registry, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr) return invalid("registry is NULL");
    return registry->registry->discover();
  });
}

ironcl_status ironcl_registry_shutdown(ironcl_registry registry, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr) return invalid("registry is NULL");
    registry->registry->shutdown();
    return {};
  });
}

void ironcl_registry_destroy(ironcl_registry registry) {
  guard(nullptr, [&]() -> Result {
    delete registry;
    return {};
  });
}

uint32_t ironcl_registry_report_count(ironcl_registry registry) {
  return registry ? registry->registry->report_count() : 0;
}

ironcl_status ironcl_registry_report_entry(ironcl_registry registry, uint32_t index, ironcl_report_entry* out_entry,
                                           ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr || out_entry == nullptr) return invalid("registry or out_entry is NULL");
    ironcl_report_entry entry{};
    if (!registry->registry->report_entry(index, entry))
      return out_of_range("report entry", index, registry->registry->report_count());
    return write_struct(entry, "ironcl_report_entry", out_entry);
  });
}

uint32_t ironcl_registry_plugin_count(ironcl_registry registry) {
  return registry ? registry->registry->plugin_count() : 0;
}

ironcl_status ironcl_registry_plugin_info(ironcl_registry registry, uint32_t index, ironcl_plugin_info* out_info,
                                          ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr || out_info == nullptr) return invalid("registry or out_info is NULL");
    ironcl_plugin_info info{};
    if (!registry->registry->plugin_info(index, info))
      return out_of_range("plugin", index, registry->registry->plugin_count());
    return write_struct(info, "ironcl_plugin_info", out_info);
  });
}

uint32_t ironcl_registry_device_count(ironcl_registry registry) {
  return registry ? registry->registry->device_count() : 0;
}

ironcl_status ironcl_registry_device_info(ironcl_registry registry, uint32_t index, ironcl_device_info* out_info,
                                          ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr || out_info == nullptr) return invalid("registry or out_info is NULL");
    ironcl_device_info info{};
    if (!registry->registry->device_info(index, info))
      return out_of_range("device", index, registry->registry->device_count());
    return write_struct(info, "ironcl_device_info", out_info);
  });
}

ironcl_status ironcl_registry_find_device(ironcl_registry registry, const char* uri, ironcl_device_info* out_info,
                                          ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr || uri == nullptr || out_info == nullptr)
      return invalid("registry, uri or out_info is NULL");
    ironcl_device_info info{};
    if (Result found = find_device(*registry->registry, uri, info); !found.ok()) return found;
    return write_struct(info, "ironcl_device_info", out_info);
  });
}

ironcl_status ironcl_registry_select(ironcl_registry registry, const ironcl_select_options* options,
                                     ironcl_device_info* out_info, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (registry == nullptr || out_info == nullptr) return invalid("registry or out_info is NULL");
    ironcl_select_options copy{};
    copy.struct_size = sizeof copy;
    if (options != nullptr) {
      if (Result read = read_struct(options, "ironcl_select_options", sizeof(std::uint32_t), copy); !read.ok())
        return read;
    }
    if ((copy.flags & ~std::uint32_t{IRONCL_SELECT_IGNORE_ENVIRONMENT}) != 0)
      return {IRONCL_UNIMPLEMENTED, "ironcl_select_options.flags has a bit that is none of IRONCL_SELECT_*"};
    if (copy.desc != nullptr && copy.desc->struct_size < sizeof(std::uint32_t))
      return invalid("ironcl_gemm_desc.struct_size is 0; set it to sizeof(ironcl_gemm_desc)");
    ironcl_device_info info{};
    if (Result chosen = select_device(*registry->registry, copy, info); !chosen.ok()) return chosen;
    return write_struct(info, "ironcl_device_info", out_info);
  });
}

}  // extern "C"

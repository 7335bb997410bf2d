// SPDX-License-Identifier: Apache-2.0
// A plugin in one line: IRONCL_DEFINE_PLUGIN("name", make_backend), at file scope of the plugin's only own source.
// Next door: instance.h (what a loaded plugin holds), entries.h (the functions of the table).
#pragma once

#include "host/include/ironcl/plugin_ops.h"
#include "ironcl_build_id.h"
#include "plugins/adapter/entries.h"
#include "plugins/adapter/guard.h"
#include "plugins/adapter/instance.h"

namespace ironcl::adapter {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IRONCL_ADAPTER_SANITIZER IRONCL_SANITIZER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define IRONCL_ADAPTER_SANITIZER IRONCL_SANITIZER_THREAD
#elif __has_feature(memory_sanitizer)
#define IRONCL_ADAPTER_SANITIZER IRONCL_SANITIZER_MEMORY
#endif
#endif
#if !defined(IRONCL_ADAPTER_SANITIZER)
#if defined(__SANITIZE_ADDRESS__)
#define IRONCL_ADAPTER_SANITIZER IRONCL_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define IRONCL_ADAPTER_SANITIZER IRONCL_SANITIZER_THREAD
#else
#define IRONCL_ADAPTER_SANITIZER IRONCL_SANITIZER_NONE
#endif
#endif

/// What this library was built with; the host refuses a plugin of another kind by name.
inline constexpr ironcl_sanitizer kSanitizer{
    {sizeof(ironcl_sanitizer), IRONCL_CHAIN_SANITIZER, nullptr}, IRONCL_ADAPTER_SANITIZER, 0};
#undef IRONCL_ADAPTER_SANITIZER

/// The four entries that need the plugin's own state.
template <Instance& instance>
struct InstanceEntries {
  static ironcl_status load(const ironcl_host* host, const ironcl_key_value* options, uint32_t option_count,
                            ironcl_error* error) noexcept {
    return guard("load", error, [&] { instance.load(host, options, option_count); });
  }
  static void unload() noexcept { instance.unload(); }
  static ironcl_status enumerate(ironcl_device* out_devices, uint32_t capacity, uint32_t* out_count,
                                 ironcl_error* error) noexcept {
    return guard("enumerate", error, [&] { instance.enumerate(out_devices, capacity, out_count); });
  }
  static ironcl_status device_import(const ironcl_native_device* desc, ironcl_device* out_device,
                                     ironcl_error* error) noexcept {
    return guard("device_import", error, [&] { instance.import_device(desc, out_device); });
  }
};

/// The whole table, as a constant: it is there before any constructor runs.
template <Instance& instance>
constexpr ironcl_plugin make_table(const char* name, const char* build_id) {
  ironcl_plugin table{};
  table.struct_size = sizeof(ironcl_plugin);
  table.abi_major = IRONCL_ABI_MAJOR;
  table.abi_minor = IRONCL_ABI_MINOR;
  table.name = name;
  table.build_id = build_id;
  table.extensions = &kSanitizer.chain;
  table.load = &InstanceEntries<instance>::load;
  table.unload = &InstanceEntries<instance>::unload;
  table.enumerate = &InstanceEntries<instance>::enumerate;
  table.device_props = &entries::device_props;
  table.supports = &entries::supports;
  table.device_query = &entries::device_query;
  table.queue_create = &entries::queue_create;
  table.queue_finish = &entries::queue_finish;
  table.queue_wait = &entries::queue_wait;
  table.queue_destroy = &entries::queue_destroy;
  table.buffer_create = &entries::buffer_create;
  table.buffer_destroy = &entries::buffer_destroy;
  table.write = &entries::write;
  table.read = &entries::read;
  table.weights_prepare = &entries::weights_prepare;
  table.weights_export = &entries::weights_export;
  table.weights_info = &entries::weights_info;
  table.weights_destroy = &entries::weights_destroy;
  table.op_create = &entries::op_create;
  table.op_info = &entries::op_info;
  table.op_enqueue = &entries::op_enqueue;
  table.op_destroy = &entries::op_destroy;
  table.event_wait = &entries::event_wait;
  table.event_profile = &entries::event_profile;
  table.event_destroy = &entries::event_destroy;
  table.device_import = &InstanceEntries<instance>::device_import;
  return table;
}

}  // namespace ironcl::adapter

/// Defines the library's one export. `name` is a literal of [a-z0-9_]+; `make_backend` is an adapter::MakeBackend.
#define IRONCL_DEFINE_PLUGIN(name, make_backend)                                                                     \
  namespace ironcl::adapter {                                                                                        \
  static constinit Instance plugin_instance{name, make_backend};                                                     \
  static constinit const ironcl_plugin plugin_table = make_table<plugin_instance>(name, IRONCL_BUILD_ID);            \
  }                                                                                                                  \
  extern "C" IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor);       \
  extern "C" const ironcl_plugin* ironcl_plugin_query(uint32_t, uint32_t) { return &ironcl::adapter::plugin_table; } \
  static_assert(std::is_same_v<decltype(&ironcl_plugin_query), ironcl_plugin_query_fn>)

// SPDX-License-Identifier: Apache-2.0
// A plugin in one line: IRONCL_DEFINE_PLUGIN("name", make_backend), at file scope of the plugin's only own source.
// Next door: instance.cpp (what a loaded plugin holds), entries.h (the functions of the table).
#pragma once

#include "host/include/ironcl/plugin_ops.h"
#include "ironcl_build_id.h"
#include "plugins/adapter/entries.h"
#include "plugins/adapter/instance.h"

namespace ironcl::adapter {

/// What this library was built with; the host refuses a plugin of another kind by name.
inline constexpr ironcl_sanitizer kSanitizer{
    {sizeof(ironcl_sanitizer), IRONCL_CHAIN_SANITIZER, nullptr}, IRONCL_THIS_SANITIZER, 0};

/// The whole table, as a constant: it is there before any constructor runs.
constexpr ironcl_plugin make_table(const char* name, const char* build_id) {
  ironcl_plugin table{};
  table.struct_size = sizeof(ironcl_plugin);
  table.abi_major = IRONCL_ABI_MAJOR;
  table.abi_minor = IRONCL_ABI_MINOR;
  table.name = name;
  table.build_id = build_id;
  table.extensions = &kSanitizer.chain;
#define IRONCL_ENTRY(slot) table.slot = &Entry<decltype(table.slot)>::call<#slot, &entries::slot>;
  IRONCL_FOR_EACH_SLOT(IRONCL_ENTRY)
#undef IRONCL_ENTRY
  return table;
}

}  // namespace ironcl::adapter

/// Defines the library's one export. `name` is a literal of [a-z0-9_]+; `make_backend` is an adapter::MakeBackend.
#define IRONCL_DEFINE_PLUGIN(name, make_backend)                                                                     \
  namespace ironcl::adapter {                                                                                        \
  constinit const Definition plugin_definition{name, make_backend};                                                  \
  static constinit const ironcl_plugin plugin_table = make_table(name, IRONCL_BUILD_ID);                             \
  }                                                                                                                  \
  extern "C" IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor);       \
  extern "C" const ironcl_plugin* ironcl_plugin_query(uint32_t, uint32_t) { return &ironcl::adapter::plugin_table; } \
  static_assert(std::is_same_v<decltype(&ironcl_plugin_query), ironcl_plugin_query_fn>)

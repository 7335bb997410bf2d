// SPDX-License-Identifier: Apache-2.0
// A plugin's table made whole: a full-size copy whose missing slots answer UNIMPLEMENTED, so that no caller ever
// meets a NULL function. The stub is made from the slot's own type and name; nothing is written by hand for each
// slot. Source of the idea: the layer tables of the OpenCL ICD loader; IREE issue 19223 is what happens without it.
#pragma once

#include <vector>

#include "host/boundary/structs.h"
#include "host/include/ironcl/fields.h"

namespace ironcl::registry {

namespace detail {

using boundary::SlotName;

template <SlotName Name, class Function>
struct Stub;

template <SlotName Name, class... Args>
struct Stub<Name, ironcl_status (*)(Args...)> {
  static ironcl_status call(Args... args) noexcept {
    if (std::string_view(Name.text) == "load") return IRONCL_OK;  // nothing to load
    char message[128];
    std::snprintf(message, sizeof message, "%s: this plugin has no such function; ask another device", Name.text);
    return boundary::fail(boundary::error_of(args...), IRONCL_UNIMPLEMENTED, message);
  }
};

template <SlotName Name, class... Args>
struct Stub<Name, void (*)(Args...)> {
  static void call(Args...) noexcept {}
};

}  // namespace detail

/// A table without holes, and the names of the slots that the plugin left empty or is too short for.
struct CompletedTable {
  ironcl_plugin table{};
  std::vector<std::string_view> missing;

  /// The first slot that every plugin must have and this one lacks; empty where it has them all.
  std::string_view missing_required() const noexcept {
    for (const std::string_view name : missing)
      if (name == "enumerate" || name == "device_props") return name;
    return {};
  }
};

/// Copies what `plugin` has (struct_size bytes at most; slots that a newer minor version appended are left out) and
/// stubs the rest. A slot that struct_size cuts in two counts as missing. The caller has checked that the table is at
/// least as long as the six leading fields and that abi_major is its own. `plugin` itself is not kept.
inline CompletedTable complete_table(const ironcl_plugin& plugin) {
  CompletedTable result;
  const std::size_t size = std::min<std::size_t>(plugin.struct_size, sizeof(ironcl_plugin));
  std::memcpy(&result.table, &plugin, size - size % sizeof(void*));
#define IRONCL_COMPLETE(slot)                                                      \
  if (result.table.slot == nullptr) {                                              \
    result.table.slot = &detail::Stub<#slot, decltype(ironcl_plugin::slot)>::call; \
    result.missing.push_back(#slot);                                               \
  }
  IRONCL_FOR_EACH_SLOT(IRONCL_COMPLETE)
#undef IRONCL_COMPLETE
  result.table.struct_size = sizeof(ironcl_plugin);
  return result;
}

}  // namespace ironcl::registry

// SPDX-License-Identifier: Apache-2.0
// Device URIs: PLUGIN, PLUGIN:INDEX, PLUGIN:TYPE, PLUGIN:TYPE:INDEX or auto. Next door: select.h.
#pragma once

#include "host/registry/text.h"

namespace ironcl::registry {

/// A parsed URI.
struct Uri {
  std::string text;
  std::string plugin;                  ///< empty: auto
  std::optional<std::uint32_t> index;  ///< of the plugin's devices, or of those of `type`
  std::uint32_t type = 0;              ///< IRONCL_DEVICE_*; 0: any
  bool is_auto() const { return plugin.empty(); }
};

/// Throws Refused INVALID_ARGUMENT with the grammar where `text` is not a URI.
Uri parse_uri(std::string_view text);

/// A ','-separated list with at least one URI. Throws Refused INVALID_ARGUMENT.
std::vector<Uri> parse_uri_list(std::string_view text);

}  // namespace ironcl::registry

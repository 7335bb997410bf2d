// SPDX-License-Identifier: Apache-2.0
// Which device runs a problem, and why not the others. Next door: uri.h, docs/discovery.md.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "host/include/ironcl/ironcl.h"
#include "host/registry/registry.h"
#include "host/registry/uri.h"

namespace ironcl::registry {

/// The devices that `uri` names, in the order in which they are tried; "auto" by the rule of ironcl_registry_select.
std::vector<std::uint32_t> match_uri(const Uri& uri, const std::vector<ironcl_device_info>& devices);

/// Implements ironcl_registry_find_device.
Result find_device(const Registry& registry, std::string_view uri, ironcl_device_info& info);

/// Implements ironcl_registry_select; `options` is complete. Calls supports() and visit without a lock.
Result select_device(const Registry& registry, const ironcl_select_options& options, ironcl_device_info& info);

/// A problem as verbose lines, benchmarks and bug reports write it (host/report/problem.h); null: "any problem".
std::string problem_line(const ironcl_gemm_desc* desc);

}  // namespace ironcl::registry

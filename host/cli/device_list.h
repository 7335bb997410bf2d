// SPDX-License-Identifier: Apache-2.0
// Devices by URI, and what to say where there is none.
#pragma once

#include "host/include/ironcl/ironcl.hpp"

namespace ironcl::cli {

/// The devices of those URIs, each once, in that order; every device of the registry where `uris` is empty.
/// Throws CommandError: usage (not a URI), no_device (with those that exist, or why there are none).
std::vector<ironcl::Device> find_devices(const ironcl::Registry& registry, const std::vector<std::string>& uris);

/// The devices of `uris`; where it is empty, all but models.
std::vector<ironcl::Device> real_devices(const ironcl::Registry& registry, const std::vector<std::string>& uris);

/// Why there are no devices: what became of each plugin.
std::string why_no_devices(const ironcl::Registry& registry);

bool is_model(const ironcl::Device& device);

/// Why there is no device but models: what became of each plugin, and what to install.
std::string why_only_models(const ironcl::Registry& registry);

}  // namespace ironcl::cli

// SPDX-License-Identifier: Apache-2.0
// Devices by URI.
#include "host/cli/device_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/cli/exit_status.h"

namespace ironcl::cli {

std::vector<ironcl::Device> find_devices(const ironcl::Registry& registry, const std::vector<std::string>& uris) {
  std::vector<ironcl::Device> devices;
  if (uris.empty()) devices = registry.devices();
  for (const std::string& uri : uris) {
    try {
      ironcl::Device device = registry.device(uri);
      const bool known = std::any_of(devices.begin(), devices.end(),
                                     [&](const ironcl::Device& other) { return other.uri() == device.uri(); });
      if (!known) devices.push_back(std::move(device));
    } catch (const ironcl::Error& error) {
      const bool malformed = error.status() == IRONCL_INVALID_ARGUMENT;
      throw CommandError(malformed ? ExitStatus::usage : ExitStatus::no_device,
                         fmt::format("--device: {}", error.what()));
    }
  }
  if (devices.empty()) throw CommandError(ExitStatus::no_device, why_no_devices(registry));
  return devices;
}

std::string why_no_devices(const ironcl::Registry& registry) {
  std::string text = "there is no device";
  for (const ironcl::PluginInfo& plugin : registry.plugins()) {
    if (plugin.device_count == 0) text += fmt::format("; plugin {}: {}", plugin.name, plugin.enumerate_reason);
  }
  for (const ironcl::ReportEntry& entry : registry.report()) {
    if (entry.outcome != IRONCL_REPORT_REFUSED) continue;
    text += fmt::format("; {} was refused: {}", entry.path, entry.reason);
  }
  return text + "; `ironcl plugins` shows every file that was looked at, IRONCL_PLUGIN_DIRS names further folders";
}

}  // namespace ironcl::cli

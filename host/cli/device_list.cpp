// SPDX-License-Identifier: Apache-2.0
// Devices by URI.
#include "host/cli/device_list.h"

#include <algorithm>

#include "host/cli/command.h"

namespace ironcl::cli {
namespace {

/// "; plugin opencl: no platform; /lib/x.so was refused: ..." of every plugin that gives no device.
std::string plugin_complaints(const ironcl::Registry& registry) {
  std::string text;
  for (const ironcl::PluginInfo& plugin : registry.plugins()) {
    if (plugin.device_count == 0) text += fmt::format("; plugin {}: {}", plugin.name, plugin.enumerate_reason);
  }
  for (const ironcl::ReportEntry& entry : registry.report()) {
    if (entry.outcome == IRONCL_REPORT_REFUSED)
      text += fmt::format("; {} was refused: {}", entry.path, entry.reason);
    else if (entry.outcome == IRONCL_REPORT_DISABLED)
      text += fmt::format("; {} was disabled by name (IRONCL_DISABLE)", entry.path);
  }
  return text;
}

}  // namespace

std::vector<ironcl::Device> find_devices(const ironcl::Registry& registry, const std::vector<std::string>& uris) {
  std::vector<ironcl::Device> devices;
  if (uris.empty()) devices = registry.devices();
  for (const std::string& uri : uris) {
    try {
      ironcl::Device device = registry.device(uri);
      const bool known = std::ranges::find(devices, device.uri(), &ironcl::Device::uri) != devices.end();
      if (!known) devices.push_back(std::move(device));
    } catch (const ironcl::Error& error) {
      const bool malformed = error.status() == IRONCL_INVALID_ARGUMENT;
      fail(malformed ? ExitStatus::usage : ExitStatus::no_device, "--device: {}", error.what());
    }
  }
  if (devices.empty()) fail(ExitStatus::no_device, "{}", why_no_devices(registry));
  return devices;
}

std::vector<ironcl::Device> real_devices(const ironcl::Registry& registry, const std::vector<std::string>& uris) {
  std::vector<ironcl::Device> all = find_devices(registry, uris);
  if (uris.empty()) std::erase_if(all, is_model);
  if (all.empty()) fail(ExitStatus::no_device, "{}", why_no_devices(registry));
  return all;
}

bool is_model(const ironcl::Device& device) { return device.props().type == IRONCL_DEVICE_MODEL; }

std::string why_only_models(const ironcl::Registry& registry) {
  return fmt::format(
      "no device to compare with, only the model was found{}. For a CPU, Debian has an OpenCL device in the packages "
      "ocl-icd-libopencl1 and pocl-opencl-icd; for a GPU, its vendor's OpenCL driver is needed. `ironcl plugins` "
      "shows every file that was looked at",
      plugin_complaints(registry));
}

std::string why_no_devices(const ironcl::Registry& registry) {
  return fmt::format(
      "there is no device{}; `ironcl plugins` shows every file that was looked at, IRONCL_PLUGIN_DIRS names further "
      "folders",
      plugin_complaints(registry));
}

}  // namespace ironcl::cli

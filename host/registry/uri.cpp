// SPDX-License-Identifier: Apache-2.0
#include "host/registry/uri.h"

namespace ironcl::registry {
namespace {

bool parse_index(std::string_view text, std::optional<std::uint32_t>& index) {
  return (index = words::number<std::uint32_t>(text)).has_value();
}

std::uint32_t parse_type(std::string_view text) {
  for (const std::uint32_t type :
       {IRONCL_DEVICE_CPU, IRONCL_DEVICE_GPU, IRONCL_DEVICE_ACCELERATOR, IRONCL_DEVICE_MODEL}) {
    if (text == device_type_name(type)) return type;
  }
  return 0;
}

bool parse_parts(std::string_view text, Uri& uri) {
  if (text == "auto") return true;
  const auto parts = words::split(text, ':');
  uri.plugin = parts[0];
  if (!is_plugin_name(uri.plugin) || uri.plugin == "auto" || parts.size() > 3) return false;
  if (parts.size() == 1) return true;
  if (parts.size() == 2 && parse_index(parts[1], uri.index)) return true;
  uri.type = parse_type(parts[1]);
  if (uri.type == 0) return false;
  return parts.size() == 2 || parse_index(parts[2], uri.index);
}

}  // namespace

Result parse_uri(std::string_view text, Uri& uri) {
  Uri result{.text = std::string(text), .plugin = {}, .index = {}, .type = 0};
  if (!parse_parts(text, result))
    return {
        IRONCL_INVALID_ARGUMENT,
        fmt::format("'{}' is not a device URI; write PLUGIN, PLUGIN:INDEX, PLUGIN:TYPE, PLUGIN:TYPE:INDEX or auto, "
                    "with TYPE one of cpu, gpu, accelerator, model: opencl:0, opencl:gpu, opencl:cpu:1, ironwood:0",
                    result.text)};
  uri = std::move(result);
  return {};
}

Result parse_uri_list(std::string_view text, std::vector<Uri>& uris) {
  std::vector<Uri> result;
  for (const std::string& part : split(text, ',')) {
    if (Result parsed = parse_uri(part, result.emplace_back()); !parsed.ok()) return parsed;
  }
  if (result.empty()) return {IRONCL_INVALID_ARGUMENT, fmt::format("'{}' names no device", text)};
  uris = std::move(result);
  return {};
}

}  // namespace ironcl::registry

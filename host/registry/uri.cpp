// SPDX-License-Identifier: Apache-2.0
#include "host/registry/uri.h"

#include "host/include/ironcl/ironcl.h"

namespace ironcl::registry {
namespace {

std::uint32_t parse_type(std::string_view text) {
  for (const std::uint32_t type :
       {IRONCL_DEVICE_CPU, IRONCL_DEVICE_GPU, IRONCL_DEVICE_ACCELERATOR, IRONCL_DEVICE_MODEL}) {
    if (text == ironcl_device_type_name(type)) return type;
  }
  return 0;
}

bool parse_parts(std::string_view text, Uri& uri) {
  const auto is_index = [&](std::string_view part) {
    return (uri.index = words::number<std::uint32_t>(part)).has_value();
  };
  if (text == "auto") return true;
  const auto parts = words::split(text, ':');
  uri.plugin = parts[0];
  if (!is_plugin_name(uri.plugin) || uri.plugin == "auto" || parts.size() > 3) return false;
  if (parts.size() == 1) return true;
  if (parts.size() == 2 && is_index(parts[1])) return true;
  uri.type = parse_type(parts[1]);
  if (uri.type == 0) return false;
  return parts.size() == 2 || is_index(parts[2]);
}

}  // namespace

Uri parse_uri(std::string_view text) {
  Uri uri{.text = std::string(text), .plugin = {}, .index = {}, .type = 0};
  if (!parse_parts(text, uri))
    boundary::invalid(
        "'{}' is not a device URI; write PLUGIN, PLUGIN:INDEX, PLUGIN:TYPE, PLUGIN:TYPE:INDEX or auto, with TYPE one "
        "of cpu, gpu, accelerator, model: opencl:0, opencl:gpu, opencl:cpu:1, ironwood:0",
        text);
  return uri;
}

std::vector<Uri> parse_uri_list(std::string_view text) {
  std::vector<Uri> uris = words::each(split(text, ','), parse_uri);
  if (uris.empty()) boundary::invalid("'{}' names no device", text);
  return uris;
}

}  // namespace ironcl::registry

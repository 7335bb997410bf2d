// SPDX-License-Identifier: Apache-2.0
// What a plugin answers to a query about its device, as JSON.
#pragma once

#include <fmt/format.h>

#include <boost/json.hpp>
#include <optional>
#include <string>

#include "host/include/ironcl/ironcl.hpp"

namespace ironcl::tuning {

/// What `read` makes of the answer to `key`; nothing where the plugin has none. Throws ironcl::Error: INTERNAL where
/// the answer is not JSON, or not what `read` expects of it; else as the device's query() does.
template <class Read>
auto answer_of(const Device& device, const std::string& key, Read&& read)
    -> std::optional<decltype(read(boost::json::value()))> {
  std::string text;
  try {
    text = device.query(key);
  } catch (const Error& error) {
    if (error.status() != IRONCL_UNIMPLEMENTED) throw;
    return std::nullopt;
  }
  try {
    return read(boost::json::parse(text));
  } catch (const std::exception& error) {
    throw Error(
        IRONCL_INTERNAL, 0,
        fmt::format("{}: plugin {} answers the query \"{}\" with \"{}\", which it must not ({}); IRONCL_DISABLE={} "
                    "leaves the plugin out",
                    device.uri(), device.plugin(), key, text.substr(0, 60), error.what(), device.plugin()));
  }
}

}  // namespace ironcl::tuning

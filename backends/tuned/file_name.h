// SPDX-License-Identifier: Apache-2.0
// What the names of all tables have in common: sizes, and the end ",device_name=...,dtype=...,block_shape=[128,128]".
// Next door: table.h, experts_table.h (the names).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/words.h"

namespace ironcl::tuned {

/// A size, 1 or more; nothing where `text` is none.
inline std::optional<std::int64_t> size_of(std::string_view text) {
  const auto size = words::number<std::int64_t>(text);
  return size && *size >= 1 ? size : std::nullopt;
}

/// The size before `mark`, which goes with it; nothing where there is none.
inline std::optional<std::int64_t> take_size(std::string_view& text, std::string_view mark) {
  const auto digits = words::take_before(text, mark);
  return digits ? size_of(*digits) : std::nullopt;
}

/// The part from the device's name to the bracket behind the block.
struct NameEnd {
  std::string device, dtype;
  std::int64_t group_rows = 0, group_cols = 0;

  std::string text() const {
    return ",device_name=" + device + ",dtype=" + dtype + ",block_shape=[" + std::to_string(group_rows) + "," +
           std::to_string(group_cols) + "]";
  }
};

/// Takes it off the front of `text`, which begins behind ",device_name="; nothing where it is not there.
inline std::optional<NameEnd> take_name_end(std::string_view& text) {
  const auto device = words::take_before(text, ",dtype=");
  const auto dtype = device ? words::take_before(text, ",block_shape=[") : std::nullopt;
  const auto rows = dtype ? take_size(text, ",") : std::nullopt;
  if (!rows) return std::nullopt;
  if (text.starts_with(' ')) text.remove_prefix(1);
  const auto cols = take_size(text, "]");
  if (!cols || device->empty() || dtype->empty()) return std::nullopt;
  return NameEnd{std::string(*device), std::string(*dtype), *rows, *cols};
}

}  // namespace ironcl::tuned

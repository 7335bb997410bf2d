// SPDX-License-Identifier: Apache-2.0
// Small text helpers of the registry: lists, names, the status that carries a message. Next door: log.h, uri.h.
#pragma once

#include "backends/words.h"
#include "host/boundary/structs.h"
#include "host/report/visible.h"

namespace ironcl::registry {

using boundary::refuse;
using boundary::Refused;

/// A status with its message. OK has no message.
struct Result {
  ironcl_status status = IRONCL_OK;
  std::string message{};
  std::int32_t native_code = 0;
  bool ok() const { return status == IRONCL_OK; }
};

/// What `function` is refused with; OK where it is not.
template <class Function>
Result result_of(Function&& function) {
  try {
    function();
    return {};
  } catch (const Refused& refused) {
    return {refused.status(), refused.what(), refused.native_code()};
  } catch (const std::bad_alloc&) {
    return {IRONCL_OUT_OF_HOST_MEMORY, "the host is out of memory"};
  } catch (const std::exception& error) {
    return {IRONCL_INTERNAL, error.what()};
  }
}

/// Throws Refused where the result is not OK.
inline void check(const Result& result) {
  if (!result.ok()) throw Refused(result.status, result.message, result.native_code);
}

/// The parts of `text` between separators; empty parts are left out.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (const std::string_view part : words::split(text, separator))
    if (!part.empty()) parts.emplace_back(part);
  return parts;
}

template <class Range>
std::string join(const Range& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

/// True for [a-z0-9_]+ of at most 32 characters: what a plugin may be called.
inline bool is_plugin_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

/// A field of a line of comma-separated values: quoted where it has to be, on one line, with control characters made
/// visible (host/report/visible.h).
inline std::string csv_field(std::string_view text) {
  std::string line = report::csv_quoted(std::string(text));
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  return report::visible(line);
}

}  // namespace ironcl::registry

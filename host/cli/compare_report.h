// SPDX-License-Identifier: Apache-2.0
// What compare found, as JSON and as text. Next door: host/layer/judge.h (the data).
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "host/cli/exit_status.h"
#include "host/layer/judge.h"

namespace ironcl::cli {

/// A whole run of compare.
struct CompareReport {
  std::string path;          ///< As given.
  std::string command_tail;  ///< The options that give the same activations and output type, ready to be pasted.
  std::vector<layer::CaseReport> cases;

  /// pass: something was computed for every layer, and everything is within bounds.
  bool pass() const noexcept;
  ExitStatus status() const noexcept;
};

/// {"verdict", "cases": [...]}; docs/command.md has every key.
boost::json::object to_json(const CompareReport& report);

/// Tables and a verdict for people; lines of `width` characters at most where that is possible, 0: no limit.
std::string to_text(const CompareReport& report, std::size_t width);

/// The command that runs one layer on one device again.
std::string reproduction(const CompareReport& report, const std::string& layer, const std::string& uri);

/// `text` as one word of a shell command.
std::string shell_word(const std::string& text);

}  // namespace ironcl::cli

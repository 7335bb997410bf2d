// SPDX-License-Identifier: Apache-2.0
// Exit statuses by cause.
#include "host/cli/exit_status_table.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <sstream>

namespace ironcl::cli {
namespace {

using Causes = std::array<std::string, 5>;

/// "  3  bad input: ...": the status, then its cause, which may go on in further lines.
Causes causes_of(const std::string& lines) {
  Causes causes;
  std::string* cause = nullptr;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    std::size_t at = line.find_first_not_of(' ');
    if (at == std::string::npos) continue;
    if (at == 2 && line[at] >= '0' && line[at] <= '4' && line.compare(at + 1, 2, "  ") == 0) {
      cause = &causes[static_cast<std::size_t>(line[at] - '0')];
      at += 3;
    }
    if (cause != nullptr) *cause += (cause->empty() ? "" : " ") + line.substr(at);
  }
  return causes;
}

}  // namespace

std::string exit_status_table(const std::vector<CommandInterface>& commands) {
  std::string text = "| command | 0 | 1 | 2 | 3 | 4 |\n|---|---|---|---|---|---|\n";
  for (const CommandInterface& command : commands) {
    text += fmt::format("| `{}` |", command.name);
    for (std::string cause : causes_of(command.exit_status)) {
      for (std::size_t at = 0; (at = cause.find('|', at)) != std::string::npos; at += 2) cause.insert(at, 1, '\\');
      text += cause.empty() ? " |" : fmt::format(" {} |", cause);
    }
    text += "\n";
  }
  return text;
}

}  // namespace ironcl::cli

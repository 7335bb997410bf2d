// SPDX-License-Identifier: Apache-2.0
// The exit statuses of the ironcl command, and the exception that carries one. Next door: command.h.
#pragma once

#include <stdexcept>
#include <string>

namespace ironcl::cli {

/// What every subcommand exits with; docs/command.md has the table for users.
enum class ExitStatus : int {
  ok = 0,             ///< Done; where something was compared: all of it within bounds.
  out_of_bounds = 1,  ///< A result is wrong, or a device failed while it computed.
  usage = 2,          ///< The command line is not right.
  bad_input = 3,      ///< A file cannot be read, written or understood.
  no_device = 4,      ///< No device, or none that runs the problem: nothing was computed.
};

/// Ends a command with `status`; what() says what is wrong, where, and what to do.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitStatus status, const std::string& text) : std::runtime_error(text), status_(status) {}
  ExitStatus status() const noexcept { return status_; }

 private:
  ExitStatus status_;
};

}  // namespace ironcl::cli

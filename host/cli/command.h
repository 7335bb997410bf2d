// SPDX-License-Identifier: Apache-2.0
// A subcommand of ironcl: one file that defines a Command and its maker, and one line in commands.cpp.
// Next door: exit_status.h, main.cpp (parses, runs, turns failures into messages and exit statuses).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/cli/exit_status.h"

namespace CLI {
class App;
}

namespace ironcl::cli {

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;  ///< One line for `ironcl --help`.
  /// Adds options, examples and what the exit status means to the subcommand's own parser. Option values live in the
  /// command, which outlives the parser.
  virtual void declare(CLI::App& app) = 0;
  /// Does the work; called once, after parsing. Results go to the standard output. Throws CommandError,
  /// checkpoint::Error, ironcl::Error or another std::exception; main.cpp has the statuses.
  virtual ExitStatus run() = 0;
};

/// Every subcommand, in the order of `ironcl --help`.
std::vector<std::unique_ptr<Command>> all_commands();

std::unique_ptr<Command> make_devices_command();
std::unique_ptr<Command> make_plugins_command();
std::unique_ptr<Command> make_inspect_command();
std::unique_ptr<Command> make_compare_command();
std::unique_ptr<Command> make_run_command();
std::unique_ptr<Command> make_model_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_tune_command();

}  // namespace ironcl::cli

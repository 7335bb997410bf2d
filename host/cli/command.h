// SPDX-License-Identifier: Apache-2.0
// A subcommand of ironcl: one file that defines a Command and its maker, and its name in command_line.cpp. What it
// exits with, the exception that carries that, and the command line. Next door: main.cpp (runs it, turns failures
// into messages).
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

/// Throws CommandError.
template <class... Args>
[[noreturn]] void fail(ExitStatus status, fmt::format_string<Args...> text, Args&&... args) {
  throw CommandError(status, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void usage(fmt::format_string<Args...> text, Args&&... args) {
  fail(ExitStatus::usage, text, std::forward<Args>(args)...);
}

/// What `parse` returns; what it throws as std::invalid_argument is usage, named by `option`.
template <class Parse>
auto or_usage(const std::string& option, Parse parse) {
  try {
    return parse();
  } catch (const std::invalid_argument& error) {
    usage("{}: {}", option, error.what());
  }
}

/// A subcommand: the parser of its own words, whose option values live in it.
class Command : public CLI::App {
 public:
  /// Does the work; called once, after parsing. Results go to the standard output. Throws CommandError,
  /// checkpoint::Error, ironcl::Error or another std::exception; main.cpp has the statuses.
  virtual ExitStatus run() = 0;

 protected:
  /// `summary`: one line for `ironcl --help`; `examples`: lines for its own help.
  Command(const std::string& name, const std::string& summary, const std::string& examples);
};

/// Every subcommand, in the order of `ironcl --help`.
std::vector<std::shared_ptr<Command>> all_commands();

/// The parser of the command: from words to a subcommand that is ready to run, or to help.
class CommandLine {
 public:
  CommandLine();

  /// Reads the words after the program's name, once: null where `text` is to be shown. Throws CommandError usage,
  /// which names the word and says what may stand there.
  Command* parse(std::vector<std::string> words, std::string& text);
  std::string entered() const;  ///< The subcommand that words named, empty before.
  std::string help() const { return parser_.help(); }

 private:
  std::string what_is_wrong(const std::string& text) const;

  CLI::App parser_;
};

std::shared_ptr<Command> make_devices_command();
std::shared_ptr<Command> make_plugins_command();
std::shared_ptr<Command> make_inspect_command();
std::shared_ptr<Command> make_compare_command();
std::shared_ptr<Command> make_run_command();
std::shared_ptr<Command> make_model_command();
std::shared_ptr<Command> make_bench_command();
std::shared_ptr<Command> make_tune_command();
std::shared_ptr<Command> make_quantize_command();
std::shared_ptr<Command> make_accuracy_command();

}  // namespace ironcl::cli

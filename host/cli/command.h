// SPDX-License-Identifier: Apache-2.0
// A subcommand of ironcl: one file that defines a Command and its maker, and its name in command_line.cpp. What it
// exits with, the exception that carries that, and the command line. Next door: main.cpp (runs it, turns failures
// into messages).
#pragma once

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

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

class Command {
 public:
  virtual ~Command() = default;
  const std::string& name() const noexcept { return name_; }
  const std::string& summary() const noexcept { return summary_; }
  const std::string& examples() const noexcept { return examples_; }
  /// Adds options to the subcommand's own parser. Option values live in the command, which outlives the parser.
  virtual void declare(CLI::App& app) = 0;
  /// Does the work; called once, after parsing. Results go to the standard output. Throws CommandError,
  /// checkpoint::Error, ironcl::Error or another std::exception; main.cpp has the statuses.
  virtual ExitStatus run() = 0;

 protected:
  /// `summary`: one line for `ironcl --help`; `examples`: lines for its own help.
  Command(std::string name, std::string summary, std::string examples)
      : name_(std::move(name)), summary_(std::move(summary)), examples_(std::move(examples)) {}

 private:
  std::string name_, summary_, examples_;
};

/// Every subcommand, in the order of `ironcl --help`.
std::vector<std::unique_ptr<Command>> all_commands();

/// The parsers of the command and of its subcommands: from words to a subcommand that is ready to run, or to help.
class CommandLine {
 public:
  CommandLine();
  ~CommandLine();

  /// Reads the words after the program's name, once: null where `text` is to be shown. Throws CommandError usage,
  /// which names the word and says what may stand there.
  Command* parse(std::vector<std::string> words, std::string& text);
  std::string entered() const;  ///< The subcommand that words named, empty before.
  std::string help() const;

 private:
  std::string what_is_wrong(const std::string& text) const;

  std::vector<std::unique_ptr<Command>> commands_;
  std::unique_ptr<CLI::App> parser_;
};

std::unique_ptr<Command> make_devices_command();
std::unique_ptr<Command> make_plugins_command();
std::unique_ptr<Command> make_inspect_command();
std::unique_ptr<Command> make_compare_command();
std::unique_ptr<Command> make_run_command();
std::unique_ptr<Command> make_model_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_tune_command();
std::unique_ptr<Command> make_quantize_command();
std::unique_ptr<Command> make_accuracy_command();

}  // namespace ironcl::cli

// SPDX-License-Identifier: Apache-2.0
// The parsers of the command and of its subcommands: from words to a subcommand that is ready to run, or to help.
// Next door: command.h (a subcommand), main.cpp (runs it).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/cli/command.h"

namespace ironcl::cli {

/// A command line that is not right: what() names the word and says what may stand there.
class UsageError : public std::runtime_error {
 public:
  UsageError(std::string command, const std::string& text) : std::runtime_error(text), command_(std::move(command)) {}
  const std::string& command() const noexcept { return command_; }  ///< The subcommand; empty where there is none.

 private:
  std::string command_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// What the words ask for: a subcommand with its options set, or a text to be shown.
  struct Request {
    Command* command = nullptr;
    std::string text;
  };
  /// Reads the words after the program's name. Call it once. Throws UsageError.
  Request parse(std::vector<std::string> words);

  std::string help() const;
  const CLI::App& parser() const noexcept { return *parser_; }

 private:
  std::string what_is_wrong(const std::string& command, const std::string& text) const;

  std::vector<std::unique_ptr<Command>> commands_;
  std::unique_ptr<CLI::App> parser_;
};

}  // namespace ironcl::cli

// SPDX-License-Identifier: Apache-2.0
// The command line as data, taken from what the parsers were told: man pages, completions and suggestions are made of
// it, so none of them can say anything else. Next door: command_line.h (the parsers), documents.h.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ironcl::cli {

/// What may stand behind an option, as far as a shell can help with it.
enum class ValueKind { none, file, folder, choice, other };

/// An option, or a word without a name (a positional).
struct OptionInterface {
  std::vector<std::string> names;  ///< "--json", "-h"; the word's name where it is a positional: "PATH".
  bool positional = false;
  bool required = false;
  bool repeatable = false;
  ValueKind kind = ValueKind::none;  ///< none: a flag.
  std::string value;                 ///< "FILE", "M,N,K", "f32|bf16|f16"; "[FILE]" where it may be left out.
  std::vector<std::string> choices;  ///< Of ValueKind::choice.
  std::string help;                  ///< One line.
  std::string default_text;          ///< Empty: none.
};

struct CommandInterface {
  std::string name, summary;
  std::vector<OptionInterface> options;    ///< Positionals among them, --help last.
  std::string examples;                    ///< Lines as --help shows them.
  std::map<int, std::string> exit_status;  ///< What each means.

  /// "--json", "--help", ...; no positionals.
  std::vector<std::string> option_names() const;
};

/// The interface of one parser, and of its subcommands in their order.
CommandInterface interface_of(const CLI::App& parser);
std::vector<CommandInterface> interfaces_of_subcommands(const CLI::App& parser);

}  // namespace ironcl::cli

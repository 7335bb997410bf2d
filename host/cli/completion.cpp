// SPDX-License-Identifier: Apache-2.0
// Completion of the command line in bash, zsh and fish; the table of exit statuses.
#include "host/cli/documents.h"

#include <fmt/format.h>

#include <boost/algorithm/string/replace.hpp>

namespace ironcl::cli {
namespace {

constexpr const char* kMade = "made of the command's own definitions of its options; do not edit";

std::string names_of(const std::vector<CommandInterface>& commands, const char* separator) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandInterface& command : commands) names.push_back(command.name);
  return fmt::format("{}", fmt::join(names, separator));
}

/// Inside '...' of any of these shells.
std::string quoted(const std::string& text) {
  return "'" + boost::algorithm::replace_all_copy(text, "'", "'\\''") + "'";
}

/// Help inside an _arguments specification of zsh, where brackets and colons mean something.
std::string zsh_help(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

bool may_be_left_out(const OptionInterface& option) { return option.value.starts_with("["); }

std::string zsh_action(const OptionInterface& option) {
  switch (option.kind) {
    case ValueKind::file:
      return "_files";
    case ValueKind::folder:
      return "_files -/";
    case ValueKind::choice:
      return fmt::format("({})", fmt::join(option.choices, " "));
    default:
      return " ";
  }
}

}  // namespace

std::string bash_completion(const std::vector<CommandInterface>& commands) {
  std::string text = fmt::format(
      "# bash completion of ironcl, {}\n"
      "_ironcl() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= word words=\n"
      "  COMPREPLY=()\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case $word in {}) command=$word; break ;; esac\n"
      "  done\n"
      "  case $command in\n"
      "    '') words='{} help --help --version' ;;\n",
      kMade, names_of(commands, "|"), names_of(commands, " "));
  for (const CommandInterface& command : commands) {
    text += fmt::format("    {})\n      case $previous in\n", command.name);
    bool takes_files = false;
    for (const OptionInterface& option : command.options) {
      takes_files = takes_files || (option.positional && option.kind == ValueKind::file);
      if (option.positional || option.kind == ValueKind::none) continue;
      std::string action = "return ;;";
      if (option.kind == ValueKind::file) action = "_ironcl_files -f; return ;;";
      if (option.kind == ValueKind::folder) action = "_ironcl_files -d; return ;;";
      if (option.kind == ValueKind::choice)
        action =
            fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;", fmt::join(option.choices, " "));
      if (may_be_left_out(option)) action = "[[ $current == -?* ]] || { _ironcl_files -f; return; } ;;";
      text += fmt::format("        {}) {}\n", fmt::join(option.names, "|"), action);
    }
    text += fmt::format("      esac\n      words='{}'\n", fmt::join(command.option_names(), " "));
    if (takes_files) text += "      [[ $current == -* ]] || { _ironcl_files -f; return; }\n";
    text += "      ;;\n";
  }
  return text +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "_ironcl_files() {\n"
         "  compopt -o filenames 2>/dev/null\n"
         "  mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$current\")\n"
         "}\n"
         "complete -F _ironcl ironcl\n";
}

std::string zsh_completion(const std::vector<CommandInterface>& commands) {
  std::string text = fmt::format(
      "#compdef ironcl\n# zsh completion of ironcl, {}\n"
      "_ironcl() {{\n"
      "  local -a commands\n  commands=(\n",
      kMade);
  for (const CommandInterface& command : commands)
    text += fmt::format("    {}\n", quoted(command.name + ":" + zsh_help(command.summary)));
  text +=
      "    'help:Options, defaults and examples of one command'\n  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe -t commands 'ironcl command' commands\n"
      "    _arguments '--help[Print this help message and exit]' '--version[Print the version and exit]'\n"
      "    return\n  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n  (( CURRENT-- ))\n"
      "  case $command in\n"
      "    help) _describe -t commands 'ironcl command' commands ;;\n";
  for (const CommandInterface& command : commands) {
    text += fmt::format("    {})\n      _arguments -S", command.name);
    for (const OptionInterface& option : command.options) {
      std::string value;
      if (option.kind != ValueKind::none)
        value =
            fmt::format("{}{}:{}", may_be_left_out(option) ? "::" : ":", zsh_help(option.value), zsh_action(option));
      if (option.positional) {
        text += " \\\n        " + quoted("1" + value);
        continue;
      }
      for (const std::string& name : option.names)
        text += " \\\n        " +
                quoted(fmt::format("{}{}[{}]{}", option.repeatable ? "*" : "", name, zsh_help(option.help), value));
    }
    text += " ;;\n";
  }
  return text + "  esac\n}\n_ironcl \"$@\"\n";
}

std::string fish_completion(const std::vector<CommandInterface>& commands) {
  std::string text = fmt::format("# fish completion of ironcl, {}\ncomplete -c ironcl -f\n", kMade);
  const std::string none = quoted("not __fish_seen_subcommand_from " + names_of(commands, " ") + " help");
  for (const CommandInterface& command : commands)
    text += fmt::format("complete -c ironcl -n {} -a {} -d {}\n", none, command.name, quoted(command.summary));
  text += fmt::format("complete -c ironcl -n {} -a help -d 'Options, defaults and examples of one command'\n", none);
  text += fmt::format("complete -c ironcl -n {} -l help -d 'Print this help message and exit'\n", none);
  text += fmt::format("complete -c ironcl -n {} -l version -d 'Print the version and exit'\n", none);
  text += fmt::format("complete -c ironcl -n '__fish_seen_subcommand_from help' -a {}\n",
                      quoted(names_of(commands, " ")));
  for (const CommandInterface& command : commands) {
    const std::string here = quoted("__fish_seen_subcommand_from " + command.name);
    for (const OptionInterface& option : command.options) {
      if (option.positional) {
        if (option.kind == ValueKind::file) text += fmt::format("complete -c ironcl -n {} -F\n", here);
        continue;
      }
      std::string line = fmt::format("complete -c ironcl -n {}", here);
      for (const std::string& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.kind == ValueKind::choice) {
        line += " -x -a " + quoted(fmt::format("{}", fmt::join(option.choices, " ")));
      } else if (may_be_left_out(option)) {
        line += " -F";
      } else if (option.kind == ValueKind::file || option.kind == ValueKind::folder) {
        line += " -r -F";
      } else if (option.kind == ValueKind::other) {
        line += " -x";
      }
      text += line + " -d " + quoted(option.help) + "\n";
    }
  }
  return text;
}

std::string exit_status_table(const std::vector<CommandInterface>& commands) {
  std::string text = "| command | 0 | 1 | 2 | 3 | 4 |\n|---|---|---|---|---|---|\n";
  for (const CommandInterface& command : commands) {
    text += fmt::format("| `{}` |", command.name);
    for (int status = 0; status <= 4; ++status) {
      const auto at = command.exit_status.find(status);
      const std::string meaning = at == command.exit_status.end() ? "" : " " + at->second;
      text += boost::algorithm::replace_all_copy(meaning, "|", "\\|") + " |";
    }
    text += "\n";
  }
  return text;
}

}  // namespace ironcl::cli

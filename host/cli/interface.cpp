// SPDX-License-Identifier: Apache-2.0
// The command line as data.
#include "host/cli/interface.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "backends/words.h"

namespace ironcl::cli {
namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  const auto parts = words::split(text, separator);
  return {parts.begin(), parts.end()};
}

bool is_plain_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == '-';
  });
}

/// {a,b} of a check's description, or a|b of a value's text.
std::vector<std::string> choices_of(const std::string& type, const std::string& value) {
  if (const std::size_t begin = type.find('{'); begin != std::string::npos)
    return split(std::string_view(type).substr(begin + 1, type.find('}', begin) - begin - 1), ',');
  const std::vector<std::string> words = split(value, '|');
  return words.size() > 1 && std::all_of(words.begin(), words.end(), is_plain_word) ? words
                                                                                    : std::vector<std::string>();
}

/// What the parser's types are called for readers.
std::string value_of(const CLI::Option& option, const std::vector<std::string>& choices) {
  const std::string& text = option.get_option_text();
  if (text.find_first_not_of(' ') != std::string::npos) return text;
  if (!choices.empty()) return fmt::format("{}", fmt::join(choices, "|"));
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") ? "N" : type.starts_with("FLOAT") ? "X" : "TEXT";
}

ValueKind kind_of(const OptionInterface& option) {
  std::string_view value = option.value;
  if (value.starts_with("[")) value.remove_prefix(1);
  if (!option.choices.empty()) return ValueKind::choice;
  if (value.starts_with("FILE") || value.starts_with("PATH") || value.ends_with(".json")) return ValueKind::file;
  if (value.starts_with("DIR")) return ValueKind::folder;
  return ValueKind::other;
}

/// Of lines "  3  bad input: ...": the status, then what it means, which may go on in further lines.
std::map<int, std::string> exit_status_of(const std::string& lines) {
  std::map<int, std::string> meanings;
  std::string* meaning = nullptr;
  for (std::string_view line : words::split(lines, '\n')) {
    if (line.size() > 5 && line.starts_with("  ") && line[2] >= '0' && line[2] <= '9') {
      meaning = &meanings[line[2] - '0'];
      line.remove_prefix(3);
    }
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (meaning != nullptr && !line.empty()) meaning->append(meaning->empty() ? "" : " ").append(line);
  }
  return meanings;
}

OptionInterface interface_of(const CLI::Option& option) {
  OptionInterface result;
  result.positional = option.get_positional();
  if (result.positional) {
    result.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  }
  result.required = option.get_required();
  result.help = one_line(option.get_description());
  result.default_text = option.get_default_str();
  if (option.get_items_expected_max() == 0) return result;
  // A value that may be left out is written as one that is: the default is what leaving it out means.
  if (option.get_expected_min() == 0) result.default_text.clear();
  result.repeatable =
      option.get_items_expected_max() > 1 || option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  result.choices = choices_of(option.get_type_name(), option.get_option_text());
  result.value = result.positional ? result.names.front() : value_of(option, result.choices);
  result.kind = kind_of(result);
  return result;
}

}  // namespace

std::vector<std::string> CommandInterface::option_names() const {
  std::vector<std::string> all;
  for (const OptionInterface& option : options) {
    if (!option.positional) all.insert(all.end(), option.names.begin(), option.names.end());
  }
  return all;
}

CommandInterface interface_of(const CLI::App& parser) {
  CommandInterface result;
  result.name = parser.get_name();
  result.summary = parser.get_description();
  OptionInterface help;
  for (const CLI::Option* option : parser.get_options()) {
    if (option->get_group().empty()) continue;  // not in the help: an older name that is still understood
    (option == parser.get_help_ptr() ? help : result.options.emplace_back()) = interface_of(*option);
  }
  result.options.push_back(help);
  // The footer is "\nExamples\n...\nExit status\n...".
  constexpr std::string_view kExamples = "Examples\n", kExitStatus = "\nExit status\n";
  const std::string& footer = parser.get_footer();
  const std::size_t examples = footer.find(kExamples), exit_status = footer.find(kExitStatus);
  if (examples != std::string::npos && exit_status != std::string::npos) {
    result.examples = footer.substr(examples + kExamples.size(), exit_status - examples - kExamples.size());
  }
  if (exit_status != std::string::npos)
    result.exit_status = exit_status_of(footer.substr(exit_status + kExitStatus.size()));
  return result;
}

std::vector<CommandInterface> interfaces_of_subcommands(const CLI::App& parser) {
  std::vector<CommandInterface> all;
  for (const CLI::App* subcommand : parser.get_subcommands([](const CLI::App*) { return true; })) {
    all.push_back(interface_of(*subcommand));
  }
  return all;
}

}  // namespace ironcl::cli

// SPDX-License-Identifier: Apache-2.0
// Man pages in the macros of man(7).
#include "host/cli/documents.h"

#include <fmt/format.h>

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/replace.hpp>

namespace ironcl::cli {
namespace {

/// Text that means itself: roff takes a backslash, and a dot or quote in front of a line, for its own.
std::string plain(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";  // a hyphen that can be copied into a shell
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

std::string head(const std::string& page, const std::string& summary, const std::string& version) {
  return fmt::format(
      ".\\\" Made of the command's own definitions of its options; do not edit.\n"
      ".TH {} 1 \"\" \"{}\" \"IronCL\"\n.ad l\n.SH NAME\n{} \\- {}\n",
      plain(boost::algorithm::to_upper_copy(page)), plain("ironcl " + version), plain(page), plain(summary));
}

/// The parser's "[1,2,4]" as "1, 2, 4", which can be broken into lines.
std::string list_text(const std::string& text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return text;
  return boost::algorithm::replace_all_copy(text.substr(1, text.size() - 2), ",", ", ");
}

std::string option_text(const OptionInterface& option) {
  std::vector<std::string> printed;
  for (const std::string& name : option.names) printed.push_back(bold(name));
  std::string names = fmt::format("{}", fmt::join(printed, ", "));
  if (option.positional) names = italic(option.names.front());
  if (!option.positional && !option.value.empty()) names += " " + italic(option.value);
  std::string text = ".TP\n" + names + "\n" + plain(option.help);
  if (!option.choices.empty()) {
    text += plain(fmt::format("; one of {}", fmt::join(option.choices, ", ")));
  }
  if (!option.default_text.empty()) text += plain(fmt::format(" (default: {})", list_text(option.default_text)));
  return text + "\n";
}

std::string exit_status_text(const std::map<int, std::string>& meanings) {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [status, meaning] : meanings) text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", status, plain(meaning));
  return text;
}

std::string examples_text(const std::string& lines) {
  return lines.empty() ? std::string()
                       : ".SH EXAMPLES\n.nf\n" + plain(lines) + (lines.ends_with('\n') ? "" : "\n") + ".fi\n";
}

constexpr const char* kEnvironment =
    ".SH ENVIRONMENT\n"
    "\\fBIRONCL_PLUGIN_FILES\\fR, \\fBIRONCL_PLUGIN_DIRS\\fR and \\fBIRONCL_DISABLE\\fR say which plugins are "
    "loaded,\n"
    "\\fBIRONCL_DEVICE\\fR which device is preferred, \\fBIRONCL_VERBOSE\\fR what is logged;\n"
    "environment.md in the documentation has all of them.\n";

}  // namespace

std::string man_page(const CommandInterface& all, const std::vector<CommandInterface>& commands,
                     const std::string& version) {
  std::string text = head("ironcl", "block-scaled fp8 GEMM on every OpenCL device, checked", version);
  text += ".SH SYNOPSIS\n" + bold("ironcl") + " " + italic("COMMAND") + " [" + italic("options") + "]\n";
  text += ".br\n" + bold("ironcl help") + " [" + italic("COMMAND") + "]\n";
  text += ".SH DESCRIPTION\n" + plain(all.summary) + ".\n";
  text += ".SH COMMANDS\n";
  for (const CommandInterface& command : commands)
    text += ".TP\n\\fBironcl\\-" + plain(command.name) + "\\fR(1)\n" + plain(command.summary) + ".\n";
  text += ".SH OPTIONS\n";
  for (const OptionInterface& option : all.options) text += option_text(option);
  return text + exit_status_text(all.exit_status) + kEnvironment;
}

std::string man_page(const CommandInterface& command, const std::string& version) {
  std::string synopsis = ".SH SYNOPSIS\n" + bold("ironcl " + command.name);
  for (const OptionInterface& option : command.options) {
    if (!option.required && !option.positional) continue;
    const std::string word =
        option.positional ? italic(option.names.front()) : bold(option.names.front()) + " " + italic(option.value);
    synopsis += option.required ? " " + word : " [" + word + "]";
  }
  std::string text =
      head("ironcl-" + command.name, command.summary, version) + synopsis + " [" + italic("options") + "]\n";
  text += ".SH OPTIONS\n";
  for (const OptionInterface& option : command.options) text += option_text(option);
  return text + exit_status_text(command.exit_status) + examples_text(command.examples) + kEnvironment +
         ".SH SEE ALSO\n\\fBironcl\\fR(1)\n";
}

}  // namespace ironcl::cli

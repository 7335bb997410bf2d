// SPDX-License-Identifier: Apache-2.0
// The parsers of the command and of its subcommands.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "backends/words.h"
#include "host/cli/command.h"
#include "host/include/ironcl/ironcl.h"
#include "host/report/suggest.h"

namespace ironcl::cli {
namespace {

constexpr const char* kFirstSteps = R"(
First steps
  ironcl devices                                   what there is to compute on
  ironcl inspect CHECKPOINT                        the fp8 layers of a checkpoint
  ironcl compare CHECKPOINT                        run them on every device and prove that the results agree
  ironcl help COMMAND                              options, defaults and examples of one command
)";
constexpr const char* kStatuses = R"(
Exit status
  0  done, everything within bounds
  1  out of bounds, or a device failed
  2  usage
  3  bad input, or an output that cannot be written
  4  no device that could do it
)";

/// `ironcl help COMMAND` is `ironcl COMMAND --help`, as in other commands that have subcommands.
void replace_help(std::vector<std::string>& words, const std::vector<std::string>& commands) {
  if (words.empty() || words.front() != "help") return;
  words.erase(words.begin());
  // Help would come before the complaint about a command that is not there.
  if (words.empty() || std::ranges::find(commands, words.front()) != commands.end()) words.emplace_back("--help");
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& parser) {
  return parser.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  return words::each(commands, &CLI::App::get_name);
}

/// "--json", "-h", ... as the help has them.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// An option whose value may be left out takes the next word only where that is a file for it, so that
/// `inspect --json PATH` is about PATH.
void mark_values_left_out(std::vector<std::string>& words, const std::vector<const CLI::App*>& commands) {
  if (words.empty()) return;
  const auto command = std::ranges::find(commands, words.front(), &CLI::App::get_name);
  if (command == commands.end()) return;
  for (std::size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    const CLI::Option* option = (*command)->get_option_no_throw(words[i]);
    if (option == nullptr || !option->get_option_text().starts_with("[")) continue;
    const bool taken = i + 1 < words.size() && (words[i + 1] == "-" || words[i + 1].ends_with(".json"));
    if (!taken) words[i] += "=-";
  }
}

}  // namespace

Command::Command(const std::string& name, const std::string& summary, const std::string& examples)
    : App(summary, name) {
  footer(fmt::format("\nExamples\n{}{}", examples, kStatuses));
}

std::vector<std::shared_ptr<Command>> all_commands() {
  return {make_devices_command(),  make_plugins_command(), make_inspect_command(), make_compare_command(),
          make_run_command(),      make_model_command(),   make_bench_command(),   make_tune_command(),
          make_quantize_command(), make_accuracy_command()};
}

CommandLine::CommandLine()
    : parser_(
          "Block-scaled fp8 GEMM for every device that OpenCL reaches, checked against a model of the Ironwood TPU",
          "ironcl") {
  parser_.set_version_flag("--version", std::string("ironcl ") + ironcl_build_id(), "Print the version and exit");
  parser_.require_subcommand(1);
  parser_.footer(std::string(kFirstSteps) + kStatuses);
  parser_.get_formatter()->column_width(34);
  for (const auto& command : all_commands()) {
    command->formatter(parser_.get_formatter());
    parser_.add_subcommand(command);
  }
}

std::string CommandLine::entered() const {
  const auto entered = parser_.get_subcommands();
  return entered.empty() ? std::string() : entered.front()->get_name();
}

Command* CommandLine::parse(std::vector<std::string> words, std::string& text) {
  const std::vector<const CLI::App*> commands = subcommands_of(parser_);
  replace_help(words, names_of(commands));
  mark_values_left_out(words, commands);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    parser_.parse(words);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream shown;
    parser_.exit(wanted, shown, shown);
    text = shown.str();
    return nullptr;
  } catch (const CLI::ParseError& error) {
    const std::string name = entered();
    usage("{}; see ironcl {}{}--help", what_is_wrong(error.what()), name, name.empty() ? "" : " ");
  }
  return static_cast<Command*>(parser_.get_subcommands().front());
}

/// `text` is CLI11's own, which does not name the words that it does not know.
std::string CommandLine::what_is_wrong(const std::string& text) const {
  const std::vector<std::string> unknown = parser_.remaining(true);
  if (unknown.empty()) {
    const std::size_t missing = text.find(": 1 required ");
    return missing == std::string::npos ? text : text.substr(0, missing) + " needs a value";
  }
  const std::vector<const CLI::App*> commands = subcommands_of(parser_);
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& word) { return word.starts_with("-") && word != "-"; });
  const auto entered = parser_.get_subcommands();
  if (entered.empty()) {
    const auto word = std::ranges::find_if(unknown, [](const std::string& text_) { return !text_.starts_with("-"); });
    if (word != unknown.end())
      return fmt::format("there is no command '{}'{}", *word, report::did_you_mean(*word, names_of(commands)));
    return option == unknown.end() ? text : fmt::format("a command comes first; there is no option {}", *option);
  }
  if (option == unknown.end()) return fmt::format("'{}' is not expected here", unknown.front());

  const std::string name = option->substr(0, option->find('='));
  std::string hint = report::did_you_mean(name, option_names(*entered.front()));
  std::vector<const CLI::App*> having = commands;
  std::erase_if(having, [&](const CLI::App* command) { return command->get_option_no_throw(name) == nullptr; });
  if (hint.empty() && !having.empty())
    hint = fmt::format(" here; {} {} it", fmt::join(names_of(having), ", "), having.size() == 1 ? "has" : "have");
  return fmt::format("there is no option {}{}", name, hint);
}

}  // namespace ironcl::cli

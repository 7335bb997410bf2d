// SPDX-License-Identifier: Apache-2.0
// Man pages, completions and the table of exit statuses: they have what the command has, and the programs that read
// them take them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "host/cli/command_line.h"
#include "host/cli/documents.h"
#include "host/cli/interface.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
using ironcl::cli::CommandInterface;
using ironcl::cli::OptionInterface;

/// What the build made, to be installed.
std::string document(const std::string& name) {
  const std::string text = read_file(std::string(DOCUMENTS) + "/" + name);
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

std::vector<CommandInterface> commands() {
  static const ironcl::cli::CommandLine line;
  return ironcl::cli::interfaces_of_subcommands(line.parser());
}

/// As man pages write it.
std::string with_minus(std::string text) {
  for (std::size_t at = 0; (at = text.find('-', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

/// Runs `script`; its standard output. Empty where it fails.
std::string output_of(const Scratch& scratch, const std::string& script) {
  const std::string out = scratch.path("out");
  const int code = std::system((script + " >" + out + " 2>" + scratch.path("err")).c_str());
  EXPECT_EQ(code, 0) << script << "\n" << read_file(scratch.path("err"));
  return read_file(out);
}

bool there_is(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

TEST(Documents, TheInterfaceHasEveryOptionOfTheHelp) {
  for (const CommandInterface& command : commands()) {
    const std::string help = ironcl_command({command.name, "--help"}).out;
    EXPECT_GT(command.options.size(), 1u);
    for (const OptionInterface& option : command.options) {
      EXPECT_TRUE(contains(help, option.names.front())) << command.name;
      EXPECT_FALSE(option.help.empty()) << command.name << " " << option.names.front();
    }
    // The other way round: each line of the help that begins with an option.
    std::size_t listed = 0;
    for (std::size_t at = help.find("\n  -"); at < help.find("\nExamples"); at = help.find("\n  -", at + 1)) ++listed;
    std::size_t options = 0;
    for (const OptionInterface& option : command.options) options += option.positional ? 0 : 1;
    EXPECT_EQ(listed, options) << command.name;
  }
}

TEST(Documents, ManPagesHaveEveryCommandOptionAndChoice) {
  const std::string all = document("ironcl.1");
  for (const CommandInterface& command : commands()) {
    EXPECT_TRUE(contains(all, "ironcl\\-" + command.name + "\\fR(1)"));
    const std::string page = document("ironcl-" + command.name + ".1");
    for (const OptionInterface& option : command.options) {
      for (const std::string& name : option.names) EXPECT_TRUE(contains(page, with_minus(name))) << command.name;
      for (const std::string& choice : option.choices) EXPECT_TRUE(contains(page, with_minus(choice)));
    }
    EXPECT_TRUE(contains(page, ".SH EXIT STATUS\n.TP\n\\fB0\\fR\n")) << command.name;
    EXPECT_TRUE(contains(page, ".SH EXAMPLES\n.nf\n  ironcl " + with_minus(command.name))) << command.name;
  }
  EXPECT_TRUE(contains(all, ".SH EXIT STATUS\n.TP\n\\fB0\\fR\n"));
}

TEST(Documents, ManPagesAreReadWithoutAWarning) {
  if (!there_is("groff")) GTEST_SKIP() << "groff is not installed";
  const Scratch scratch;
  for (const auto& entry : std::filesystem::directory_iterator(DOCUMENTS)) {
    if (entry.path().extension() != ".1") continue;
    EXPECT_EQ(output_of(scratch, "groff -man -ww -W break -z -Tutf8 " + entry.path().string() + " 2>&1"), "");
  }
  const std::string page =
      output_of(scratch, std::string("groff -man -Tascii -P-cbou ") + DOCUMENTS + "/ironcl-compare.1");
  EXPECT_TRUE(contains(page, "--expect FILE:TENSOR"));
}

/// What bash completes behind `words`, the last of which is being typed.
std::set<std::string> completed(const Scratch& scratch, const std::string& words) {
  const std::string script =
      "cd " + scratch.path("") + " && bash -c 'source " + DOCUMENTS + "/ironcl.bash; COMP_WORDS=(ironcl " + words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ironcl; printf \"%s\\n\" \"${COMPREPLY[@]}\"'";
  std::istringstream out(output_of(scratch, script));
  std::set<std::string> found;
  for (std::string line; std::getline(out, line);) found.insert(line);
  return found;
}

TEST(Documents, BashCompletes) {
  const Scratch scratch, files;
  files.file("layer.safetensors", "");
  std::filesystem::create_directory(files.path("tables"));
  const auto in_files = [&](const std::string& words) { return completed(files, words); };
  using Words = std::set<std::string>;
  for (const CommandInterface& command : commands()) {
    EXPECT_EQ(completed(scratch, command.name.substr(0, 3)), Words{command.name});
    EXPECT_EQ(completed(scratch, "help " + command.name.substr(0, 3)), Words{command.name});
    const auto options = completed(scratch, command.name + " --");
    const auto names = command.option_names();
    for (const std::string& name : names) {
      EXPECT_TRUE(!name.starts_with("--") || options.contains(name)) << command.name << " " << name;
    }
    for (const OptionInterface& option : command.options) {
      if (option.choices.empty()) continue;
      EXPECT_EQ(completed(scratch, command.name + " " + option.names.front() + " \"\""),
                Words(option.choices.begin(), option.choices.end()));
    }
  }
  EXPECT_EQ(in_files("inspect lay"), Words{"layer.safetensors"});
  EXPECT_EQ(in_files("compare --input lay"), Words{"layer.safetensors"});
  EXPECT_EQ(in_files("tune --save \"\""), (Words{"tables"}));
  EXPECT_EQ(completed(scratch, "compare --m \"\""), Words{""}) << "a number is not completed";
}

TEST(Documents, ZshAndFishTakeTheirCompletions) {
  const std::string zsh = document("_ironcl"), fish = document("ironcl.fish");
  for (const CommandInterface& command : commands()) {
    EXPECT_TRUE(contains(zsh, "\n    " + command.name + ")\n"));
    EXPECT_TRUE(contains(fish, " -a " + command.name + " -d "));
    for (const std::string& name : command.option_names()) {
      EXPECT_TRUE(contains(zsh, name + "[")) << command.name;
      const std::string flag = name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      EXPECT_TRUE(contains(fish, "__fish_seen_subcommand_from " + command.name + "'")) << command.name;
      EXPECT_TRUE(contains(fish, flag)) << command.name;
    }
  }
  const Scratch scratch;
  if (there_is("zsh")) {
    EXPECT_EQ(output_of(scratch, std::string("zsh -n ") + DOCUMENTS + "/_ironcl"), "");
  }
  if (!there_is("fish")) return;
  const std::string fish_script =
      std::string("fish -N -c 'source ") + DOCUMENTS + "/ironcl.fish; complete -C \"ironcl ";
  EXPECT_TRUE(contains(output_of(scratch, fish_script + "dev\"'"), "devices\t"));
  EXPECT_TRUE(contains(output_of(scratch, fish_script + "compare --acc\"'"), "--accuracy\t"));
}

TEST(Documents, TheDocumentationHasTheTableOfExitStatuses) {
  const std::string page = read_file(data_file("../../docs/command.md"));
  EXPECT_TRUE(contains(page, exit_status_table(commands())))
      << "put the output of ironcl_documents --exit-status there";
}

void add_keys(const boost::json::value& value, std::set<std::string>& keys) {
  if (const boost::json::array* all = value.if_array())
    for (const boost::json::value& one : *all) add_keys(one, keys);
  if (const boost::json::object* object = value.if_object()) {
    for (const auto& [key, member] : *object) {
      keys.emplace(key.data(), key.size());
      add_keys(member, keys);
    }
  }
}

TEST(Documents, TheDocumentationNamesEveryKeyOfReports) {
  const std::string page = read_file(data_file("../../docs/command.md"));
  const std::size_t begin = page.find("## JSON of the commands that report"), end = page.find("\n## ", begin + 1);
  ASSERT_NE(begin, std::string::npos);
  const std::string section = page.substr(begin, end - begin);
  const std::vector<std::vector<std::string>> reports = {
      {"devices", "--json"},
      {"devices", "--explain", "4,128,128", "--json"},
      {"plugins", "--json"},
      {"inspect", data_file("tiny-qwen3-fp8"), "--json"},
      {"inspect", data_file("experts/deepseek-v3"), "--json"},
      {"bench", "--shape", "128x128", "--m", "1", "--runs", "1", "--min-ms", "0", "--warm-up-ms", "0", "--rotate-mib",
       "0", "--device", "toy:0", "--json", "-"}};
  for (const std::vector<std::string>& words : reports) {
    std::set<std::string> keys;
    add_keys(ironcl_command(words).json(), keys);
    EXPECT_FALSE(keys.empty());
    for (const std::string& key : keys) EXPECT_TRUE(contains(section, "`" + key + "`")) << words[0] << " has " << key;
  }
}

}  // namespace

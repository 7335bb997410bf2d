// SPDX-License-Identifier: Apache-2.0
// Runs the ironcl command through the shell, so that a failure message can be pasted.
#include "tests/cli/shell.h"

#include <sys/wait.h>

#include <cstdlib>
#include <iterator>
#include <sstream>

#include "host/cli/compare_report.h"
#include "tests/cli/scratch.h"

namespace ironcl::cli_test {

boost::json::value Outcome::json(const std::string& path) const {
  const std::string text = path.empty() ? out : read_file(path);
  boost::json::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << error.message() << " in the JSON of\n  " << command << "\n" << text;
  return value;
}

Outcome ironcl_command(const std::vector<std::string>& words, Plugins plugins,
                       const std::map<std::string, std::string>& environment, const std::string& redirect) {
  const Scratch scratch;
  std::map<std::string, std::string> variables = environment;
  if (plugins == Plugins::toy) variables.try_emplace("IRONCL_PLUGIN_DIRS", TOY_PLUGIN_DIR);
  // Plugins beside the library are found without being named; a run that must not see them disables them by name.
  if (plugins != Plugins::real) variables.try_emplace("IRONCL_DISABLE", "opencl,ironwood");
  Outcome outcome;
  outcome.command = "env -u IRONCL_PLUGIN_DIRS -u IRONCL_PLUGIN_FILES -u IRONCL_DEVICE -u IRONCL_VERBOSE -u COLUMNS";
  for (const auto& [name, value] : variables) outcome.command += " " + cli::shell_word(name + "=" + value);
  outcome.command += std::string(" ") + cli::shell_word(IRONCL_COMMAND);
  for (const std::string& word : words) outcome.command += " " + cli::shell_word(word);

  const std::string out = scratch.path("out"), err = scratch.path("err");
  if (!redirect.empty()) outcome.command += " " + redirect;
  const std::string keep = redirect.empty() ? " >" + out : std::string();
  const int code = std::system((outcome.command + keep + " 2>" + err + " </dev/null").c_str());
  outcome.status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
  outcome.out = read_file(out);
  outcome.err = read_file(err);
  return outcome;
}

Outcome prints(Outcome outcome, int status, const std::vector<std::string>& texts) {
  EXPECT_EQ(outcome.status, status) << outcome.command << "\n" << outcome.out << outcome.err;
  for (const std::string& text : texts) EXPECT_TRUE(contains(outcome.out, text)) << outcome.command;
  return outcome;
}

Outcome complains(Outcome outcome, int status, const std::vector<std::string>& texts) {
  EXPECT_EQ(outcome.status, status) << outcome.command << "\n" << outcome.out << outcome.err;
  for (const std::string& text : texts) EXPECT_TRUE(contains(outcome.err, text)) << outcome.command;
  return outcome;
}

void expect_members(const boost::json::value& object, const boost::json::object& wanted) {
  for (const auto& [key, value] : wanted)
    EXPECT_EQ(object.at(key), value) << key << " of " << boost::json::serialize(object);
}

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "there is no \"" << part << "\" in\n" << text;
}

}  // namespace ironcl::cli_test

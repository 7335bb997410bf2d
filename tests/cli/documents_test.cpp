// SPDX-License-Identifier: Apache-2.0
// What is written about the command has what the command has: completion, the names of JSON members.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;

/// What bash completes behind `words`, the last of which is being typed.
std::set<std::string> completed(const std::string& words) {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  const std::string script = std::string("bash -c 'source ") + COMPLETION + "; COMP_WORDS=(" + IRONCL_COMMAND + " " +
                             words + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ironcl " + IRONCL_COMMAND +
                             "; printf \"%s\\n\" \"${COMPREPLY[@]}\"' >" + out;
  EXPECT_EQ(std::system(script.c_str()), 0) << script;
  std::istringstream lines(read_file(out));
  std::set<std::string> found;
  for (std::string line; std::getline(lines, line);) found.insert(line);
  return found;
}

TEST(Documents, BashCompletesCommandsAndTheirOptions) {
  using Words = std::set<std::string>;
  EXPECT_EQ(completed("com"), Words{"compare"});
  EXPECT_EQ(completed("help ins"), Words{"inspect"});
  EXPECT_EQ(completed("inspect --"), (Words{"--block", "--help", "--json", "--ragged", "--ranks", "--summary"}));
  EXPECT_EQ(completed("inspect layer"), Words{""}) << "left to names of files";
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
  const Scratch scratch;
  const std::vector<std::vector<std::string>> reports = {
      {"quantize", data_file("tiny-qwen3-fp8"), scratch.path("bf16"), "--scheme", "none", "--json"},
      {"accuracy", "--data", "normal:64x64", "--json"},
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

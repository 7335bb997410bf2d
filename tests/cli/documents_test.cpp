// SPDX-License-Identifier: Apache-2.0
// Completion knows what the command has. What documents say of it is generated: docs/generate.py.
#include <gtest/gtest.h>

#include <cstdlib>
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

}  // namespace

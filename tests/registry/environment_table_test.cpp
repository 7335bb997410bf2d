// SPDX-License-Identifier: Apache-2.0
// docs/environment.md lists exactly the IRONCL_* variables that the sources read.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using Names = std::map<std::string, std::string>;  // variable -> where it was seen

const fs::path kRoot = IRONCL_SOURCE_DIRECTORY;

void collect(const std::string& text, const char* expression, const std::string& where, Names& names) {
  const std::regex regex(expression);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) names.emplace((*it)[1], where);
}

// A whole string literal in the product; in tests only where it is read, since they set what the product reads.
Names read_by_sources() {
  Names names;
  const std::set<std::string> sources = {".c", ".h", ".cpp", ".hpp", ".py"};
  for (const char* folder : {"backends", "bench", "host", "plugins", "tests"}) {
    const bool tests = std::string(folder) == "tests";
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (!entry.is_regular_file() || !sources.contains(entry.path().extension())) continue;
      collect(ironcl::read_file(entry.path()),
              tests ? "(?:getenv|envname)\\(\"(IRONCL_[A-Z0-9_]+)\"\\)" : "\"(IRONCL_[A-Z0-9_]+)\"",
              entry.path().string(), names);
    }
  }
  for (const char* script : {"dev", ".ci/run"}) {
    collect(ironcl::read_file(kRoot / script), "\\$\\{?(IRONCL_[A-Z0-9_]+)", script, names);
  }
  return names;
}

Names listed_in_table() {
  Names names;
  collect(ironcl::read_file(kRoot / "docs/environment.md"), "\n\\| `(IRONCL_[A-Z0-9_]+)` \\|", "docs/environment.md",
          names);
  return names;
}

TEST(EnvironmentTable, ListsEveryVariableThatASourceReads) {
  const Names listed = listed_in_table();
  for (const auto& [name, where] : read_by_sources())
    EXPECT_TRUE(listed.contains(name)) << name << " is read by " << where << "; add a row to docs/environment.md";
}

TEST(EnvironmentTable, ListsNoVariableThatNobodyReads) {
  const Names read = read_by_sources();
  EXPECT_GE(read.size(), 5u) << "the scan of the sources finds too little; its patterns are out of date";
  for (const auto& [name, where] : listed_in_table())
    EXPECT_TRUE(read.contains(name)) << name << " is in docs/environment.md, but no source reads it; remove the row";
}

}  // namespace

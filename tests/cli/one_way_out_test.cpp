// SPDX-License-Identifier: Apache-2.0
// What the host's sources may not do, since one place does it for all: print (host/report/print.h makes text of
// others visible and notices what is lost) and write files (host/report/file.h). And what no source may.
#include <gtest/gtest.h>

#include <boost/regex.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/scratch.h"

namespace {

namespace fs = std::filesystem;
using ironcl::cli_test::read_file;

/// "FILE:LINE: the line" of each line of these folders that matches, files of `allowed` left out. Comments do not
/// count.
std::string lines_with(const std::string& expression, const std::set<std::string>& allowed,
                       const std::vector<std::string>& folders = {"host"}) {
  const boost::regex wanted(expression);
  const fs::path root = fs::path(TEST_DATA).parent_path().parent_path();
  std::string found;
  std::size_t files = 0;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string name = fs::relative(entry.path(), root).string();
      if ((!name.ends_with(".cpp") && !name.ends_with(".h")) || name.starts_with("host/examples/")) continue;
      ++files;
      if (allowed.contains(name)) continue;
      std::istringstream text(read_file(entry.path().string()));
      std::size_t number = 0;
      for (std::string line; std::getline(text, line);) {
        ++number;
        if (boost::regex_search(line.substr(0, line.find("//")), wanted))
          found += name + ":" + std::to_string(number) + ": " + line + "\n";
      }
    }
  }
  EXPECT_GT(files, 100u) << "the sources are not where this test looks";
  return found;
}

TEST(OneWayOut, TheHostPrintsOnlyThroughReportPrint) {
  EXPECT_EQ(lines_with("fmt::print|std::v?f?printf|std::f?puts|std::fputc|std::fwrite|std::cout|std::cerr|std::clog",
                       {"host/report/print.cpp",
                        "host/cli/progress_line.cpp",  // rewrites its line with control characters of its own
                        "host/registry/log.cpp"}),     // the library's verbose lines, escaped field by field
            "");
}

TEST(OneWayOut, TheHostWritesFilesOnlyThroughReportFile) {
  EXPECT_EQ(lines_with("ofstream|fopen|O_CREAT|O_WRONLY|mkstemp|[^_]rename\\(",
                       {"host/report/file.cpp",
                        "host/quantize/convert.cpp",  // a whole folder, made aside as files are
                        "host/tuning/tables.cpp"}),   // the lock beside tuned tables, which holds nothing
            "");
}

TEST(OneWayOut, NothingIsMatchedWithStdRegex) {
  EXPECT_EQ(lines_with("std::regex|<regex>", {}, {"backends", "host", "plugins"}), "")
      << "its matcher overflows the stack; boost::regex does not";
}

}  // namespace

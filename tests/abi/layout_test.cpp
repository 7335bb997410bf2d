// SPDX-License-Identifier: Apache-2.0
// The layouts of released versions hold: golden files against what the compiler says now. Next door: layout.cpp.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "host/include/ironcl/plugin.h"
#include "tests/run_command.h"

namespace {

using Layout = std::map<std::string, std::string>;  // name -> the rest of its line

Layout parse(std::istream& in) {
  Layout layout;
  for (std::string line; std::getline(in, line);) {
    const auto space = line.find(' ');
    if (space != std::string::npos) layout[line.substr(0, space)] = line.substr(space + 1);
  }
  return layout;
}

Layout golden(unsigned minor) {
  std::ifstream file(IRONCL_ABI_TEST_DIR "/layout-2." + std::to_string(minor) + ".txt");
  return parse(file);
}

Layout printed_by(const char* program) {
  std::istringstream in(ironcl::run_command(program).output);
  return parse(in);
}

constexpr const char* kRegenerate =
    " (if this is a new minor version: append only, raise IRONCL_ABI_MINOR, and write the new golden file with "
    "abi_layout > tests/abi/layout-2.N.txt)";

bool is_struct_size(const std::string& name) {
  return name.find('.') == std::string::npos && name.rfind("ironcl_", 0) == 0;
}

TEST(AbiLayout, OfEveryReleasedMinorVersionHolds) {
  const Layout now = printed_by(IRONCL_ABI_LAYOUT);
  for (unsigned minor = 0; minor <= IRONCL_ABI_MINOR; ++minor) {
    const Layout old = golden(minor);
    ASSERT_GT(old.size(), 200u) << "layout-2." << minor << ".txt is missing or cut";
    for (const auto& [name, line] : old) {
      const auto found = now.find(name);
      ASSERT_NE(found, now.end()) << name << " of 2." << minor << " is gone";
      if (is_struct_size(name)) {
        EXPECT_GE(std::stoul(found->second), std::stoul(line)) << name << " shrank since 2." << minor;
      } else {
        EXPECT_EQ(found->second, line) << name << " changed since 2." << minor << ": offset, size, type or value";
      }
    }
  }
}

TEST(AbiLayout, OfTheNewestVersionIsTheGoldenFileToTheLetter) {
  EXPECT_EQ(printed_by(IRONCL_ABI_LAYOUT), golden(IRONCL_ABI_MINOR)) << kRegenerate;
}

TEST(AbiLayout, LeavesNoHoleInAStruct) {
  // Members lie end to end in each struct: nothing is padded in, so nothing uninitialised crosses.
  std::ifstream file(IRONCL_ABI_TEST_DIR "/layout-2." + std::to_string(IRONCL_ABI_MINOR) + ".txt");
  std::map<std::string, std::size_t> end, size;
  for (std::string name; file >> name;) {
    std::size_t first = 0;
    file >> first;
    const auto dot = name.find('.');
    if (is_struct_size(name)) size[name] = first;
    if (dot != std::string::npos) {
      std::size_t bytes = 0;
      file >> bytes;
      const std::string owner = name.substr(0, dot);
      EXPECT_EQ(first, end[owner]) << "there is a hole before " << name;
      end[owner] = first + bytes;
    }
    file.ignore(1 << 16, '\n');
  }
  EXPECT_EQ(end, size);
}

}  // namespace

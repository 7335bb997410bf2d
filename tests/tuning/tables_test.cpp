// SPDX-License-Identifier: Apache-2.0
// Tuned tables as files: found in both spellings, merged by several writers at once, left alone when broken.
#include "host/tuning/tables.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "tests/cli/scratch.h"
#include "tests/errors.h"

namespace ironcl::tuning {
namespace {

namespace fs = std::filesystem;
using cli_test::Scratch;

const tuned::Key kKey{4096, 7168, "Fake", "fp8_w8a8", 128, 128};
constexpr const char* kBlank = "N=4096,K=7168,device_name=Fake,dtype=fp8_w8a8,block_shape=[128, 128].json";
constexpr const char* kTight = "N=4096,K=7168,device_name=Fake,dtype=fp8_w8a8,block_shape=[128,128].json";

tuned::Table one_entry(std::int64_t m, const char* variant) {
  tuned::Table table;
  table.set(m, {{"variant", variant}, {"options", boost::json::object()}});
  return table;
}

std::string variant_of(const tuned::Table& table, std::int64_t m) {
  return tuned::entry_of(table.entries().at(m)).variant;
}

TEST(TunedFiles, OfLayersOfExpertsAreFoundInBothSpellings) {
  const tuned::Key key{768, 0, "Fake", "fp8_w8a8", 128, 128, 128};
  for (const char* name : {"E=128,N=768,device_name=Fake,dtype=fp8_w8a8,block_shape=[128, 128].json",
                           "E=128,N=768,device_name=Fake,dtype=fp8_w8a8,block_shape=[128,128].json"}) {
    const Scratch scratch;
    EXPECT_FALSE(read_table(scratch.path(""), key));
    std::ofstream(scratch.path(name)) << R"({"64": {"BLOCK_SIZE_M": 32, "num_warps": 4}})";
    const auto table = read_table(scratch.path(""), key);
    ASSERT_TRUE(table) << name;
    EXPECT_EQ(table->entries().at(64).at("BLOCK_SIZE_M").as_int64(), 32);
  }
}

TEST(TunedFiles, AreMergedNotReplaced) {
  const Scratch scratch;
  const fs::path folder = scratch.path("new/folder");
  merge_into(folder, kKey, one_entry(1, "one"));
  merge_into(folder, kKey, one_entry(64, "sixty-four"));
  merge_into(folder, kKey, one_entry(1, "another"));
  const auto table = read_table(folder, kKey);
  ASSERT_TRUE(table);
  EXPECT_EQ(variant_of(*table, 1), "another");
  EXPECT_EQ(variant_of(*table, 64), "sixty-four");
  EXPECT_TRUE(fs::exists(folder / kTight));
}

TEST(TunedFiles, OfTheOtherSpellingAreReadAndWrittenAsTheyAreNamed) {
  const Scratch scratch;
  scratch.file(kBlank, R"({"triton_version": "3.1", "64": {"BLOCK_SIZE_M": 64, "num_warps": 4}})");
  const fs::path folder = scratch.path(".");
  merge_into(folder, kKey, one_entry(64, "ours"));
  EXPECT_FALSE(fs::exists(folder / kTight)) << "two files for one key";
  const auto table = read_table(folder, kKey);
  ASSERT_TRUE(table);
  EXPECT_EQ(variant_of(*table, 64), "ours");
  EXPECT_EQ(table->entries().at(64).at("num_warps").as_int64(), 4) << "the fields of others are theirs";
  EXPECT_NE(cli_test::read_file((folder / kBlank).string()).find("triton_version"), std::string::npos);
}

TEST(TunedFiles, LoseNothingWhenTwoProcessesWrite) {
  const Scratch scratch;
  const fs::path folder = scratch.path("tables");
  constexpr int kProcesses = 3, kEntries = 20;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int status = 0;
      try {
        for (int i = 0; i < kEntries; ++i) merge_into(folder, kKey, one_entry(1 + i * kProcesses + p, "v"));
      } catch (...) {
        status = 1;
      }
      ::_exit(status);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_table(folder, kKey)->entries().size(), static_cast<std::size_t>(kProcesses * kEntries));
}

TEST(TunedFiles, LoseNothingWhenTwoThreadsWrite) {
  const Scratch scratch;
  const fs::path folder = scratch.path("tables");
  const auto write = [&](int first) {
    for (int i = 0; i < 20; ++i) merge_into(folder, kKey, one_entry(first + 2 * i, "v"));
  };
  std::thread odd(write, 1), even(write, 2);
  odd.join();
  even.join();
  EXPECT_EQ(read_table(folder, kKey)->entries().size(), 40u);
}

TEST(TunedFiles, ThatAreNoTablesAreNamedAndKept) {
  const Scratch scratch;
  scratch.file(kTight, "no JSON");
  const auto error = error_of<std::runtime_error>([&] { merge_into(scratch.path("."), kKey, one_entry(1, "v")); });
  EXPECT_NE(error.find(kTight), std::string::npos) << error;
  EXPECT_NE(error.find("must be JSON"), std::string::npos) << error;
  EXPECT_EQ(cli_test::read_file(scratch.path(kTight)), "no JSON");
}

TEST(TunedFiles, ThatAreNotThereAreNone) {
  const Scratch scratch;
  EXPECT_FALSE(read_table(scratch.path("nowhere"), kKey));
}

}  // namespace
}  // namespace ironcl::tuning

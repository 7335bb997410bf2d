// SPDX-License-Identifier: Apache-2.0
// Tuned tables of layers of experts: names in both spellings, and the look-up by load.
#include "backends/tuned/experts_table.h"

#include <gtest/gtest.h>

namespace ironcl::tuned {
namespace {

TEST(TunedExpertsFileName, IsReadInBothSpellingsAndWrittenInOne) {
  const ExpertsKey key{128, 768, "NVIDIA_H200", "fp8_w8a8", 128, 128, false};
  const std::string ours = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
  EXPECT_EQ(parse_experts_file_name(ours), key);
  EXPECT_EQ(parse_experts_file_name("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"),
            key);
  EXPECT_EQ(file_name(key), ours);
  ExpertsKey down = key;
  down.down = true;
  EXPECT_EQ(
      parse_experts_file_name("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]_down.json"),
      down);
  EXPECT_EQ(parse_experts_file_name(file_name(down)), down);
  EXPECT_FALSE(parse_file_name(ours)) << "a table of experts is none of a single product";
}

TEST(TunedExpertsFileName, RefusesWhatIsNotOne) {
  for (const char* name : {"E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json",
                           "E=0,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "E=8,N=x,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "E=8,N=768,device_name=,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "E=8,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128].json",
                           "E=8,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128,128]_up.json",
                           "E=8,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json.part",
                           "N=768,K=8,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json", "E=", ""})
    EXPECT_FALSE(parse_experts_file_name(name)) << name;
}

TEST(TunedExperts, RowsOfAnActiveExpert) {
  EXPECT_DOUBLE_EQ(rows_per_active_expert(1, 8, 256), 1);         // eight experts with a row each
  EXPECT_DOUBLE_EQ(rows_per_active_expert(10, 4, 4), 10);         // all experts, all tokens
  EXPECT_NEAR(rows_per_active_expert(4096, 8, 256), 128, 1e-6);   // every expert is hit
  EXPECT_NEAR(rows_per_active_expert(64, 8, 128), 4.065, 0.001);  // nearly every one
  EXPECT_EQ(rows_per_active_expert(0, 8, 128), 0);
  EXPECT_DOUBLE_EQ(rows_per_active_expert(512, 1), 512);
  EXPECT_NEAR(rows_per_active_expert(64, 32), 2.302, 0.001);  // 27.8 of 32 are hit
}

/// Entries of ours for these tokens: rows of an expert, and a variant named by them.
Table loads(const std::vector<std::pair<std::int64_t, double>>& all, std::int64_t n = 1536, std::int64_t k = 2048) {
  Table table;
  for (const auto& [tokens, rows] : all)
    table.set(tokens, {{"variant", "of_" + std::to_string(tokens)}, {"rows_per_expert", rows}, {"n", n}, {"k", k}});
  return table;
}

TEST(TunedExperts, LookUpIsByLoadAndNotByTokens) {
  const ExpertsKey key{128, 768, "cpu", "fp8_w8a8", 128, 128, false};
  ExpertsTables tables;
  tables.add(key, loads({{1, 1}, {64, 4.1}, {4096, 256}}));
  const auto found = [&](double rows, ExpertsTables::Product product = {128, 768, false, 1536, 2048, 0}) {
    product.rows = rows;
    const auto choices = tables.find({"here", "cpu"}, product, "fp8_w8a8", 128, 128);
    return choices.empty() ? std::string() : choices.front().entry.variant;
  };
  EXPECT_EQ(found(1), "of_1");
  EXPECT_EQ(found(1.2), "of_1") << "8 tokens of 8 among 128 experts";
  EXPECT_EQ(found(4), "of_64");
  EXPECT_EQ(found(128), "of_4096");
  EXPECT_EQ(found(37), "") << "more than four times from 4 and from 256";
  EXPECT_EQ(found(1100), "") << "rows only repeat from 1024 on";
  EXPECT_EQ(found(4, {64, 768, false, 1536, 2048, 0}), "of_64") << "another number of experts, the same load";
  EXPECT_EQ(found(4, {128, 512, false, 1024, 2048, 0}), "") << "another width";
  EXPECT_EQ(found(4, {128, 768, true, 2048, 768, 0}), "") << "the other product";
  EXPECT_EQ(found(4, {128, 768, false, 1536, 16384, 0}), "") << "of a model with eight times the hidden columns";
  tables.add(key, loads({{20000, 1250}}));
  EXPECT_EQ(found(1e5), "of_20000");
  tables.add({64, 768, "cpu", "fp8_w8a8", 128, 128, false}, loads({{7, 4}}));
  EXPECT_EQ(found(4), "of_64") << "a table of as many experts comes first";
  EXPECT_EQ(found(4, {64, 768, false, 1536, 2048, 0}), "of_7");
}

TEST(TunedExperts, EntriesOfOthersAreNone) {
  ExpertsTables tables;
  tables.add(
      {128, 768, "cpu", "fp8_w8a8", 128, 128, false},
      Table::parse(R"({"1": {"BLOCK_SIZE_M": 16, "num_warps": 4}, "8": {"ironcl": {"variant": "without_a_load"}}})"));
  EXPECT_FALSE(tables.empty());
  EXPECT_TRUE(tables.find({"cpu"}, {128, 768, false, 1536, 2048, 1}, "fp8_w8a8", 128, 128).empty());
}

}  // namespace
}  // namespace ironcl::tuned

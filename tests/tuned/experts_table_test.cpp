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
}

TEST(TunedExperts, LookUpIsByLoadAndNotByTokens) {
  const Table table = Table::parse(
      R"({"1": {"BLOCK_SIZE_M": 16}, "64": {"BLOCK_SIZE_M": 32}, "4096": {"BLOCK_SIZE_M": 128, "num_warps": 4}})");
  const auto block = [&](std::int64_t tokens, std::int64_t top_k, std::int64_t experts) -> std::int64_t {
    const boost::json::object* found = nearest_load(table, tokens, top_k, experts);
    return found == nullptr ? 0 : found->at("BLOCK_SIZE_M").as_int64();
  };
  EXPECT_EQ(block(1, 8, 128), 16);
  EXPECT_EQ(block(8, 8, 128), 16) << "1.2 rows of an expert, as at 1 token";
  EXPECT_EQ(block(64, 8, 128), 32);
  EXPECT_EQ(block(2048, 8, 128), 128);
  EXPECT_EQ(block(600, 8, 128), 0) << "37 rows are more than four times from 4 and from 256";
  std::int64_t tokens = 0;
  EXPECT_NE(nearest_load(table, 1 << 20, 8, 8, &tokens), nullptr) << "rows only repeat from 1024 on";
  EXPECT_EQ(tokens, 4096);
  EXPECT_EQ(nearest_load(Table(), 1, 1, 1), nullptr);
}

}  // namespace
}  // namespace ironcl::tuned

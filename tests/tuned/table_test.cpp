// SPDX-License-Identifier: Apache-2.0
// Tuned tables: names, entries, merging and looking up.
#include "backends/tuned/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "tests/errors.h"
#include "tests/temp_dir.h"

namespace ironcl::tuned {
namespace {

boost::json::object ours(const char* variant, const char* tile_m) {
  return {{"variant", variant}, {"options", {{"tile_m", tile_m}}}};
}

TEST(TunedFileName, IsReadInBothSpellingsAndWrittenInOne) {
  const Key key{4096, 7168, "NVIDIA_H200", "fp8_w8a8", 128, 128};
  const std::string without_blank = "N=4096,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
  const std::string with_blank = "N=4096,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json";
  EXPECT_EQ(parse_file_name(without_blank), key);
  EXPECT_EQ(parse_file_name(with_blank), key);
  EXPECT_EQ(file_name(key), without_blank);
}

TEST(TunedFileName, RefusesWhatIsNotOne) {
  for (const char* name : {"config.json", "N=0,K=1,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "N=1,K=x,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "N=1,K=1,device_name=,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "N=1,K=1,device_name=d,dtype=fp8_w8a8,block_shape=[128].json",
                           "N=1,K=1,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json.part",
                           "N=1,K=1,device_name=d,dtype=fp8_w8a8.json"})
    EXPECT_FALSE(parse_file_name(name)) << name;
}

TEST(TunedFileName, HasNoCharacterThatAPathOrAShellWouldMind) {
  EXPECT_EQ(sanitize("pthread-skylake-avx512-AMD EPYC 9654 / 96 (rev. 1)"),
            "pthread-skylake-avx512-AMD_EPYC_9654_96_rev._1");
  EXPECT_EQ(sanitize("NVIDIA H200"), "NVIDIA_H200");
  EXPECT_EQ(sanitize("../../etc"),
            "..\x5f..\x5f"
            "etc");
}

TEST(TunedTable, KeepsTheFieldsOfOthersBesideOurs) {
  Table table = Table::parse(R"({"64": {"BLOCK_SIZE_M": 64, "num_warps": 4}, "1": {"BLOCK_SIZE_M": 16}})");
  table.set(64, ours("gemm_tiled", "64"));
  const Table again = Table::parse(table.to_text());
  ASSERT_EQ(again.entries().size(), 2u);
  EXPECT_EQ(again.entries().at(64).at("BLOCK_SIZE_M").as_int64(), 64);
  EXPECT_EQ(again.entries().at(64).at("num_warps").as_int64(), 4);
  EXPECT_EQ(entry_of(again.entries().at(64)).variant, "gemm_tiled");
  EXPECT_EQ(entry_of(again.entries().at(64)).options.front().second, "64");
  EXPECT_TRUE(entry_of(again.entries().at(1)).variant.empty());
}

TEST(TunedTable, NumbersOfOthersDoNotDriftWhenATableIsRewritten) {
  // Each was read a unit in the last place off by Boost.JSON 1.81, or lies between two doubles.
  const std::pair<const char*, double> numbers[] = {
      {"0.3", 0.3},
      {"123456789012345678901234567890e-15", 123456789012345678901234567890e-15},
      {"2.2250738585072011e-308", 2.2250738585072011e-308},
      {"8.9255e-22", 8.9255e-22},
      {"9007199254740993.0", 9007199254740992.0},
      {"1090544144181609348835077142190.1090544144181609348835077142190e-7", 1.0905441441816093488e23},
      {"-1.7976931348623157E+308", -1.7976931348623157E+308},
  };
  for (const auto& [text, value] : numbers) {
    const Table table = Table::parse(std::string("{\"1\": {\"time\": ") + text + "}}");
    EXPECT_EQ(table.entries().at(1).at("time").as_double(), value) << text;
    const std::string written = table.to_text();
    EXPECT_EQ(Table::parse(written).to_text(), written) << text;
  }
  const Table whole = Table::parse(R"({"1": {"count": 18446744073709551615, "shift": -9223372036854775808}})");
  EXPECT_EQ(whole.entries().at(1).at("count").as_uint64(), UINT64_MAX);
  EXPECT_EQ(whole.entries().at(1).at("shift").as_int64(), INT64_MIN);
}

TEST(TunedTable, TextBehindTheTableIsAnError) {
  for (const char* text : {"{} x", "{}{}", "{\"1\": {}", "", "{\"1\": {\"a\": .5}}"})
    EXPECT_THROW(Table::parse(text), std::invalid_argument) << text;
}

TEST(TunedTable, SortsItsKeysAsNumbers) {
  Table table;
  for (const int m : {1024, 8, 64}) table.set(m, ours("v", "1"));
  const std::string text = table.to_text();
  EXPECT_LT(text.find("\"8\""), text.find("\"64\""));
  EXPECT_LT(text.find("\"64\""), text.find("\"1024\""));
}

TEST(TunedTable, EveryShippedTableIsAsItWouldBeWritten) {
  int tables = 0, entries = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(IRONCL_SHIPPED_TABLES)) {
    if (file.path().extension() != ".json") continue;
    const std::string text = read_file(file.path());
    const Table table = Table::parse(text);
    EXPECT_EQ(table.to_text(), text) << file.path();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<long>(table.entries().size()) + 2)
        << file.path() << ": one entry per line";
    ++tables, entries += static_cast<int>(table.entries().size());
  }
  EXPECT_GE(tables, 100);
  EXPECT_GE(entries, 700);
}

TEST(TunedTable, IsNearestInLogMAndTiesGoToTheSmaller) {
  Table table;
  for (const int m : {16, 64, 1024}) table.set(m, ours("v", "1"));
  std::int64_t found = 0;
  ASSERT_NE(table.nearest(200, &found), nullptr);
  EXPECT_EQ(found, 64);  // linear distance would say 64 too; 300 tells them apart
  ASSERT_NE(table.nearest(300, &found), nullptr);
  EXPECT_EQ(found, 1024);  // 1024/300 = 3.41 < 300/64 = 4.69
  ASSERT_NE(table.nearest(32, &found), nullptr);
  EXPECT_EQ(found, 16);
  ASSERT_NE(table.nearest(1, &found), nullptr);
  EXPECT_EQ(found, 16);
}

TEST(TunedTable, PassesOverEntriesThatHaveNothingOfOurs) {
  Table table = Table::parse(R"({"64": {"BLOCK_SIZE_M": 64}})");
  EXPECT_EQ(table.nearest(64), nullptr);
}

TEST(TunedTable, SaysWhatIsWrongWithItsText) {
  const auto message = [](const char* text) { return error_of<std::invalid_argument>([&] { Table::parse(text); }); };
  EXPECT_NE(message("{").find("must be JSON"), std::string::npos);
  EXPECT_NE(message("[]").find("from M to a configuration"), std::string::npos);
  EXPECT_NE(message(R"({"-4": {}})").find("'-4'"), std::string::npos);
  EXPECT_NE(message(R"({"64": 3})").find("M=64"), std::string::npos);
}

TEST(TunedTables, PreferTheDeviceThenItsClassesAndTheExactShapeBeforeTheNearest) {
  Tables tables;
  const auto table = [](const char* variant) {
    Table t;
    t.set(64, ours(variant, "1"));
    return t;
  };
  tables.add({4096, 4096, "exact", "fp8_w8a8", 128, 128}, table("device_exact"));
  tables.add({4096, 2048, "exact", "fp8_w8a8", 128, 128}, table("device_near"));
  tables.add({512, 512, "exact", "fp8_w8a8", 128, 128}, table("device_far"));
  tables.add({4096, 4096, "vendor", "fp8_w8a8", 128, 128}, table("vendor"));
  tables.add({4096, 4096, "exact", "int8_w8a8", 128, 128}, table("int8"));
  tables.add({4096, 4096, "exact", "fp8_w8a8", 256, 256}, table("block256"));
  const auto found = tables.find({"exact", "arch", "vendor"}, 64, 4096, 4096, "fp8_w8a8", 128, 128);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].entry.variant, "device_exact");
  EXPECT_EQ(found[1].entry.variant, "device_near");
  EXPECT_EQ(found[2].entry.variant, "vendor");
  EXPECT_TRUE(tables.find({"other"}, 64, 4096, 4096, "fp8_w8a8", 128, 128).empty());
}

TEST(TunedTables, ForOtherBlocksServeNothing) {
  Tables tables;
  Table table;
  table.set(64, ours("v", "1"));
  tables.add({4096, 4096, "d", "fp8_w8a8", 128, 256}, table);
  const auto finds = [&](std::int64_t n, std::int64_t group_rows, std::int64_t group_cols) {
    return !tables.find({"d"}, 64, n, 4096, "fp8_w8a8", group_rows, group_cols).empty();
  };
  for (const std::int64_t n : {4096, 2048}) {  // This shape, and one for which it is the nearest.
    EXPECT_TRUE(finds(n, 128, 256));
    EXPECT_FALSE(finds(n, 64, 256));
    EXPECT_FALSE(finds(n, 128, 128));
  }
}

TEST(TunedTables, FindNothingThatIsTooFar) {
  Tables tables;
  Table table;
  for (const int m : {64, 1024}) table.set(m, ours("v", "1"));
  tables.add({4096, 4096, "d", "fp8_w8a8", 128, 128}, table);
  const auto finds = [&](std::int64_t m, std::int64_t n) {
    return !tables.find({"d"}, m, n, 4096, "fp8_w8a8", 128, 128).empty();
  };
  EXPECT_TRUE(finds(16, 4096));
  EXPECT_FALSE(finds(15, 4096));
  EXPECT_TRUE(finds(1 << 20, 4096));  // many rows repeat what 1024 do
  EXPECT_TRUE(finds(64, 1024));
  EXPECT_FALSE(finds(64, 1023));
}

TEST(TunedTable, KeepsRemarksThatAreNoEntries) {
  Table table = Table::parse(R"({"triton_version": "3.1.0", "64": {"BLOCK_SIZE_M": 64}})");
  Table other;
  other.set(1, ours("v", "1"));
  other.merge(table);
  EXPECT_NE(other.to_text().find("\"triton_version\": \"3.1.0\""), std::string::npos) << other.to_text();
}

TEST(TunedTables, LetWhatIsAddedLaterWin) {
  Tables tables;
  const Key key{8, 8, "d", "fp8_w8a8", 128, 128};
  Table shipped, overlay;
  shipped.set(1, ours("shipped", "1"));
  shipped.set(64, ours("shipped", "1"));
  overlay.set(64, ours("overlay", "1"));
  tables.add(key, shipped);
  tables.add(key, overlay);
  EXPECT_EQ(tables.find({"d"}, 64, 8, 8, "fp8_w8a8", 128, 128).front().entry.variant, "overlay");
  EXPECT_EQ(tables.find({"d"}, 1, 8, 8, "fp8_w8a8", 128, 128).front().entry.variant, "shipped");
}

// --- Tables of layers of experts.

TEST(TunedExpertsFileName, IsReadInBothSpellingsAndWrittenInOne) {
  const Key key{768, 0, "NVIDIA_H200", "fp8_w8a8", 128, 128, 128};
  const std::string ours = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
  EXPECT_EQ(parse_file_name(ours), key);
  EXPECT_EQ(parse_file_name("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"), key);
  EXPECT_EQ(file_name(key), ours);
  Key down = key;
  down.down = true;
  EXPECT_EQ(parse_file_name("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]_down.json"),
            down);
  EXPECT_EQ(parse_file_name(file_name(down)), down);
}

TEST(TunedExpertsFileName, RefusesWhatIsNotOne) {
  for (const char* name : {"E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json",
                           "E=0,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "E=8,N=x,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "E=8,N=768,device_name=,dtype=fp8_w8a8,block_shape=[128,128].json",
                           "E=8,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128].json",
                           "E=8,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128,128]_up.json",
                           "E=8,N=768,device_name=d,dtype=fp8_w8a8,block_shape=[128,128].json.part",
                           "N=768,K=8,device_name=d,dtype=fp8_w8a8,block_shape=[128,128]_down.json", "E=", ""})
    EXPECT_FALSE(parse_file_name(name)) << name;
}

TEST(TunedExperts, RowsOfAnActiveExpert) {
  EXPECT_DOUBLE_EQ(rows_per_active_expert(1, 8, 256), 1);         // eight experts with a row each
  EXPECT_DOUBLE_EQ(rows_per_active_expert(10, 4, 4), 10);         // all experts, all tokens
  EXPECT_NEAR(rows_per_active_expert(4096, 8, 256), 128, 1e-6);   // every expert is hit
  EXPECT_NEAR(rows_per_active_expert(64, 8, 128), 4.065, 0.001);  // nearly every one
  EXPECT_EQ(rows_per_active_expert(0, 8, 128), 0);
  EXPECT_DOUBLE_EQ(rows_per_active_expert(512, 1, 1), 512);
  EXPECT_NEAR(rows_per_active_expert(64, 1, 32), 2.302, 0.001);  // 27.8 of 32 are hit
}

/// Entries of ours for these tokens: rows of an expert, and a variant named by them.
Table loads(const std::vector<std::pair<std::int64_t, double>>& all, std::int64_t n = 1536, std::int64_t k = 2048) {
  Table table;
  for (const auto& [tokens, rows] : all)
    table.set(tokens, {{"variant", "of_" + std::to_string(tokens)}, {"rows_per_expert", rows}, {"n", n}, {"k", k}});
  return table;
}

TEST(TunedExperts, LookUpIsByLoadAndNotByTokens) {
  const Key key{768, 0, "cpu", "fp8_w8a8", 128, 128, 128};
  Tables tables;
  tables.add(key, loads({{1, 1}, {64, 4.1}, {4096, 256}}));
  const auto found = [&](double rows, Tables::Product product = {128, 768, false, 1536, 2048, 0}) {
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
  tables.add({768, 0, "cpu", "fp8_w8a8", 128, 128, 64}, loads({{7, 4}}));
  EXPECT_EQ(found(4), "of_64") << "a table of as many experts comes first";
  EXPECT_EQ(found(4, {64, 768, false, 1536, 2048, 0}), "of_7");
}

TEST(TunedExperts, EntriesOfOthersAreNone) {
  Tables tables;
  tables.add(
      {768, 0, "cpu", "fp8_w8a8", 128, 128, 128},
      Table::parse(R"({"1": {"BLOCK_SIZE_M": 16, "num_warps": 4}, "8": {"ironcl": {"variant": "without_a_load"}}})"));
  EXPECT_FALSE(tables.empty());
  EXPECT_TRUE(tables.find({"cpu"}, {128, 768, false, 1536, 2048, 1}, "fp8_w8a8", 128, 128).empty());
}

}  // namespace
}  // namespace ironcl::tuned

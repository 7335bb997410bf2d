// SPDX-License-Identifier: Apache-2.0
// One table, four renderings.
#include "host/report/table.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "host/report/json.h"

namespace {

using namespace ironcl::report;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Table sample() {
  Table table({{"layer", "layer", Kind::text},
               {"n", "N", Kind::integer},
               {"time_ns", "time", Kind::time},
               {"bytes", "size", Kind::bytes},
               {"error", "error", Kind::number}});
  table.add({std::string("q_proj, the \"first\""), std::int64_t{2048}, 1234567.0, 3145728.0, 0.123456});
  table.add({std::string("a|b"), std::int64_t{7}, nullptr, 640.0, kNan});
  return table;
}

TEST(Table, AlignsTextToTheLeftAndNumbersToTheRight) {
  EXPECT_EQ(to_text(sample()),
            "layer                   N     time      size  error\n"
            "-------------------  ----  -------  --------  -----\n"
            "q_proj, the \"first\"  2048  1.23 ms  3.00 MiB  0.123\n"
            "a|b                     7        -     640 B    nan\n");
}

TEST(Table, BecomesBlocksOfLinesWhereItIsTooWide) {
  const std::string text = to_text(sample(), 40);
  EXPECT_NE(text.find("layer  q_proj, the \"first\"\nN      2048\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\nlayer  a|b\n"), std::string::npos) << text;
  EXPECT_EQ(to_text(sample(), 52), to_text(sample()));
}

TEST(Table, GroupsRowsThatShareTheFirstColumn) {
  Table table({{"layer", "layer", Kind::text}, {"device", "device", Kind::text}, {"m", "M", Kind::integer}});
  table.add({std::string("first"), std::string("a:0"), std::int64_t{1}});
  table.add({std::string("first"), std::string("b:0"), std::int64_t{20}});
  table.add({std::string("second"), std::string("a:0"), std::int64_t{3}});
  const GroupedText grouped(table);
  EXPECT_EQ(grouped.heading() + grouped.rows(table),
            "  device   M\n"
            "  ------  --\n"
            "first\n"
            "  a:0      1\n"
            "  b:0     20\n"
            "second\n"
            "  a:0      3\n");
}

TEST(Table, CsvQuotesAsRfc4180AndKeepsEveryDigit) {
  EXPECT_EQ(to_csv(sample()),
            "layer,n,time_ns,bytes,error\r\n"
            "\"q_proj, the \"\"first\"\"\",2048,1234567,3145728,0.123456\r\n"
            "a|b,7,,640,nan\r\n");
}

TEST(Table, MarkdownEscapesBars) {
  EXPECT_EQ(to_markdown(sample()),
            "| layer | N | time | size | error |\n"
            "|---|---:|---:|---:|---:|\n"
            "| q_proj, the \"first\" | 2048 | 1.23 ms | 3.00 MiB | 0.123 |\n"
            "| a\\|b | 7 | - | 640 B | nan |\n");
}

TEST(Table, JsonHasKeysAndPlainValues) {
  const auto rows = to_json(sample());
  EXPECT_EQ(rows.at(0).at("time_ns").as_double(), 1234567.0);
  EXPECT_EQ(rows.at(0).at("n").as_int64(), 2048);
  EXPECT_TRUE(rows.at(1).at("time_ns").is_null());
  EXPECT_NE(to_text(boost::json::value(rows)).find(R"("error": "nan")"), std::string::npos);
}

TEST(Table, RefusesARowOfAnotherLength) {
  Table table = sample();
  EXPECT_THROW(table.add({std::string("alone")}), std::invalid_argument);
}

}  // namespace

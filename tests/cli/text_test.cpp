// SPDX-License-Identifier: Apache-2.0
// Texts of reports: units, JSON, what is made visible, what is suggested.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <boost/regex.hpp>
#include <limits>
#include <string>
#include <vector>

#include "host/report/json.h"
#include "host/report/search.h"
#include "host/report/suggest.h"
#include "host/report/table.h"
#include "host/report/units.h"
#include "host/report/visible.h"

namespace {

using namespace ironcl::report;
using namespace std::string_literals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Units, TimesHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(human_time(0), "0 ns");
  EXPECT_EQ(human_time(812), "812 ns");
  EXPECT_EQ(human_time(999.6), "1.00 us");
  EXPECT_EQ(human_time(41268), "41.3 us");
  EXPECT_EQ(human_time(1.25e6), "1.25 ms");
  EXPECT_EQ(human_time(3.072e9), "3.07 s");
  EXPECT_EQ(human_time(1e14), "100000 s");
}

TEST(Units, BytesGoBy1024) {
  EXPECT_EQ(human_bytes(640), "640 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(192.0 * (1u << 30)), "192 GiB");
}

TEST(Units, NumbersThatAreNoneHaveNames) {
  EXPECT_EQ(human_number(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(exact_number(-kInfinity), "-inf");
  EXPECT_EQ(exact_number(0.1), "0.1");
}

TEST(Json, IsValidWhateverTheNumbers) {
  const boost::json::value value = {{"nan", std::numeric_limits<double>::quiet_NaN()},
                                    {"unguarded", kInfinity},
                                    {"small", 5e-324},
                                    {"list", {1, 2.5, "three"}},
                                    {"nested", {{{"a", nullptr}}, {{"b", true}}}}};
  const std::string text = to_text(value);
  const boost::json::value again = boost::json::parse(text);
  EXPECT_EQ(again.at("nan").as_string(), "nan") << text;
  EXPECT_EQ(again.at("unguarded").as_string(), "inf") << text;
  EXPECT_EQ(again.at("small").as_double(), 5e-324) << text;
  EXPECT_NE(text.find("\"list\": [1, 2.5, \"three\"]"), std::string::npos) << text;
}

TEST(Json, QuotesControlCharactersAndQuotes) {
  const boost::json::value value = {{"a \"key\"\n", "a\tvalue\\"}};
  EXPECT_EQ(boost::json::parse(to_text(value)), value);
}

TEST(Visible, LeavesTextAlone) {
  for (const std::string text :
       {"model.layers.0.q_proj", "back\\slash 'quote' \"double\"", "größe", "重み", "\U0001f600", ""})
    EXPECT_EQ(visible(text), text);
}

TEST(Visible, EscapesWhatActsOnATerminal) {
  EXPECT_EQ(visible("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(visible("a\nb\r\nc\td\x07\x08"), "a\\nb\\r\\nc\\td\\x07\\x08");
  EXPECT_EQ(visible("nul\0x7f\x7f"s), "nul\\x00x7f\\x7f");
  EXPECT_EQ(visible("\u009b31m\u0085"), "\\u009b31m\\u0085");
}

TEST(Visible, EscapesWhatReordersOrHidesText) {
  EXPECT_EQ(visible("a\u202eb\u2066c\u200bd\ufeff\u2028\u061c"), "a\\u202eb\\u2066c\\u200bd\\ufeff\\u2028\\u061c");
  EXPECT_EQ(visible("\U000e0041"), "\\U000e0041");
}

TEST(Visible, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(visible("\x9b[31m"), "\\x9b[31m");                     // C1 as a byte of its own
  EXPECT_EQ(visible("\xc0\x9b"), "\\xc0\\x9b");                    // overlong
  EXPECT_EQ(visible("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");           // overlong
  EXPECT_EQ(visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  EXPECT_EQ(visible("gr\xc3"), "gr\\xc3");                         // cut off
  EXPECT_EQ(visible("\xc3("), "\\xc3(");
}

TEST(Visible, KeepsTheLinesOfWhatWasLaidOut) {
  EXPECT_EQ(visible_lines("one\ntwo\x1b[2J\r\nthree\r"), "one\ntwo\\x1b[2J\nthree\\r");
}

TEST(Visible, TablesAndJsonShowIt) {
  const std::string name = "q\x1b[2J\n\u202e\u009b\x7f";
  Table table({{"layer", "layer", Kind::text}});
  table.add({name});
  for (const std::string& text :
       {to_text(table), to_text(table, 1), GroupedText(table).rows(table), to_markdown(table)})
    EXPECT_NE(text.find("q\\x1b[2J\\n\\u202e\\u009b\\x7f"), std::string::npos) << text;

  const boost::json::value value = {{name, name + "\U000e0041"}};
  const std::string json = to_text(value);
  EXPECT_EQ(visible_lines(json), json) << "JSON has something that acts on a terminal";
  EXPECT_EQ(boost::json::parse(json), value) << json;
  EXPECT_NO_THROW(boost::json::parse(to_text(boost::json::value("not \xff UTF-8"))));
}

const std::vector<std::string> kCommands = {"devices", "plugins", "inspect", "compare",
                                            "run",     "model",   "bench",   "tune"};

TEST(Suggest, FindsEverySlip) {
  for (const std::string word : {"devces", "devicess", "devoces", "dveices", "device", "dev"})
    EXPECT_EQ(near_names(word, kCommands), std::vector<std::string>{"devices"}) << word;
  EXPECT_EQ(near_names("rnu", kCommands).front(), "run");
  EXPECT_EQ(near_names("--jsn", {"--json", "--input"}), std::vector<std::string>{"--json"});
  EXPECT_EQ(near_names("-json", {"--json", "--input"}), std::vector<std::string>{"--json"});
}

TEST(Suggest, SaysNothingWhereNothingIsNear) {
  for (const std::string word : {"frobnicate", "xyz", "", "-", "z"})
    EXPECT_EQ(did_you_mean(word, kCommands), "") << word;
  EXPECT_EQ(did_you_mean(std::string(100000, 'x'), {std::string(100000, 'y')}), "");
}

TEST(Suggest, ReadsAsASentence) {
  EXPECT_EQ(did_you_mean("devces", kCommands), "; did you mean devices?");
  EXPECT_EQ(did_you_mean("q_prok", {"q_proj", "k_proj", "lm_head"}), "; did you mean q_proj or k_proj?");
  EXPECT_EQ(did_you_mean("layer", {"layer1", "layer2", "layer3", "layer4"}),
            "; did you mean layer1, layer2 or layer3?");
}

TEST(Searching, EndsWhereNoLookIsLeft) {
  const boost::regex expression("a*b");
  const std::string text(1000, 'a');
  std::int64_t enough = looks_for(text.size());
  EXPECT_EQ(is_found(expression, text, true, enough), false);
  EXPECT_LT(enough, looks_for(text.size()));
  std::int64_t few = 100;
  EXPECT_EQ(is_found(expression, text, true, few), std::nullopt);
  EXPECT_EQ(few, 0);
}

}  // namespace

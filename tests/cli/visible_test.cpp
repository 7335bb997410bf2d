// SPDX-License-Identifier: Apache-2.0
// Text of others, made safe to show.
#include "host/report/visible.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "host/report/json.h"
#include "host/report/table.h"

namespace {

using namespace ironcl::report;
using namespace std::string_literals;

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

}  // namespace

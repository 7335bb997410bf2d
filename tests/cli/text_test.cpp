// SPDX-License-Identifier: Apache-2.0
// Units, JSON text, files written whole.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/units.h"

namespace {

using namespace ironcl::report;
namespace fs = std::filesystem;

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
  const boost::json::value value = {{"nan", number(std::numeric_limits<double>::quiet_NaN())},
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

TEST(File, IsReplacedWholeOrNotAtAll) {
  const fs::path folder = fs::temp_directory_path() / ("ironcl-file-test-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const fs::path path = folder / "report.json";
  write_file(path, "first");
  write_file(path, "second");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << "something was left aside";
  try {
    write_file(folder / "none" / "report.json", "third");
    ADD_FAILURE() << "a folder that is not there was written to";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
  fs::remove_all(folder);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// ironcl model, on the real Ironwood plugin: its JSON, its trace, its search, its refusals.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;

Outcome model(std::vector<std::string> words) {
  words.insert(words.begin(), "model");
  return ironcl_command(words, Plugins::real);
}

const std::vector<std::string> kSmall = {"--m", "1024", "--n", "1024", "--k", "1024", "--block", "512"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(ModelCommand, WritesTheReportThatProgramsRead) {
  const json::value report = model(with(kSmall, {"--kernel-blocks", "512,512,512", "--json", "-"})).json();
  for (const char* path : {"/time_us", "/compute_us", "/hbm_us", "/bound", "/hbm_bytes", "/steps", "/fetches/x",
                           "/fetches/w", "/fetches/x_scale", "/fetches/w_scale", "/writes/out", "/vmem/formula_bytes",
                           "/vmem/footprint_bytes", "/vmem/limit_bytes", "/mxu_utilisation"}) {
    boost::system::error_code error;
    EXPECT_NE(report.find_pointer(path, error), nullptr) << path;
  }
  EXPECT_EQ(report.at("steps"), json::value(8));
  EXPECT_EQ(report.at("time_kind"), json::value("modelled"));
}

TEST(ModelCommand, SaysThatNothingIsMeasuredAndShowsTheOverlap) {
  const Outcome outcome = model(with(kSmall, {"--kernel-blocks", "512,512,512"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "modelled, none is measured"));
  EXPECT_TRUE(contains(outcome.out, "DMA in w"));
  EXPECT_TRUE(contains(outcome.out, "MXU "));
}

TEST(ModelCommand, WritesAChromeTrace) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.json");
  const Outcome outcome = model(with(kSmall, {"--trace", file, "--steps", "0"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_GT(outcome.json(file).at("traceEvents").as_array().size(), 10u);
}

TEST(ModelCommand, SearchFindsBlocksThatAreNoSlowerThanAligned) {
  const json::value report = model(with(kSmall, {"--search", "--json", "-"})).json();
  EXPECT_GE(report.at("speedup_over_aligned").to_number<double>(), 1.0);
  EXPECT_FALSE(report.at("frontier").as_array().empty());
}

TEST(ModelCommand, ModelsTheLayersOfACheckpoint) {
  const json::value report = model({"--layers", data_file("tiny-qwen3-fp8"), "--m", "16", "--json", "-"}).json();
  EXPECT_GT(report.at("layers").as_array().size(), 2u);
  EXPECT_GT(report.at("time_us").to_number<double>(), 0);
}

TEST(ModelCommand, SaysWhatIsWrongWithAQuestion) {
  struct Row {
    std::vector<std::string> words;
    int status;
    const char* says;
  };
  for (const Row& row :
       {Row{{"--m", "1"}, 2, "--n is missing"}, Row{with(kSmall, {"--assume", "nonsense=1"}), 2, "launch_ns"},
        Row{with(kSmall, {"--tpu", "v99"}), 2, "v99"},
        Row{with(kSmall, {"--kernel-blocks", "512,500,512"}), 4, "multiple of"},
        Row{with(kSmall, {"--kernel-blocks", "8192,8192,8192"}), 4, "VMEM"},
        Row{{"--m", "8", "--n", "8", "--k", "8", "--block", "48"}, 4, "multiple of 32"},
        Row{with(kSmall, {"--device", "ironwood:7"}), 4, "ironwood:7"}}) {
    const Outcome outcome = model(row.words);
    EXPECT_EQ(outcome.status, row.status) << outcome.command << "\n" << outcome.err;
    EXPECT_TRUE(contains(outcome.err, row.says)) << outcome.command;
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// ironcl bench: rows that were checked, with times and shares that follow from one another.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;

std::vector<std::string> quick(const std::vector<std::string>& more) {
  return with(split_words("bench --runs 3 --min-ms 0 --warm-up-ms 0 --rotate-mib 1 --check-rows 4"), more);
}

/// The types that the README says OpenCL multiplies, mixed ones and weights alone included.
TEST(Bench, EveryTypeOfWeightsIsMultipliedRightly) {
  std::vector<std::string> problems = {"--dt=bf16:i8:bf16 --scale=none:128x128 5x256:256x96"};
  for (const std::string types : {"--src=bf16 --dt=e5m2:e5m2:bf16", "--src=bf16 --dt=e4m3fn:e5m2:bf16",
                                  "--src=bf16 --dt=e5m2:e4m3fn:bf16", "--src=bf16 --dt=i8:i8:bf16"}) {
    for (const std::string scales : {"1x128:128x128", "1xall:1xall", "1xall:allxall"})
      problems.push_back(types + " --scale=" + scales + " 5x256:256x96");
  }
  const Scratch scratch;
  const std::string file = scratch.path("rows.json");
  std::vector<std::string> words = {"--device", "opencl:0", "--json", file};
  for (const std::string& problem : problems) words.insert(words.end(), {"--problem", problem});
  // One command, since each measures first what the device can do.
  const Outcome outcome = ironcl_command(quick(words), Plugins::real);
  if (outcome.status == 4) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
  const json::value report = outcome.json(file);
  const json::array& rows = report.at("rows").as_array();
  ASSERT_EQ(rows.size(), problems.size()) << outcome.out;
  for (const json::value& row : rows) EXPECT_EQ(row.at("verdict").as_string(), "pass") << json::serialize(row);
}

TEST(Bench, BothClassesStandSideBySideWhereADeviceHasTwoKernels) {
  const Scratch scratch;
  const std::string file = scratch.path("rows.json");
  const Outcome outcome = prints(ironcl_command(quick({"--device", "toy:0", "--device", "toy:7", "--shape", "64x256",
                                                       "--m", "3,5", "--accuracy", "both", "--json", file})),
                                 0, {});
  std::vector<std::string> rows;
  const json::value report = outcome.json(file);
  for (const json::value& row : report.at("rows").as_array())
    rows.push_back(std::string(row.at("device").as_string()) + " " + std::to_string(row.at("m").as_int64()) + " " +
                   std::string(row.at("accuracy_class").as_string()));
  EXPECT_EQ(rows, (std::vector<std::string>{"toy:0 3 f32", "toy:0 5 f32", "toy:7 3 f32", "toy:7 3 tensor14",
                                            "toy:7 5 f32", "toy:7 5 tensor14"}));
  EXPECT_TRUE(contains(outcome.out, "toy                in both classes"));
  EXPECT_TRUE(contains(outcome.out, "toy                tensor14 pass"));
}

TEST(Bench, RowsAreCheckedAndTheirFiguresFollowFromOneAnother) {
  const Scratch scratch;
  const std::string rows_json = scratch.path("rows.json"), rows_csv = scratch.path("rows.csv");
  const Outcome outcome = ironcl_command(
      quick({"--shape", "256x512", "--m", "1,17", "--out-dtype", "f32", "--json", rows_json, "--csv", rows_csv}),
      Plugins::real);
  if (outcome.status == 4) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
  const json::value report = outcome.json(rows_json);
  const json::array& rows = report.at("rows").as_array();
  ASSERT_GE(rows.size(), 2u);
  ASSERT_EQ(rows.size() % 2, 0u) << "both problems on each device";
  for (const json::value& row : rows) {
    const auto number = [&](const char* key) { return row.at(key).to_number<double>(); };
    EXPECT_EQ(row.at("verdict").as_string(), "pass");
    EXPECT_EQ(row.at("time_kind").as_string(), "measured");
    EXPECT_LE(number("max_error_over_bound"), 1);
    EXPECT_GE(number("runs"), 3);
    ASSERT_GT(number("time_ns"), 0);
    EXPECT_LE(number("time_ns"), number("host_ns")) << "the device's part of a call";
    EXPECT_NEAR(number("gflops"), 2 * number("m") * 256 * 512 / number("time_ns"), 1e-6 * number("gflops"));
    EXPECT_GT(number("of_fma_ceiling"), 0);
    EXPECT_GT(number("of_copy_ceiling"), 0);
    EXPECT_GE(number("weights_bytes"), 256 * 512);
    EXPECT_LE(number("weights_bytes"), 1.1 * 256 * 512);
  }
  const std::string csv = read_file(rows_csv);
  EXPECT_TRUE(contains(csv.substr(0, csv.find('\n')), "of_fma_ceiling"));
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), rows.size() + 1);

  // The problem as the row writes it is taken back.
  const std::string line(rows.back().at("problem").as_string());
  const Outcome again = prints(ironcl_command(quick({"--problem", line, "--json", rows_json}), Plugins::real), 0, {});
  EXPECT_EQ(again.json(rows_json).at("rows").at(0).at("problem").as_string(), line);
}

/// On a device whose times and ceilings are the same everywhere: a call of 2500 ns, 1e10 bytes copied a second, and
/// multiply-adds that are half as fast beside the calls as when the device was asked first.
TEST(Bench, SharesAreOfWhatTheDeviceDoesBesideTheCalls) {
  const Scratch scratch;
  const std::string rows_json = scratch.path("rows.json");
  const auto bench = [&](const std::string& m) {
    Outcome outcome =
        ironcl_command(quick({"--device", "toy:0", "--shape", "64x256", "--m", m, "--json", rows_json}));
    EXPECT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
    return outcome;
  };
  const Outcome outcome = bench("3,5");
  const json::value report = outcome.json(rows_json);
  ASSERT_EQ(report.at("rows").as_array().size(), 2u);
  for (const json::value& row : report.at("rows").as_array()) {
    const auto number = [&](const char* key) { return row.at(key).to_number<double>(); };
    const double m = number("m"), bytes = m * 256 * 2 + 64 * 256 + m * 64 * 2;
    EXPECT_EQ(row.at("time_kind").as_string(), "measured");
    EXPECT_EQ(number("time_ns"), 2500);
    EXPECT_NEAR(number("of_fma_ceiling"), 2 * m * 64 * 256 / 2500e-9 / 5e10, 1e-9);
    EXPECT_NEAR(number("of_copy_ceiling"), bytes / 2500e-9 / 1e10, 1e-9);
  }
  EXPECT_TRUE(contains(outcome.out, "100 GFLOP/s of f32 multiply-adds, 10 GB/s of copying")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "shares above 1")) << "with five rows";
  EXPECT_FALSE(contains(bench("3").out, "shares above 1"));
}

TEST(Bench, AChainIsCheckedAndTimedPerLayer) {
  const Scratch scratch;
  const std::string file = scratch.path("rows.json");
  std::vector<std::string> words = {
      "bench",  "--device", "toy:0",    "--shape", "64x256,128x64", "--chain", "3",      "--m", "1,5",
      "--runs", "3",        "--min-ms", "0",       "--warm-up-ms",  "0",       "--json", file};
  const Outcome outcome = prints(ironcl_command(words), 0, {});
  const json::value report = outcome.json(file);
  const json::array& rows = report.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (const json::value& row : rows) {
    expect_members(row, {{"verdict", "pass"}, {"layers", 3}, {"products", 2}});
    EXPECT_GT(row.at("max_error_over_bound").as_double(), 0);
    EXPECT_LT(row.at("enqueue_ns").to_number<double>(), row.at("layer_ns").to_number<double>());
    EXPECT_TRUE(row.at("launches").is_null()) << "this plugin does not count them";
  }
  // A device that computes wrongly is found, and its product named.
  words[2] = "toy:1";
  prints(ironcl_command(words), 1, {"1x256:256x64: D["});
  words[2] = "toy:5";
  EXPECT_EQ(ironcl_command(words).status, 1) << "what was not written is not taken for right";
  words[2] = "toy:4";
  prints(ironcl_command(words), 0, {"unsupported"});
}

TEST(Bench, ADeviceThatSaysNoTimesIsTimedByTheHost) {
  const Scratch scratch;
  const std::string rows_json = scratch.path("rows.json");
  const Outcome outcome =
      ironcl_command(quick({"--device", "opencl:0", "--shape", "256x512", "--m", "8", "--json", rows_json}),
                     Plugins::real, {{"IRONCL_OPENCL_PROFILING", "0"}});
  if (outcome.status == 4) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.err;
  const json::value row = outcome.json(rows_json).at("rows").at(0);
  EXPECT_EQ(row.at("time_kind").as_string(), "host");
  EXPECT_GT(row.at("time_ns").to_number<double>(), 0);
  EXPECT_EQ(row.at("time_ns"), row.at("host_ns"));
  EXPECT_TRUE(row.at("of_copy_ceiling").is_null());
  EXPECT_GE(row.at("launches").to_number<int>(), 1);
}

TEST(Bench, ModelledTimesHaveNoShareOfWhatIsMeasured) {
  const Scratch scratch;
  const std::string rows_json = scratch.path("rows.json");
  const Outcome outcome =
      prints(ironcl_command(quick({"--device", "ironwood:0", "--shape", "256x512", "--m", "8", "--json", rows_json}),
                            Plugins::real),
             0, {});
  const json::value row = outcome.json(rows_json).at("rows").at(0);
  expect_members(row, {{"time_kind", "modelled"}, {"of_fma_ceiling", nullptr}, {"of_copy_ceiling", nullptr}});
}

/// Whole layers of a published model, its width divided over eight ranks: an even load, a skewed one, the router's.
TEST(Bench, LayersOfExpertsAreCheckedAndTheirLoadIsAsAsked) {
  const Scratch scratch;
  const auto rows = [&](const std::string& load) {
    const std::string file = scratch.path("load" + load + ".json");
    const std::string layer =
        "bench --runs 3 --min-ms 0 --warm-up-ms 0 --check-rows 4 --device ironwood:0 --model qwen3-30b-a3b --tp-size "
        "8 "
        "--experts 32 --tokens 1,12 ";
    const Outcome outcome =
        prints(ironcl_command(with(split_words(layer + load), {"--json", file}), Plugins::real), 0, {});
    json::array all = outcome.json(file).at("rows").as_array();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const json::value& row = all[i];
      const std::int64_t tokens = i == 0 ? 1 : 12;
      EXPECT_EQ(row.at("verdict").as_string(), "pass") << row;
      EXPECT_EQ(row.at("tokens").as_int64(), tokens);
      EXPECT_EQ(row.at("rows").as_int64(), 8 * tokens);  // each token has eight of them
      EXPECT_EQ(row.at("experts").as_int64(), 32);
      EXPECT_GE(row.at("hit").as_int64(), 8);
      EXPECT_LE(row.at("hit").as_int64(), std::min<std::int64_t>(32, 8 * tokens));
      EXPECT_EQ(row.at("time_kind").as_string(), "modelled");
      // GB/s of the weights of the experts that are hit: codes, and a scale of f32 for each 128 x 128 of them.
      const double bytes = static_cast<double>(row.at("hit").as_int64()) * 3 * (96 * 2048 + 4 * 16);
      EXPECT_NEAR(row.at("gbytes_per_s").as_double(), bytes / row.at("time_ns").to_number<double>(),
                  1e-6 * row.at("gbytes_per_s").as_double());
    }
    return all;
  };
  const json::array even = rows("--skew 0"), skewed = rows("--skew 4"), routed = rows("--router");
  ASSERT_EQ(even.size(), 2u);
  ASSERT_EQ(skewed.size(), 2u);
  ASSERT_EQ(routed.size(), 2u);
  // The router's product takes more than a microsecond there.
  EXPECT_GT(routed[0].at("time_ns").to_number<double>(), even[0].at("time_ns").to_number<double>() + 1000);
  EXPECT_LT(skewed[1].at("hit").as_int64(), even[1].at("hit").as_int64());
}

TEST(Bench, ABackendsOptionThatItDoesNotKnowIsUsage) {
  for (const char* option : {"nonsense=1", "tpu=6502"}) {
    complains(ironcl_command(quick({"--shape", "256x512", "--m", "1", "--device", "ironwood:0", "--opt", option}),
                             Plugins::real),
              2, {"--opt: ironwood:0: "});
  }
  const Outcome tune = ironcl_command({"tune", "--shape", "256x512", "--m", "1", "--save", "off", "--budget", "1",
                                       "--device", "opencl:0", "--opt", "nonsense=1"},
                                      Plugins::real);
  if (tune.status == 4) GTEST_SKIP() << tune.err;
  EXPECT_EQ(tune.status, 2) << tune.command << tune.out;
  EXPECT_TRUE(contains(tune.err, "--opt: opencl:0: ")) << tune.err;
}

TEST(Bench, RowsNameTheirLayerAndHaveItsOwnBlocksAndTypes) {
  const Scratch scratch;
  const std::string rows_json = scratch.path("rows.json");
  const Outcome outcome =
      ironcl_command(quick({"--device", "ironwood:0", "--checkpoint", data_file("tiny-compressed-tensors"), "--m",
                            "8", "--json", rows_json}),
                     Plugins::real);
  ASSERT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
  const json::value report = outcome.json(rows_json);
  bool per_channel = false, blocks = false;
  for (const json::value& row : report.at("rows").as_array()) {
    const std::string name(row.at("layer").as_string()), problem(row.at("problem").as_string());
    EXPECT_TRUE(contains(name, "model.layers."));
    if (contains(name, "down_proj")) per_channel = static_cast<bool>(contains(problem, "--scale=1xall:1xall"));
    if (contains(name, "up_proj")) blocks = static_cast<bool>(contains(problem, "--scale=1x128:128x128"));
  }
  EXPECT_TRUE(contains(outcome.out, "\nmodel.layers.0.mlp.down_proj\n")) << "rows stand below their layer";
  EXPECT_EQ(outcome.err, "") << "no bar in a pipe";
  EXPECT_TRUE(per_channel) << json::serialize(report);
  EXPECT_TRUE(blocks) << json::serialize(report);
}

TEST(Bench, ADeviceThatIsNotThereIsNamed) {
  complains(ironcl_command(quick({"--shape", "256x512", "--device", "opencl:77"}), Plugins::real), 4, {"opencl:77"});
}

}  // namespace

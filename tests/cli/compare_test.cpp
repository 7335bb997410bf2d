// SPDX-License-Identifier: Apache-2.0
// ironcl compare on devices that are right and devices that are wrong in one way each (plugins/toy.cpp).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;

Outcome compare_on(const std::vector<std::string>& devices, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"compare", kLayer, "--input", kLayer + ":x"};
  for (const std::string& device : devices) words = with(words, {"--device", device});
  return ironcl_command(with(words, more));
}

void expect_keys(const json::value& value, const std::vector<std::string>& wanted) {
  for (const std::string& key : wanted)
    EXPECT_TRUE(value.as_object().contains(key)) << key << " is not in " << json::serialize(value);
}

TEST(Compare, PassesOnADeviceThatIsRight) {
  prints(compare_on({"toy:0"}), 0,
         {"weight: [7, 2048] x [576, 2048], scales 1x128 and 128x128", "2.50 us measured",
          "PASS: 1 layer, 1 result, 4032 elements, every one within its bound"});
}

TEST(Compare, JsonHasTheKeysThatProgramsRead) {
  const Scratch scratch;
  const std::string file = scratch.path("report.json");
  const Outcome outcome =
      prints(compare_on({"toy:0", "toy:6"}, {"--json", file, "--expect", kLayer + ":y_f64"}), 1, {});
  const json::value report = outcome.json(file);
  expect_keys(report, {"verdict", "path", "cases"});
  EXPECT_EQ(report.at("verdict").as_string(), "fail");
  const json::value& layer = report.at("cases").at(0);
  expect_keys(layer, {"layer", "m", "n", "k", "block", "problem", "seed", "devices", "pairs", "expect"});
  expect_members(layer, {{"layer", "weight"}, {"m", 7}, {"n", 576}, {"k", 2048}, {"block", {128, 128}}});
  EXPECT_TRUE(layer.at("seed").is_null()) << "the input was given";
  const json::value& right = layer.at("devices").at(0);
  expect_keys(right, {"uri", "name", "accuracy_class", "time_ns", "time_kind", "verdict", "max_error_over_bound",
                      "nmse", "calc_diff", "worst"});
  expect_members(right, {{"uri", "toy:0"}, {"name", "toy that right"}, {"accuracy_class", "f32"}});
  EXPECT_EQ(right.at("time_ns").to_number<double>(), 2500);
  EXPECT_EQ(right.at("time_kind").as_string(), "measured");
  EXPECT_EQ(right.at("verdict").as_string(), "pass");
  EXPECT_LT(right.at("max_error_over_bound").to_number<double>(), 1);
  EXPECT_EQ(right.at("quantization").as_string(), "equal");
  expect_keys(right.at("worst"), {"row", "col", "got", "want"});
  const json::value& wrong = layer.at("devices").at(1);
  EXPECT_EQ(wrong.at("worst").at("got").as_string(), "nan");
  EXPECT_EQ(wrong.at("max_error_over_bound").as_string(), "inf");
  EXPECT_EQ(wrong.at("worst").at("row").as_int64(), 6);
  EXPECT_EQ(wrong.at("worst").at("col").as_int64(), 575);
  EXPECT_EQ(layer.at("pairs").at(0).at("uris"), json::value({"toy:0", "toy:6"}));
  EXPECT_EQ(layer.at("pairs").at(0).at("verdict").as_string(), "fail");
  EXPECT_EQ(layer.at("expect").as_array().size(), 3u) << "the oracle and two devices";
  expect_keys(layer.at("expect").at(1), {"tensor", "uri", "nmse", "mean_rel", "calc_diff", "max_error_over_bound",
                                         "accuracy_class", "verdict"});
}

TEST(Compare, ShowsBothClassesOneBesideTheOther) {
  const Scratch scratch;
  const std::string file = scratch.path("report.json");
  const Outcome outcome =
      prints(compare_on({"toy:0", "toy:7"}, {"--accuracy", "both", "--json", file}), 0,
             {"\n  toy:0           oracle ", "\n  toy:7           oracle ", "\n  toy:7 tensor14  oracle ",
              "\n  toy:7           toy:7 tensor14 ", "PASS: 1 layer, 3 results, "});
  const json::value report = outcome.json(file);
  const json::value& layer = report.at("cases").at(0);
  const json::array& devices = layer.at("devices").as_array();
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[1].at("accuracy_class").as_string(), "f32");
  EXPECT_EQ(devices[2].at("accuracy_class").as_string(), "tensor14");
  EXPECT_EQ(devices[2].at("uri").as_string(), "toy:7");
  EXPECT_GT(devices[2].at("max_error_over_bound").to_number<double>(), 0.1) << "it is off by a fifth of that bound";
  EXPECT_EQ(layer.at("pairs").as_array().size(), 3u);
  EXPECT_EQ(layer.at("pairs").at(2).at("uris"), json::value({"toy:7", "toy:7"}));
  EXPECT_EQ(layer.at("pairs").at(2).at("accuracy_classes"), json::value({"f32", "tensor14"}));
  // Nobody is given the weaker class who does not allow it.
  const json::value strict = compare_on({"toy:7"}, {"--json", "-"}).json();
  EXPECT_EQ(strict.at("cases").at(0).at("devices").as_array().size(), 1u);
  EXPECT_EQ(strict.at("cases").at(0).at("devices").at(0).at("accuracy_class").as_string(), "f32");
}

TEST(Compare, NamesTheElementThatAWrongScaleSpoils) {
  prints(compare_on({"toy:1"}), 1,
         {"FAIL weight on toy:1: D[", "times the bound; ", "FAIL: 1 of 1 layer out of bounds"});
  const json::value report = compare_on({"toy:1"}, {"--json", "-"}).json();
  // The last block of B covers columns 512 to 575 of D.
  EXPECT_GE(report.at("cases").at(0).at("devices").at(0).at("worst").at("col").as_int64(), 512);
  EXPECT_LT(report.at("cases").at(0).at("devices").at(0).at("nmse").to_number<double>(), 0.1)
      << "averages hide it, which is why they do not decide";
}

TEST(Compare, AFailurePrintsTheCommandThatReproducesIt) {
  const Outcome outcome = prints(ironcl_command({"compare", kLayer, "--m", "3", "--seed", "9", "--out", "bf16"},
                                                Plugins::toy, {{"IRONCL_DISABLE", "opencl,ironwood"}}),
                                 1,
                                 {"problem:   --src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 "
                                  "3x2048:2048x576"});
  const std::string line =
      "reproduce: ironcl compare " + kLayer + " --layer weight --device toy:1 --m 3 --seed 9 --out-dtype bf16";
  EXPECT_TRUE(contains(outcome.out, line));
  const Outcome again = prints(ironcl_command({"compare", kLayer, "--layer", "weight", "--device", "toy:1", "--out",
                                               "bf16", "--m", "3", "--seed", "9"}),
                               1, {});
  const auto begin = outcome.out.find("FAIL weight on toy:1");
  ASSERT_NE(begin, std::string::npos) << outcome.out;
  EXPECT_TRUE(contains(again.out, outcome.out.substr(begin, outcome.out.find('\n', begin) - begin)));
}

TEST(Compare, NamesTheCodeThatADeviceQuantisesOtherwise) {
  prints(compare_on({"toy:2"}), 1, {"code [0,5] of the quantised activations is 0x"});
  const json::value report = compare_on({"toy:2"}, {"--json", "-"}).json();
  EXPECT_EQ(report.at("cases").at(0).at("devices").at(0).at("quantization").as_string(), "differs");
}

TEST(Compare, WhatIsWrongWithADeviceIsNamed) {
  prints(compare_on({"toy:0", "toy:3"}), 1, {"FAIL weight on toy:3: DEVICE_LOST: ", "the toy fell off the table"});
  prints(compare_on({"toy:5"}), 1, {"D[0,0] is nan", "4032 of 4032 elements are out of bounds"});
  prints(compare_on({"toy:6"}), 1, {"D[6,575] is nan", "1 of 4032 elements are out of bounds"});
}

TEST(Compare, ADeviceThatRefusesIsShownAndCountsAsNothing) {
  prints(compare_on({"toy:0", "toy:4"}), 0,
         {"weight: not run by toy:4: UNSUPPORTED: ", "this toy multiplies nothing; ask another one",
          "PASS: 1 layer, 1 result"});
  prints(compare_on({"toy:4"}), 4, {"FAIL: 1 of 1 layer ran on no device, so nothing is proven"});
  const json::value report = compare_on({"toy:4"}, {"--json", "-"}).json();
  EXPECT_EQ(report.at("verdict").as_string(), "fail");
  const json::value& device = report.at("cases").at(0).at("devices").at(0);
  expect_members(device, {{"verdict", "unsupported"}, {"max_error_over_bound", nullptr}, {"worst", nullptr}});
}

TEST(Compare, ZeroRowsAreAPassThatSaysSo) {
  prints(ironcl_command({"compare", kLayer, "--m", "0", "--device", "toy:0"}), 0,
         {"weight: 0 rows, so there was no element to compare"});
  const json::value report =
      ironcl_command({"compare", kLayer, "--m", "0", "--device", "toy:0", "--json", "-"}).json();
  EXPECT_EQ(report.at("cases").at(0).at("m").as_int64(), 0);
  EXPECT_TRUE(report.at("cases").at(0).at("devices").at(0).at("worst").is_null());
}

TEST(Compare, MakesUpTheSameRowsFromTheSameSeed) {
  const auto result = [](const std::string& seed) {
    const json::value report =
        ironcl_command({"compare", kLayer, "--device", "toy:0", "--seed", seed, "--json", "-"}).json();
    EXPECT_EQ(report.at("cases").at(0).at("m").as_int64(), 16);
    EXPECT_EQ(report.at("cases").at(0).at("seed").to_number<std::uint64_t>(), std::stoull(seed));
    return json::serialize(report.at("cases").at(0).at("devices"));
  };
  EXPECT_EQ(result("3"), result("3"));
  EXPECT_NE(result("3"), result("4"));
  const Outcome outcome = ironcl_command({"compare", kLayer, "--device", "toy:0"});
  EXPECT_TRUE(contains(outcome.out, "random (heavy-tailed bf16, seed 1)"));
}

TEST(Compare, RunsEveryLayerOfACheckpointInEveryOutputType) {
  for (const std::string out : {"f32", "bf16", "f16"}) {
    for (const std::string folder : {"tiny-qwen3-fp8", "tiny-deepseek-fp8", "tiny-compressed-tensors"}) {
      prints(ironcl_command({"compare", data_file(folder), "--device", "toy:0", "--out", out, "--m", "3"}), 0,
             {"every one within its bound"});
    }
  }
}

TEST(Compare, TakesTheLayersThatAGlobNames) {
  const Outcome some = prints(ironcl_command({"compare", data_file("tiny-qwen3-fp8"), "--layer", "*.q_proj",
                                              "--device", "toy:0", "--json", "-"}),
                              0, {});
  EXPECT_EQ(some.json().at("cases").as_array().size(), 1u);
  complains(ironcl_command({"compare", data_file("tiny-qwen3-fp8"), "--layer", "nothing*"}), 3, {"nothing*"});
}

TEST(Compare, TakesCodesWithTheirScalesAsTheyAre) {
  prints(ironcl_command({"compare", kLayer, "--input-q", kLayer + ":x_q,x_scale", "--device", "toy:0", "--expect",
                         kLayer + ":y_f64"}),
         0, {});
  const json::value report =
      ironcl_command({"compare", kLayer, "--input-q", kLayer + ":x_q,x_scale", "--device", "toy:0", "--json", "-"})
          .json();
  EXPECT_EQ(report.at("cases").at(0).at("problem").as_string(),
            "--dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 7x2048:2048x576");
  EXPECT_TRUE(report.at("cases").at(0).at("devices").at(0).at("quantization").is_null()) << "nothing was quantised";
}

TEST(Compare, CountsADeviceOnceThatIsNamedTwice) {
  const json::value report = compare_on({"toy:0", "toy", "toy:cpu"}, {"--json", "-"}).json();
  EXPECT_EQ(report.at("cases").at(0).at("devices").as_array().size(), 1u);
}

}  // namespace

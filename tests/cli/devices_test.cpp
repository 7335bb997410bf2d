// SPDX-License-Identifier: Apache-2.0
// ironcl devices, with and without a problem to explain.
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;

TEST(DevicesCommand, ListsUriTypeMemoryAndName) {
  prints(ironcl_command({"devices"}), 0, {"toy:0   cpu   1.00 GiB  toy that right"});
}

TEST(DevicesCommand, FitsANarrowTerminal) {
  const Outcome outcome = ironcl_command({"devices"}, Plugins::toy, {{"COLUMNS", "40"}});
  EXPECT_TRUE(contains(outcome.out, "device  toy:0\ntype    cpu\nmemory  1.00 GiB\n"));
}

TEST(DevicesCommand, JsonHasWhatAProgramAsks) {
  const json::value report = ironcl_command({"devices", "--json"}).json();
  const json::value& device = report.at("devices").at(0);
  expect_members(device, {{"uri", "toy:0"}, {"plugin", "toy"}, {"type", "cpu"}});
  EXPECT_EQ(device.at("memory_bytes").to_number<std::uint64_t>(), 1u << 30);
  EXPECT_TRUE(device.at("event_profiling").as_bool());
  EXPECT_TRUE(device.at("variants").is_null());
  const Outcome real = ironcl_command({"devices", "--json"}, Plugins::real);
  EXPECT_EQ(static_cast<bool>(contains(real.out, R"("name": "gemm_panel")")), kWithOpenCl);
}

TEST(DevicesCommand, ExplainsWhatEachDeviceSaysAndWhatAutoChooses) {
  const Outcome outcome = prints(ironcl_command({"devices", "--explain", "16,1024,3072"}), 0,
                                 {"problem: --src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 "
                                  "16x3072:3072x1024",
                                  "auto chooses toy:0"});
  EXPECT_EQ(ironcl_command({"devices", "--explain", "16x1024x3072"}).out, outcome.out);
  EXPECT_TRUE(contains(outcome.out, "this toy multiplies nothing; ask another one"));
}

TEST(DevicesCommand, ExplainsAnyProblemLine) {
  const Outcome outcome =
      ironcl_command({"devices", "--json", "--explain=--dt=e4m3:e4m3:f32 --scale=1x64:64x64 4x128:128x256"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const json::value report = outcome.json();
  EXPECT_EQ(report.at("problem").as_string(), "--dt=e4m3fn:e4m3fn:f32 --scale=1x64:64x64 4x128:128x256");
  EXPECT_EQ(report.at("chosen").as_string(), "toy:0");
  EXPECT_EQ(report.at("candidates").at(0).at("verdict").as_string(), "chosen");
  EXPECT_EQ(report.at("candidates").at(1).at("verdict").as_string(), "usable");
  EXPECT_EQ(report.at("candidates").at(4).at("verdict").as_string(), "refused");
  EXPECT_EQ(report.at("candidates").at(4).at("reason").as_string(), "shape");
}

TEST(DevicesCommand, ExplainFollowsTheEnvironment) {
  const json::value report =
      ironcl_command({"devices", "--json", "--explain", "1,128,128"}, Plugins::toy, {{"IRONCL_DEVICE", "toy:2"}})
          .json();
  EXPECT_EQ(report.at("chosen").as_string(), "toy:2");
}

TEST(DevicesCommand, ExplainingNothingUsableIsStatus4) {
  prints(ironcl_command({"devices", "--explain", "1,128,128"}, Plugins::toy, {{"IRONCL_DEVICE", "toy:4"}}), 4,
         {"auto chooses nothing: "});
}

TEST(DevicesCommand, ExplainSaysHowToWriteAProblem) {
  for (const std::string text :
       {"16,1024", "a,b,c", "1,0,3", "1,2,3x", "-1,2,3", "1,2,99999999999", "1,2x3", "1x2x", "1,,3"}) {
    complains(ironcl_command({"devices", "--explain=" + text}), 2, {"write M,N,K such as 16,1024,3072"});
  }
  EXPECT_TRUE(contains(ironcl_command({"devices", "--explain=1x2:3x4"}).err, "K = 2 on the left and 3 on the right"));
}

}  // namespace

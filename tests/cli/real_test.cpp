// SPDX-License-Identifier: Apache-2.0
// The main job on the real plugins: every file that somebody else computed, on every device found.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "host/checkpoint/matrix.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace fs = std::filesystem;
namespace json = boost::json;

/// The layer files in `folder` with an output of PyTorch.
std::vector<std::string> layer_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("block", 0) == 0 && entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  return files;
}

/// Compares with y_f64, with x and with x_q, in that output type; every device that computed is within its bound.
void expect_agreement(const std::string& file, const std::string& out) {
  for (const std::vector<std::string>& input :
       {std::vector<std::string>{"--input", file + ":x"}, {"--input-q", file + ":x_q,x_scale"}}) {
    const Outcome outcome = prints(
        ironcl_command(with({"compare", file, "--out", out, "--expect", file + ":y_f64", "--json", "-"}, input),
                       Plugins::real),
        0, {});
    const json::value report = outcome.json();
    EXPECT_EQ(report.at("verdict").as_string(), "pass") << outcome.command;
    bool modelled = false;
    for (const json::value& device : report.at("cases").at(0).at("devices").as_array()) {
      const std::string uri(device.at("uri").as_string());
      EXPECT_EQ(device.at("verdict").as_string(), "pass") << uri << ": " << outcome.command;
      // Every device so far sums exactly or in f32 tiles: far below the worst case that the bound allows.
      if (out == "f32") {
        EXPECT_LT(device.at("max_error_over_bound").to_number<double>(), 0.1) << uri << ": " << outcome.command;
      }
      if (uri == "ironwood:0") modelled = device.at("time_kind").as_string() == "modelled";
    }
    EXPECT_TRUE(modelled) << "ironwood:0 must take part, and its time is modelled: " << outcome.command;
  }
}

TEST(RealDevices, AgreeWithTorchOnEveryFile) {
  if (!kWithOpenCl) GTEST_SKIP() << "this build has no device but the model";
  const auto files = layer_files(TEST_DATA);
  ASSERT_FALSE(files.empty());
  for (const std::string& file : files) {
    for (const std::string out : {"f32", "bf16"}) expect_agreement(file, out);
  }
}

TEST(RealDevices, AgreeWithTorchOnTheLargerFiles) {
  if (!kWithOpenCl) GTEST_SKIP() << "this build has no device but the model";
  const char* folder = std::getenv("IRONCL_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "IRONCL_TEST_DATA does not name a folder with further test data";
  for (const std::string& file : layer_files(folder)) {
    if (!fs::exists(fs::path(TEST_DATA) / fs::path(file).filename())) expect_agreement(file, "f32");
  }
}

TEST(RealDevices, AgreeOnEveryLayerOfTheDemo) {
  if (!kWithOpenCl) GTEST_SKIP() << "this build has no device but the model";
  const Outcome outcome = prints(ironcl_command({"compare", data_file("tiny-qwen3-fp8")}, Plugins::real), 0,
                                 {"PASS: ", "ironwood:0  oracle"});
  EXPECT_EQ(outcome.err, "") << "compilers of kernels write their warnings there";
}

TEST(RealDevices, RunWritesTheNumbersOfTheModel) {
  const Scratch scratch;
  const std::string file = data_file("block128-m7-n576-k2048.safetensors"), output = scratch.path("y.safetensors");
  prints(ironcl_command(
             {"run", file, "--layer", "weight", "--input", file + ":x", "--device", "ironwood:0", "--output", output},
             Plugins::real),
         0, {"modelled"});
  const auto got = ironcl::checkpoint::load_matrix(output, "y").to_f64();
  const auto want = ironcl::checkpoint::load_matrix(file, "y_f64").to_f64();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << i;
}

TEST(RealDevices, UnitsOfACpuAreSwitchedOffByTheEnvironment) {
  struct Unit {
    std::string variant, name, what;
  };
  for (const auto& [variant, name, what] :
       {Unit{"gemm_amx", "IRONCL_OPENCL_AMX", "tiles (AMX)"},
        Unit{"gemm_bf16", "IRONCL_OPENCL_AVX512_BF16", "dot products of bf16 and bytes (AVX512-BF16, VNNI)"}}) {
    const std::vector<std::string> words{
        "bench",  "--device", "opencl:cpu", "--shape", "128x256",      "--m", "64", "--opt", "variant=" + variant,
        "--runs", "1",        "--min-ms",   "0",       "--warm-up-ms", "0"};
    const Outcome off = ironcl_command(words, Plugins::real, {{name, "0"}});
    if (off.err.find("no such device") != std::string::npos) GTEST_SKIP() << off.err;
    EXPECT_TRUE(contains(off.out, what + " are switched off"));
    const Outcome usual = ironcl_command(words, Plugins::real, {{name, "1"}});
    EXPECT_EQ(usual.out.find("switched off"), std::string::npos) << usual.out;
    const Outcome slip = ironcl_command({"plugins"}, Plugins::real, {{name, "maybe"}});
    EXPECT_TRUE(contains(slip.out, name + ") is \"maybe\", expected 0 or 1"));
  }
}

TEST(RealDevices, AutoNeverChoosesTheModel) {
  const Outcome outcome = ironcl_command({"devices", "--explain", "16,1024,1024", "--json"}, Plugins::real);
  const json::value report = outcome.json();
  EXPECT_NE(report.at("chosen"), json::value("ironwood:0"));
  for (const json::value& candidate : report.at("candidates").as_array()) {
    if (candidate.at("uri").as_string() != "ironwood:0") continue;
    EXPECT_EQ(candidate.at("verdict").as_string(), "refused");
    EXPECT_EQ(candidate.at("reason").as_string(), "model_device");
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// ironcl quantize and ironcl accuracy as a user runs them. Next door: tests/quantize (every format and edge).
#include <gtest/gtest.h>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;

TEST(QuantizeCommand, GoesToBf16AndBackAndSaysWhatStayedAndWhatWasLost) {
  const Scratch scratch;
  const std::string bf16 = scratch.path("bf16"), fp8 = scratch.path("fp8");
  prints(ironcl_command({"quantize", data_file("tiny-qwen3-fp8"), bf16, "--scheme", "none"}), 0,
         {"become bf16, not quantised", "SNR dB", "all"});
  prints(ironcl_command({"quantize", bf16, fp8, "--verify", "--keep", "*.k_proj"}), 0,
         {"become e4m3fn 128x128, scales f32 (fp8)", "stays, --keep *.k_proj", "model.layers.0.mlp.down_proj",
          "/s of input"});
  prints(ironcl_command({"inspect", fp8}), 0, {"model.layers.0.mlp.down_proj", "FP8 e4m3"});
  const auto report =
      ironcl_command({"quantize", bf16, scratch.path("mx"), "--scheme", "mxfp4", "--verify", "--json"}).json();
  EXPECT_EQ(report.at("layers").as_array().back().at("layer").as_string(), "all");
  EXPECT_GT(report.at("layers").as_array().back().at("snr_db").as_double(), 14);
}

TEST(QuantizeCommand, ADeviceMakesTheSameBytes) {
  const Scratch scratch;
  const std::string bf16 = scratch.path("bf16");
  prints(ironcl_command({"quantize", data_file("tiny-qwen3-fp8"), bf16, "--scheme", "none"}), 0, {});
  for (const std::string scheme : {"block", "mxfp8"}) {
    const auto made = [&](const std::string& name, const std::vector<std::string>& more, Plugins plugins) {
      prints(ironcl_command(with({"quantize", bf16, scratch.path(name), "--scheme", scheme}, more), plugins), 0,
             {"written"});
      return read_file(scratch.path(name) + "/model-00001-of-00002.safetensors") +
             read_file(scratch.path(name) + "/model-00002-of-00002.safetensors");
    };
    const std::string host = made(scheme, {}, Plugins::none);
    ASSERT_FALSE(host.empty());
    for (const std::string device : {"ironwood:0", "opencl:0"}) {
      if (device == "opencl:0" && !kWithOpenCl) continue;
      EXPECT_EQ(made(scheme + device, {"--device", device}, Plugins::real), host) << scheme << " on " << device;
    }
  }
  complains(ironcl_command({"quantize", bf16, scratch.path("x"), "--scheme", "nvfp4", "--device", "ironwood:0"},
                           Plugins::real),
            2, {"--device", "block, channel and mxfp8"});
}

TEST(QuantizeCommand, RefusesWithTheReasonAndTheWayOut) {
  const Scratch scratch;
  const std::string in = data_file("tiny-qwen3-fp8"), out = scratch.path("out");
  complains(ironcl_command({"quantize", in, out, "--scheme", "blocks"}), 2, {"--scheme blocks", "nvfp4"});
  complains(ironcl_command({"quantize", in, out, "--scheme", "tensor", "--clip", "mse"}), 2, {"--calibration"});
  complains(ironcl_command({"quantize", in, out, "--scheme", "channel", "--block", "64"}), 2, {"only scheme block"});
  complains(ironcl_command({"quantize", scratch.path("none"), out}), 3, {"no such file or folder"});
  complains(ironcl_command({"quantize", in, in}), 3, {"is the input"});
  complains(ironcl_command({"quantize", in}), 2, {"OUT"});
}

TEST(AccuracyCommand, HeavyTailsShowWhyFineGridsExist) {
  const auto rows = ironcl_command({"accuracy", "--data", "heavy:512x1024", "--json"}).json().at("rows").as_array();
  std::map<std::string, double> snr, zeroed;
  for (const auto& row : rows) {
    const std::string method(row.at("method").as_string());
    snr[method] = row.at("snr_db").to_number<double>();
    zeroed[method] = row.at("zeroed_share").to_number<double>();
  }
  // int8 has one step over a scale's whole range. e4m3 has its own exponent: there the small values go to 0.
  EXPECT_LT(snr.at("int8 per tensor") + 3, snr.at("int8 per channel"));
  EXPECT_LT(snr.at("int8 per channel") + 3, snr.at("int8 1x128"));
  for (const std::string type : {"int8", "e4m3"}) {
    EXPECT_GT(zeroed.at(type + " per tensor"), 1.5 * zeroed.at(type + " per channel")) << type;
    EXPECT_GT(zeroed.at(type + " per channel"), 1.5 * zeroed.at(type + " 1x128")) << type;
    EXPECT_GT(zeroed.at(type + " 512x512"), 1.5 * zeroed.at(type + " 32x32")) << type;
  }
  EXPECT_LT(snr.at("mxfp4"), snr.at("nvfp4"));
  EXPECT_LT(snr.at("nvfp4"), snr.at("mxfp8"));
  EXPECT_EQ(rows.size(), 23u);
}

TEST(AccuracyCommand, TakesTheLayersThatAreNamed) {
  const std::string path = data_file("tiny-qwen3-fp8");
  prints(ironcl_command({"accuracy", path, "--layer", "*.0.mlp.down_proj"}), 0,
         {"model.layers.0.mlp.down_proj [", "nvfp4"});
  complains(ironcl_command({"accuracy", path, "--layer", "nothing"}), 3, {"no weight that matches 'nothing'"});
  complains(ironcl_command({"accuracy"}), 2, {"--data"});
  for (const char* data : {"heavy", "heavy:4", "odd:4x4", "heavy:0x4", "heavy:4x4x4"})
    complains(ironcl_command({"accuracy", "--data", data}), 2, {"heavy:NxK"});
}

}  // namespace

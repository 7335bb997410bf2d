// SPDX-License-Identifier: Apache-2.0
// Checkpoints of which some layers cannot be used: what can be run is, and the rest makes few lines at the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;

/// Two layers that run, and `experts` whose scale is missing.
std::string mixed(const Scratch& scratch, int experts) {
  std::vector<OwnTensor> tensors;
  for (const char* name : {"model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"}) {
    tensors.push_back(OwnTensor(std::string(name) + ".weight", kE4m3, {128, 128}, 0x38));
    tensors.push_back(OwnTensor(std::string(name) + ".weight_scale_inv", {1, 1}, {1}));
  }
  for (int i = 0; i < experts; ++i)
    tensors.push_back(
        OwnTensor("model.layers.0.mlp.experts." + std::to_string(i) + ".weight", kE4m3, {32, 32}, 0x38));
  const std::string path = scratch.path("mixed.safetensors");
  save(path, tensors, {{"weight_block", "128"}});
  return path;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(LeftOut, CompareRunsWhatCanRunAndSaysInOneLineWhatCannot) {
  const Scratch scratch;
  const std::string path = mixed(scratch, 12);
  const std::string report = scratch.path("report.json");
  const Outcome outcome = prints(ironcl_command({"compare", path, "--device", "toy:0", "--json", report}), 0,
                                 {"left out: 12 layers that could not be run",
                                  "12 layers like model.layers.*.mlp.experts.*: ", "PASS: 2 layers, "});
  const json::value left_out = outcome.json(report).at("left_out");
  ASSERT_EQ(left_out.as_array().size(), 1u);
  expect_members(
      left_out.at(0),
      {{"count", 12}, {"layers", "model.layers.*.mlp.experts.*"}, {"first", "model.layers.0.mlp.experts.0"}});
}

TEST(LeftOut, ModelAndBenchDoTheSame) {
  const Scratch scratch;
  const std::string path = mixed(scratch, 3);
  const std::vector<std::vector<std::string>> commands = {
      {"model", "--layers", path, "--m", "8"},
      {"bench", "--checkpoint", path, "--m", "1", "--device", "ironwood:0", "--runs", "1", "--min-ms", "0",
       "--warm-up-ms", "0", "--rotate-mib", "0"},
      {"bench", "--checkpoint", path, "--m", "1", "--device", "ironwood:0", "--runs", "1", "--min-ms", "0",
       "--warm-up-ms", "0", "--chain", "1"}};
  for (auto words : commands) {
    const std::string file = scratch.path(words[0] + ".json");
    words.insert(words.end(), {"--json", file});
    const Outcome outcome = ironcl_command(words, Plugins::real);
    const json::array left_out = outcome.json(file).at("left_out").as_array();
    ASSERT_EQ(left_out.size(), 1u) << outcome.command;
    EXPECT_EQ(left_out[0].at("count").to_number<int>(), 3) << outcome.command;
    EXPECT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "left out: 3 layers")) << outcome.command;
    EXPECT_TRUE(contains(outcome.out, "3 layers like model.layers.*.mlp.experts.*: ")) << outcome.command;
  }
}

TEST(LeftOut, ALayerThatIsNamedIsTheCallersOwnInput) {
  const Scratch scratch;
  const std::string path = mixed(scratch, 2);
  complains(ironcl_command({"compare", path, "--device", "toy:0", "--layer", "model.layers.0.mlp.experts.1"}), 3,
            {"model.layers.0.mlp.experts.1.weight"});
  const std::string x = scratch.path("x.safetensors"), y = scratch.path("y.safetensors");
  save(x, {OwnTensor("x", {1, 32}, std::vector<float>(32, 1))}, {});
  complains(ironcl_command({"run", path, "--device", "toy:0", "--layer", "model.layers.0.mlp.experts.1", "--input",
                            x + ":x", "--output", y}),
            3, {"model.layers.0.mlp.experts.1.weight"});
}

TEST(LeftOut, WhereNothingCanRunTheComplaintsAreTheMessage) {
  const Scratch scratch;
  const std::string path = mixed(scratch, 4);
  complains(ironcl_command({"compare", path, "--device", "toy:0", "--layer", "*.experts.*"}), 3,
            {path, "none of 4 layers can be used\n4 layers like model.layers.*.mlp.experts.*: "});
}

TEST(LeftOut, ThousandsOfBadLayersAreFewLines) {
  const Scratch scratch;
  const Outcome outcome = prints(ironcl_command({"compare", mixed(scratch, 3000), "--device", "toy:0"}), 0, {});
  EXPECT_LT(lines_of(outcome.out) + lines_of(outcome.err), 30u) << outcome.out;
}

TEST(LeftOut, LayersThatNoDeviceRunsAreFoldedToo) {
  const Scratch scratch;
  prints(ironcl_command({"compare", mixed(scratch, 0), "--device", "toy:4", "--device", "toy:0"}), 0,
         {"2 layers like model.layers.*.mlp.down_proj: not run by toy:4: "});
}

TEST(LeftOut, LayersOfAnotherWidthThanTheInputAreLeftOut) {
  const Scratch scratch;
  const std::string path = scratch.path("two.safetensors");
  save(path,
       {OwnTensor("a.weight", kE4m3, {128, 128}, 0x38), OwnTensor("a.weight_scale_inv", {1, 1}, {1}),
        OwnTensor("b.weight", kE4m3, {128, 256}, 0x38), OwnTensor("b.weight_scale_inv", {1, 2}, {1, 1}),
        OwnTensor("x", {2, 256}, std::vector<float>(512, 1.0f))},
       {{"weight_block", "128"}});
  prints(ironcl_command({"compare", path, "--device", "toy:0", "--input", path + ":x"}), 0,
         {"left out: 1 layer ", "PASS: 1 layer, "});
}

TEST(LeftOut, AWrongNameSuggestsWhatIsNear) {
  const Scratch scratch;
  const std::string path = mixed(scratch, 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"compare", path, "--layer", "model.layers.0.mlp.downproj"},
        {"run", path, "--layer", "model.layers.0.mlp.downproj", "--input", path + ":x", "--output", "y"}}) {
    complains(ironcl_command(words), 3, {"did you mean 'model.layers.0.mlp.down_proj'"});
  }
}

TEST(ModelOnly, IsNeverAPass) {
  if (!kWithOpenCl) GTEST_SKIP() << "this build has no device but the model";
  const Scratch scratch;
  const std::string path = mixed(scratch, 0);
  const std::map<std::string, std::string> no_opencl = {{"IRONCL_DISABLE", "opencl"}};
  const Outcome outcome = prints(ironcl_command({"compare", path, "--json", "-"}, Plugins::real, no_opencl), 4, {});
  EXPECT_EQ(outcome.json().at("verdict").as_string(), "model_only");
  EXPECT_TRUE(contains(outcome.err, "no device to compare with, only the model was found"));
  EXPECT_TRUE(contains(outcome.err, "libironcl_opencl.so was disabled by name (IRONCL_DISABLE)"));
  EXPECT_TRUE(contains(outcome.err, "ocl-icd-libopencl1 and pocl-opencl-icd"));
  const Outcome text = ironcl_command({"compare", path}, Plugins::real, no_opencl);
  EXPECT_FALSE(text.out.find("PASS") != std::string::npos) << text.out;
  EXPECT_TRUE(contains(text.out, "MODEL ONLY: 2 of 2 layers ran on no device but the model"));
}

TEST(ModelOnly, WhereTheModelIsNamedIsDoneAndStillNoPass) {
  const Scratch scratch;
  const Outcome outcome =
      prints(ironcl_command({"compare", mixed(scratch, 0), "--device", "ironwood:0"}, Plugins::real), 0, {});
  EXPECT_FALSE(outcome.out.find("PASS") != std::string::npos) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "MODEL ONLY"));
}

TEST(ModelOnly, NamesThePluginThatWasRefusedAndWhy) {
  const Scratch scratch;
  const std::string broken = scratch.file("libironcl_broken.so", "no library");
  complains(ironcl_command({"compare", mixed(scratch, 0)}, Plugins::real,
                           {{"IRONCL_PLUGIN_FILES", broken}, {"IRONCL_DISABLE", "opencl"}}),
            4, {broken + " was refused: "});
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// ironcl run: the file that it writes holds the layer's output.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "host/checkpoint/matrix.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace numerics = ironcl::numerics;
using ironcl::checkpoint::load_matrix;

std::vector<std::string> run_words(const std::string& output, const std::vector<std::string>& more = {}) {
  return with({"run", kLayer, "--layer", "weight", "--output", output}, more);
}

TEST(Run, WritesWhatTorchComputedInEveryType) {
  const Scratch scratch;
  const std::string output = scratch.path("y.safetensors");
  const std::vector<double> expected = load_matrix(kLayer, "y_f64").to_f64();
  const std::vector<std::pair<std::string, numerics::DType>> types = {
      {"f32", numerics::DType::f32}, {"bf16", numerics::DType::bf16}, {"f16", numerics::DType::f16}};
  for (const auto& [name, type] : types) {
    for (const std::vector<std::string>& input :
         {std::vector<std::string>{"--input", kLayer + ":x"}, {"--input-q", kLayer + ":x_q,x_scale"}}) {
      prints(ironcl_command(run_words(output, with(input, {"--device", "toy:0", "--out", name}))), 0,
             {output + ": y [7, 576] " + name + " by toy:0 (toy that right), 2.50 us measured"});
      const auto y = load_matrix(output, "y");
      ASSERT_EQ(y.rows, 7);
      ASSERT_EQ(y.cols, 576);
      ASSERT_EQ(y.tensor.dtype, type);
      std::vector<float> rounded(expected.begin(), expected.end());
      std::vector<std::byte> bytes(rounded.size() * numerics::size_of(type));
      numerics::encode(type, rounded, bytes.data());
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), y.tensor.data.begin(), y.tensor.data.end()))
          << "the toy computes in f64 and rounds once, as this test does";
      EXPECT_EQ(y.file.metadata().at("device"), "toy:0 (toy that right)");
    }
  }
}

TEST(Run, ActivationsAreQuantisedOnceAndByThePlan) {
  const Scratch scratch;
  const auto y_of = [&](const std::string& name, const std::vector<std::string>& more) {
    const std::string output = scratch.path(name + ".safetensors");
    const Outcome outcome =
        ironcl_command(run_words(output, more), Plugins::toy, {{"TOY_QUANTISATIONS", scratch.path(name + ".txt")}});
    EXPECT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.err;
    return load_matrix(output, "y").to_f64();
  };
  const auto quantisations = [&](const std::string& name) {
    std::ifstream lines(scratch.path(name + ".txt"));
    return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  };
  // The second device makes another code of one element: its result says whose codes were multiplied.
  const auto right = y_of("right", {"--input", kLayer + ":x", "--device", "toy:0"});
  const auto other = y_of("other", {"--input", kLayer + ":x", "--device", "toy:2"});
  EXPECT_EQ(quantisations("right"), 1);
  EXPECT_EQ(quantisations("other"), 1);
  EXPECT_NE(right, other) << "somebody had quantised before the plan did";
  const auto given = y_of("given", {"--input-q", kLayer + ":x_q,x_scale", "--device", "toy:2"});
  EXPECT_EQ(quantisations("given"), 0);
  EXPECT_EQ(given, right);
}

TEST(Run, UsesTheFirstRowsThatMSays) {
  const Scratch scratch;
  const std::string output = scratch.path("y.safetensors");
  const Outcome outcome =
      ironcl_command(run_words(output, {"--input", kLayer + ":x", "--m", "2", "--device", "toy:0"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(load_matrix(output, "y").rows, 2);
}

TEST(Run, ChoosesADeviceByItself) {
  const Scratch scratch;
  prints(ironcl_command(run_words(scratch.path("y.safetensors"), {"--input", kLayer + ":x"})), 0, {"by toy:0"});
}

TEST(Run, LeavesNoFileWhereItFails) {
  const Scratch scratch;
  const std::string output = scratch.path("y.safetensors");
  const auto on = [&](const std::string& device) {
    return ironcl_command(run_words(output, {"--input", kLayer + ":x", "--device", device}));
  };
  complains(on("toy:3"), 1, {"ironcl run: DEVICE_LOST: "});
  complains(on("toy:4"), 4, {"this toy multiplies nothing; ask another one"});
  EXPECT_EQ(on("toy:77").status, 4);
  EXPECT_EQ(on("toy::").status, 2);
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(Run, NeedsActivationsALayerAndAnOutput) {
  const Scratch scratch;
  complains(ironcl_command(run_words(scratch.path("y.safetensors"))), 2,
            {"--input FILE:TENSOR or --input-q FILE:VALUES,SCALES"});
  EXPECT_EQ(ironcl_command({"run", kLayer, "--input", kLayer + ":x", "--output", "y"}).status, 2);
  EXPECT_EQ(ironcl_command({"run", kLayer, "--input", kLayer + ":x", "--layer", "weight"}).status, 2);
  complains(ironcl_command({"run", kLayer, "--input", kLayer + ":x", "--layer", "q_proj", "--output", "y"}), 3,
            {"q_proj"});
}

}  // namespace

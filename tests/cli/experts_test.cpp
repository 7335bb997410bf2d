// SPDX-License-Identifier: Apache-2.0
// Layers of experts by the command: compare and run, with other people's routings and results.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "host/checkpoint/safetensors.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;

constexpr const char* kMlp = "model.layers.0.mlp";

std::string expected(const std::string& name, const std::string& tensors) {
  return data_file("experts/" + name + ".expect.safetensors") + ":" + tensors;
}

TEST(Experts, CompareRunsTheWholeLayer) {
  const Outcome outcome = ironcl_command(
      {"compare", data_file("experts/deepseek-v3"), "--layer", "*.mlp", "--m", "9", "--json", "-"}, Plugins::real);
  const json::value report = outcome.json();
  ASSERT_EQ(report.at("cases").as_array().size(), 1u) << outcome.err;
  const json::value& one = report.at("cases").at(0);
  EXPECT_EQ(one.at("layer").as_string(), kMlp);
  EXPECT_TRUE(contains(std::string(one.at("problem").as_string()), "8 experts of width 96, 2 per token"));
  for (const json::value& device : one.at("devices").as_array())
    EXPECT_NE(device.at("verdict").as_string(), "fail") << device;
}

TEST(Experts, CompareAgreesWithTransformers) {
  const Outcome outcome =
      ironcl_command({"compare", data_file("experts/deepseek-v3"), "--layer", kMlp, "--weight-only", "--input",
                      expected("deepseek-v3", "x"), "--routing", expected("deepseek-v3", "ids,weights"), "--expect",
                      expected("deepseek-v3", "y"), "--device", "ironwood:0"},
                     Plugins::real);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

/// A copy of the checkpoint deepseek-v3 with the first scale of that tensor times 4.
std::string with_a_wrong_scale(const Scratch& scratch, const std::string& folder, const std::string& tensor) {
  std::string bad = scratch.path(folder);
  std::filesystem::copy(data_file("experts/deepseek-v3"), bad, std::filesystem::copy_options::recursive);
  const std::string file = bad + "/model.safetensors";
  std::streamoff at = 0;
  {
    const auto opened = ironcl::checkpoint::SafetensorsFile::open(file);
    at = opened.at(tensor).data.data() - opened.tensors().front().data.data();
    std::ptrdiff_t first = 0;
    for (const auto& one : opened.tensors())
      first = std::min(first, one.data.data() - opened.tensors().front().data.data());
    std::uint64_t header = 0;
    std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
    at += static_cast<std::streamoff>(8 + header) - first;
  }
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  float scale = 0;
  stream.seekg(at).read(reinterpret_cast<char*>(&scale), sizeof scale);
  scale *= 4;
  stream.seekp(at).write(reinterpret_cast<const char*>(&scale), sizeof scale);
  return bad;
}

/// With what transformers makes of the right checkpoint, with what this command makes of it, and with nothing to
/// compare with.
TEST(Experts, CompareNamesTheExpertWhoseScaleIsWrong) {
  const Scratch scratch;
  const std::string right = scratch.path("right.safetensors"), x = expected("deepseek-v3", "x"),
                    routing = expected("deepseek-v3", "ids,weights"), y = expected("deepseek-v3", "y");
  for (const char* type : {"f32", "bf16"})
    prints(ironcl_command(
               {"run", data_file("experts/deepseek-v3"), "--layer", kMlp, "--input", x, "--routing", routing,
                "--device", "ironwood:0", "--out-dtype", type, "--output", right + "." + type + ".safetensors"},
               Plugins::real),
           0, {"y [11, 160]"});
  for (const std::string matrix : {"gate", "up", "down"}) {
    const std::string bad =
        with_a_wrong_scale(scratch, matrix, "model.layers.0.mlp.experts.5." + matrix + "_proj.weight_scale_inv");
    const auto compare = [&](const std::vector<std::string>& more) {
      return ironcl_command(with({"compare", bad, "--layer", "*.mlp", "--device", "ironwood:0"}, more),
                            Plugins::real);
    };
    // With nothing to compare with it is no failure: everybody computes what the checkpoint says.
    EXPECT_EQ(compare({}).status, 0) << matrix;
    for (const std::vector<std::string>& more : {std::vector<std::string>{"--expect", y, "--weight-only"},
                                                 {"--expect", right + ".f32.safetensors:y"},
                                                 {"--expect", right + ".bf16.safetensors:y"}}) {
      prints(compare(with({"--input", x, "--routing", routing}, more)), 1,
             {"expert 5: all 3 tokens that differ went there"});
    }
  }
}

TEST(Experts, CompareSaysThatSomebodyMayHaveLeftActivationsUnquantised) {
  prints(ironcl_command({"compare", data_file("experts/deepseek-v3"), "--layer", kMlp, "--input",
                         expected("deepseek-v3", "x"), "--routing", expected("deepseek-v3", "ids,weights"),
                         "--expect", expected("deepseek-v3", "y"), "--device", "ironwood:0"},
                        Plugins::real),
         1, {"; --weight-only compares with a program that left them so"});
}

/// One token chooses two experts of eight; the others run all the same, and the report says so.
TEST(Experts, CompareRunsExpertsThatNoTokenChose) {
  prints(ironcl_command(
             {"compare", data_file("experts/deepseek-v3"), "--layer", kMlp, "--m", "1", "--device", "ironwood:0"},
             Plugins::real),
         0, {"; 6 that no token chose run apart"});
}

TEST(Experts, RunWritesResultAndRoutingThatAnotherRunTakes) {
  const Scratch scratch;
  const std::string first = scratch.path("first.safetensors"), second = scratch.path("second.safetensors");
  const std::vector<std::string> common = {"run",     data_file("experts/qwen3-moe"), "--layer",  kMlp,
                                           "--input", expected("qwen3-moe", "x"),     "--device", "ironwood:0"};
  prints(ironcl_command(with(common, {"--output", first}), Plugins::real), 0, {"ids and weights [11, 2]"});
  prints(ironcl_command(with(common, {"--output", second, "--routing", first + ":ids,weights"}), Plugins::real), 0,
         {});
  const auto a = ironcl::checkpoint::SafetensorsFile::open(first),
             b = ironcl::checkpoint::SafetensorsFile::open(second);
  EXPECT_EQ(a.at("y").shape, (std::vector<std::int64_t>{11, 96}));
  EXPECT_EQ(a.at("ids").dtype_name, "I32");
  EXPECT_EQ(a.at("ids").shape, (std::vector<std::int64_t>{11, 2}));
  EXPECT_EQ(a.at("weights").dtype_name, "F32");
  for (const char* name : {"y", "ids", "weights"})
    EXPECT_TRUE(std::equal(a.at(name).data.begin(), a.at(name).data.end(), b.at(name).data.begin())) << name;
}

TEST(Experts, WhatIsAskedWronglyIsAUsageError) {
  const auto run = [](const std::vector<std::string>& more) {
    return ironcl_command(with({"compare", data_file("experts/qwen3-moe")}, more), Plugins::none);
  };
  const std::string routing = expected("qwen3-moe", "ids,weights"), x = expected("qwen3-moe", "x");
  Outcome outcome = complains(run({"--layer", "*.up_proj", "--routing", routing, "--input", x}), 2,
                              {"--routing is about one layer of experts"});
  outcome = run({"--layer", kMlp, "--input-q", x + ",x"});
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  complains(run({"--layer", kMlp, "--input", x, "--routing", expected("mixtral", "ids,y")}), 3, {"expected [11, 2]"});
  outcome = run({"--layer", kMlp, "--input", x, "--routing", expected("qwen3-5-stacked", "ids,weights")});
  EXPECT_EQ(outcome.status, 3);
  complains(ironcl_command({"compare", data_file("experts/mixtral"), "--layer", "*.mlp"}, Plugins::none), 3,
            {"; layers of experts: model.layers.0.block_sparse_moe"});
  complains(run({"--layer", "model.layers.0.mpl"}), 3, {"did you mean 'model.layers.0.mlp'"});
}

}  // namespace

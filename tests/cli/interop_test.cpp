// SPDX-License-Identifier: Apache-2.0
// From files of others to a device's result: layers with a static scale of activations; folders that the field's
// tools wrote, against torch's float64 (tests/checkpoint/foreign_test.cpp has all of them up to the operands).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;

/// Weights of 1 with scale 0.5; activations 2000 and 1 with the static scale 2: codes 448 (saturated) and 0.5.
/// Every element of the result is 0.5 * 2 * (448 + 127 * 0.5), exactly.
struct StaticLayer {
  Scratch scratch;
  std::string data = scratch.path("data.safetensors");

  StaticLayer() {
    std::vector<float> x(128, 1.f);
    x[0] = 2000;
    save(data, {OwnTensor("x", {1, 128}, x), OwnTensor("y", {1, 256}, std::vector<float>(256, 511.5f))});
  }
  void write(const std::string& name, const std::string& scale) const {
    save(scratch.path(name), {OwnTensor("a.weight", kE4m3, {256, 128}, 0x38),
                              OwnTensor("a.weight_scale", {1}, {0.5f}), OwnTensor("a." + scale, {1}, {2.f})});
  }
};

TEST(StaticActivations, OfALoneFileReachTheResult) {
  const StaticLayer layer;
  for (const std::string scale : {"input_scale", "activation_scale"}) {
    layer.write("lone.safetensors", scale);
    prints(ironcl_command({"compare", layer.scratch.path("lone.safetensors"), "--device", "toy:0", "--input",
                           layer.data + ":x", "--expect", layer.data + ":y"}),
           0, {});
    const Outcome listed = ironcl_command({"inspect", layer.scratch.path("lone.safetensors")}, Plugins::none);
    EXPECT_TRUE(contains(listed.out, "static"));
  }
}

TEST(StaticActivations, OfAModeloptFolderReachTheResult) {
  const StaticLayer layer;
  layer.write("model.safetensors", "input_scale");
  layer.scratch.file("config.json",
                     R"({"quantization_config":{"quant_method":"modelopt","config_groups":{"group_0":{)"
                     R"("input_activations":{"dynamic":false,"num_bits":8,"type":"float"},)"
                     R"("weights":{"dynamic":false,"num_bits":8,"type":"float"},"targets":["Linear"]}}}})");
  const Outcome outcome = ironcl_command({"compare", layer.scratch.path(""), "--layer", "a", "--device", "toy:0",
                                          "--input", layer.data + ":x", "--expect", layer.data + ":y"});
  // data.safetensors is beside model.safetensors, which is preferred.
  EXPECT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
  prints(ironcl_command({"run", layer.scratch.path(""), "--layer", "a", "--device", "toy:0", "--input",
                         layer.data + ":x", "--output", layer.scratch.path("y.safetensors")}),
         0, {});
}

class InteropCompare : public testing::TestWithParam<const char*> {};

TEST_P(InteropCompare, GivesTorchsNumbers) {
  const std::string folder = data_file(std::string("interop/") + GetParam()), expect = folder + ".expect.safetensors";
  const Outcome outcome =
      ironcl_command({"compare", folder, "--layer", "model.layers.0.self_attn.q_proj", "--device", "ironwood:0",
                      "--input", expect + ":x" + (folder.ends_with("experts-static") ? "0" : "1"), "--expect",
                      expect + ":y" + (folder.ends_with("experts-static") ? "0" : "1")},
                     Plugins::real);
  EXPECT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(Folders, InteropCompare,
                         testing::Values("tf-static", "tf-experts-static", "mo-fp8-kv", "ao-fp8-row", "quark-fp8"));

}  // namespace

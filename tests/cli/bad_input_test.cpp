// SPDX-License-Identifier: Apache-2.0
// What the command says of files that are not right, and its exit status: 3, whatever devices there are.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;

/// `words` end with status 3 and a message that has every one of `parts`; with devices and without.
void expect_bad_input(const std::vector<std::string>& words, const std::vector<std::string>& parts) {
  for (const Plugins plugins : {Plugins::toy, Plugins::none}) {
    const Outcome outcome = complains(ironcl_command(words, plugins), 3, {"ironcl " + words[0] + ": "});
    for (const std::string& part : parts) EXPECT_TRUE(contains(outcome.err, part)) << outcome.command;
  }
}

TEST(BadInput, ATruncatedFileIsNamed) {
  const Scratch scratch;
  const std::string whole = read_file(kLayer);
  const std::string path = scratch.file("short.safetensors", whole.substr(0, whole.size() / 2));
  expect_bad_input({"compare", path}, {path});
  expect_bad_input({"inspect", path}, {path});
  expect_bad_input({"compare", scratch.file("tiny.safetensors", "abc")}, {"tiny.safetensors"});
}

TEST(BadInput, AHeaderThatLiesAboutSizesIsNamed) {
  const Scratch scratch;
  std::string bytes = read_file(kLayer);
  bytes[6] = '\x7f';  // the header's length, 2^54 more than there is
  expect_bad_input({"compare", scratch.file("long-header.safetensors", bytes)},
                   {"long-header.safetensors", "header"});

  bytes = read_file(kLayer);
  const std::size_t shape = bytes.find("[576,2048]");
  ASSERT_NE(shape, std::string::npos);
  bytes.replace(shape, 10, "[577,2048]");
  expect_bad_input({"compare", scratch.file("lie.safetensors", bytes)}, {"lie.safetensors", "'weight'"});
}

TEST(BadInput, AScaleOfTheWrongShapeIsNamedWithTheShapeItShouldHave) {
  const Scratch scratch;
  const std::string path = scratch.path("misshapen.safetensors");
  save(path,
       {OwnTensor("weight", kE4m3, {256, 256}, 0x38),
        OwnTensor("weight_scale_inv", {3, 2}, std::vector<float>(6, 1.0f))},
       {{"weight_block", "128"}});
  expect_bad_input({"compare", path}, {path, "weight_scale_inv", "[3, 2]", "[2, 2]"});
  expect_bad_input({"inspect", path}, {"weight_scale_inv"});
}

TEST(BadInput, AScaleThatIsNoNumberIsNamed) {
  const Scratch scratch;
  for (const float bad : {std::nanf(""), INFINITY, -1.0f}) {
    const std::string path = scratch.path("nan.safetensors");
    write_layer(path, {1, 1, bad, 1});
    expect_bad_input({"compare", path}, {path, "weight_scale_inv"});
  }
  const std::string path = scratch.path("x.safetensors");
  save(path,
       {OwnTensor("q", kE4m3, {4, 2048}, 0x38), OwnTensor("s", {4, 16}, std::vector<float>(64, std::nanf("")))});
  expect_bad_input({"compare", kLayer, "--input-q", path + ":q,s"}, {path, "'s'"});
}

TEST(BadInput, APathThatIsNotThereIsNamed) {
  expect_bad_input({"compare", "/nowhere/model"}, {"/nowhere/model"});
  expect_bad_input({"inspect", "/nowhere/model"}, {"/nowhere/model"});
}

TEST(BadInput, ALinkLoopAndANameThatIsTooLongAreNamed) {
  const Scratch scratch;
  const std::string loop = scratch.path("loop"), longest = scratch.path(std::string(256, 'n'));
  std::filesystem::create_symlink("loop", loop);
  for (const auto& [path, reason] : {std::pair{loop, "Too many levels of symbolic links"},
                                     {loop + "/model.safetensors", "Too many levels of symbolic links"},
                                     {longest, "File name too long"}}) {
    expect_bad_input({"inspect", path}, {path + ": cannot be read: " + reason});
    expect_bad_input({"compare", path}, {path + ": cannot be read: " + reason});
    expect_bad_input({"compare", kLayer, "--input", path + ":x"}, {path + ": cannot be read: " + reason});
    expect_bad_input({"bench", "--checkpoint", path}, {path + ": cannot be read: " + reason});
  }
  // Inside a checkpoint folder: what an index names, and the files that are looked for by name.
  for (const std::string name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    const std::string folder = scratch.path("with-" + name), path = folder + "/" + name;
    std::filesystem::create_directory(folder);
    std::filesystem::create_symlink(name, path);
    expect_bad_input({"inspect", folder}, {path + ": cannot be read: Too many levels of symbolic links"});
  }
  const std::string folder = scratch.path("shards"), shard = std::string(300, 's');
  std::filesystem::create_directory(folder);
  scratch.file("shards/model.safetensors.index.json", R"({"weight_map": {"weight": ")" + shard + "\"}}");
  expect_bad_input({"inspect", folder}, {folder + "/" + shard + ": cannot be read: File name too long"});
}

TEST(BadInput, AnInputThatDoesNotFitIsNamed) {
  const Scratch scratch;
  expect_bad_input({"compare", kLayer, "--input", kLayer + ":nothing"}, {"nothing"});
  expect_bad_input({"compare", kLayer, "--input-q", kLayer + ":x,x_scale"}, {"'x'", "bf16", "--input"});
  expect_bad_input({"compare", kLayer, "--input", kLayer + ":x", "--m", "8"}, {"'x'", "fewer rows than --m 8"});
  const std::string narrow = scratch.path("narrow.safetensors");
  save(narrow, {OwnTensor("x", {2, 64}, std::vector<float>(128, 1.0f))});
  expect_bad_input({"compare", kLayer, "--input", narrow + ":x"}, {narrow, "[2, 64]", "K = 2048"});
}

/// What is no FILE:TENSOR at all is the command line's fault, and said of the option, before any file is opened.
TEST(BadInput, AMalformedNameOfATensorIsUsage) {
  const Scratch scratch;
  const auto expect_usage = [](std::vector<std::string> words, const std::vector<std::string>& parts) {
    const Outcome outcome = prints(ironcl_command(words), 2, {});
    for (const std::string& part : parts) EXPECT_TRUE(contains(outcome.err, part)) << outcome.err;
  };
  expect_usage({"compare", "/no/such/model", "--input", kLayer}, {"--input '" + kLayer, "expected FILE:TENSOR"});
  expect_usage({"compare", kLayer, "--input-q", kLayer + ":x"}, {"--input-q", "expected FILE:VALUES,SCALES"});
  expect_usage({"compare", kLayer, "--expect", "y"}, {"--expect 'y'"});
  expect_usage({"compare", kLayer, "--routing", kLayer + ":,"}, {"--routing", "empty tensor name"});
  expect_usage({"run", kLayer, "--layer", "weight", "--input", kLayer + ":x", "--routing", "r", "--output",
                scratch.path("y.safetensors")},
               {"--routing 'r'"});
}

TEST(BadInput, ScalesOfTheInputMustFitItsCodes) {
  const Scratch scratch;
  const std::string path = scratch.path("x.safetensors");
  save(path, {OwnTensor("q", kE4m3, {4, 2048}, 0x38), OwnTensor("s", {4, 13}, std::vector<float>(52, 1.0f))});
  expect_bad_input({"compare", kLayer, "--input-q", path + ":q,s"}, {path, "'s'", "[4, 13]", "[4, 16]"});
  expect_bad_input({"compare", kLayer, "--input-q", path + ":q,s", "--x-block", "1x128"}, {path, "'s'", "[4, 16]"});
}

TEST(BadInput, ACheckpointWithoutQuantisedLayersHasNothingToCompare) {
  const Scratch scratch;
  const std::string path = scratch.path("plain.safetensors");
  save(path, {OwnTensor("weight", {2, 2}, {1, 2, 3, 4})});
  expect_bad_input({"compare", path}, {path, "no quantised linear layer"});
}

}  // namespace

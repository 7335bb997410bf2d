// SPDX-License-Identifier: Apache-2.0
// What the command writes, wherever it is to go: files, links, pipes, devices that are full.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "host/cli/command.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace fs = std::filesystem;

struct Words {
  std::vector<std::string> words;
  Plugins plugins = Plugins::toy;
};

Words longer(Words run, const std::vector<std::string>& more) { return {with(run.words, more), run.plugins}; }

const Words kCompare{{"compare", kLayer, "--device", "toy:0"}};
const Words kRun{{"run", kLayer, "--layer", "weight", "--input", kLayer + ":x", "--device", "toy:0"}};
const Words kModel{{"model", "--m", "128", "--n", "256", "--k", "256", "--block", "128"}, Plugins::real};
const Words kBench{{"bench", "--shape", "128x128", "--m", "1", "--runs", "1", "--min-ms", "0", "--warm-up-ms", "0",
                    "--rotate-mib", "1", "--device", "toy:0"}};

/// Every option that names an output file, with a command that comes to writing it.
std::vector<std::pair<Words, std::string>> outputs() {
  return {{kCompare, "--json"}, {kRun, "--output"}, {kModel, "--json"},    {kModel, "--trace"},
          {kBench, "--csv"},    {kBench, "--json"}, {kBench, "--markdown"}};
}

/// An hour of measuring must not end with "no such directory": what can be known is said before the work.
TEST(Outputs, ThatCannotBeWrittenAreStatus3AndNamed) {
  const Scratch scratch;
  const std::string full = scratch.path("full"), loop = scratch.path("loop");
  for (const auto& [run, option] : outputs()) {
    fs::remove(full);
    fs::remove(loop);
    fs::create_symlink("/dev/full", full);
    fs::create_symlink("loop", loop);
    const std::vector<std::pair<std::string, std::string>> cases = {
        {full, "No space left on device"},
        {loop, "Too many levels of symbolic links"},
        {scratch.path("none/file"), "No such file or directory"},
        {scratch.path(std::string(256, 'n')), "File name too long"}};
    for (const auto& [path, reason] : cases) {
      const Outcome outcome = complains(ironcl_command(longer(run, {option, path}).words, run.plugins), 3,
                                        {path + ": cannot be written: " + reason});
      EXPECT_TRUE(path == full || outcome.out.empty()) << outcome.command << outcome.out;
    }
    EXPECT_TRUE(fs::is_symlink(full)) << option;
  }
}

/// `ironcl run layer.safetensors ... --output layer.safetensors` would leave y where the model was.
TEST(Outputs, NeverTakeThePlaceOfAnInput) {
  const Scratch scratch;
  const std::string layer = scratch.file("model.safetensors", read_file(kLayer)),
                    other = scratch.file("other.safetensors", read_file(kLayer)),
                    config = scratch.file("config.json", "{}"), link = scratch.path("link");
  fs::create_symlink("other.safetensors", link);
  const std::string folder = fs::path(layer).parent_path();
  const std::vector<std::string> run = {"run",     layer,        "--layer",  "weight",
                                        "--input", other + ":x", "--device", "toy:0"},
                                 compare = {"compare", folder,       "--expect", other + ":y_f64",
                                            "--input", layer + ":x", "--device", "toy:0"},
                                 inspect = {"inspect", folder};
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {run, "--output=" + layer},    {run, "--output=" + folder + "/./model.safetensors"},
      {run, "--output=" + link},     {compare, "--json=" + other},
      {compare, "--json=" + config}, {compare, "--json=" + layer},
      {inspect, "--json=" + config}};
  const std::string model = scratch.file("other.json", read_file(data_file("tiny-qwen3-fp8/config.json")));
  const std::vector<std::string> bench = {"bench", "--checkpoint", folder, "--m", "1", "--device", "ironwood:0"},
                                 chain = {"bench", "--checkpoint", folder,      "--chain", "1", "--m",
                                          "1",     "--device",     "ironwood:0"},
                                 bench_model = {"bench", "--model", model, "--m", "1", "--device", "ironwood:0"},
                                 tune = {"tune", "--checkpoint", folder, "--m", "1", "--device", "ironwood:0"},
                                 tune_model = {"tune", "--model", model, "--m", "1", "--device", "ironwood:0"},
                                 layers = {"model", "--layers", folder, "--m", "16"};
  const std::vector<std::pair<std::vector<std::string>, std::string>> of_real = {
      {bench, "--json=" + layer},  {bench, "--csv=" + config}, {bench_model, "--markdown=" + model},
      {chain, "--json=" + config}, {tune, "--json=" + layer},  {tune_model, "--json=" + model},
      {layers, "--json=" + config}};
  for (const auto& [all, plugins] : {std::pair{cases, Plugins::toy}, {of_real, Plugins::real}}) {
    for (const auto& [words, output] : all) {
      const Outcome outcome = complains(ironcl_command(longer({words}, {output}).words, plugins), 3,
                                        {"cannot be written: it is an input of this command"});
      EXPECT_EQ(outcome.out, "") << "said before anything is computed";
      EXPECT_TRUE(read_file(layer) == read_file(kLayer) && read_file(other) == read_file(kLayer)) << outcome.command;
      EXPECT_TRUE(read_file(model) == read_file(data_file("tiny-qwen3-fp8/config.json"))) << outcome.command;
      EXPECT_EQ(read_file(config), "{}");
    }
  }
  EXPECT_EQ(ironcl_command(longer({run}, {"--output", scratch.path("y.safetensors")}).words).status, 0);
}

TEST(Outputs, OfOneCommandAreDifferentFiles) {
  const Scratch scratch;
  const std::string file = scratch.path("rows"), there = scratch.file("there", "old"), link = scratch.path("link");
  fs::create_symlink("there", link);
  const std::vector<std::pair<Words, std::vector<std::string>>> cases = {
      {kBench, {"--csv", file, "--json", file}},
      {kBench, {"--csv", file, "--markdown", fs::path(file).parent_path() / "." / "rows"}},
      {kBench, {"--json", there, "--markdown", link}},
      {kModel, {"--json", file, "--trace", file}}};
  for (const auto& [run, options] : cases) {
    const Outcome outcome = prints(ironcl_command(longer(run, options).words, run.plugins), 3, {});
    EXPECT_TRUE(contains(outcome.err, "another output of this command goes there too; name another file"))
        << outcome.err;
    EXPECT_EQ(outcome.out, "") << outcome.command;
    EXPECT_FALSE(fs::exists(file)) << outcome.command;
    EXPECT_EQ(read_file(there), "old");
  }
  EXPECT_EQ(ironcl_command(longer(kBench, {"--csv", "/dev/null", "--json", "/dev/null"}).words).status, 0);
}

TEST(Outputs, MinusIsTheStandardOutputAndNothingElseIsThere) {
  const Scratch scratch;
  const Outcome file = ironcl_command(longer(kRun, {"--output", scratch.path("y")}).words);
  const Outcome same = prints(ironcl_command(longer(kRun, {"--output", "-"}).words), 0, {});
  EXPECT_EQ(same.out, read_file(scratch.path("y")));
  EXPECT_TRUE(contains(same.err, "y [7, 576]"));
  for (const Words& run : {kCompare, kModel, kBench}) {
    const Outcome outcome = prints(ironcl_command(longer(run, {"--json", "-"}).words, run.plugins), 0, {});
    outcome.json();
  }
}

void expect_lost(const Words& run, const std::string& redirect, const std::string& reason) {
  const Outcome outcome = ironcl_command(run.words, run.plugins, {}, redirect);
  if (run.words[0] == "tune" && outcome.status == 4) return;  // no OpenCL device here
  EXPECT_EQ(outcome.status, 3) << outcome.command << "\n" << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "the standard output: cannot be written: " + reason)) << outcome.command;
}

TEST(Outputs, LostOnAFullDeviceAreStatus3InEveryCommand) {
  const Scratch scratch;
  const std::vector<Words> runs = {
      {{"devices"}},
      {{"devices", "--json"}},
      {{"devices", "--explain", "16,1024,3072"}},
      {{"plugins"}},
      {{"plugins", "--json"}},
      {{"inspect", kLayer}},
      {{"inspect", kLayer, "--json"}},
      kCompare,
      longer(kCompare, {"--json", "-"}),
      longer(kCompare, {"--json", scratch.path("report.json")}),
      longer(kRun, {"--output", scratch.path("y")}),
      longer(kRun, {"--output", "-"}),
      kModel,
      longer(kModel, {"--json", "-"}),
      longer(kModel, {"--trace", "-"}),
      {{"model", "--machines"}, Plugins::real},
      kBench,
      longer(kBench, {"--json", "-"}),
      {{"tune", "--shape", "128x128", "--m", "1", "--budget", "2", "--save", "off", "--rotate-mib", "1", "--device",
        "opencl:0"},
       Plugins::real},
      {{"quantize", data_file("tiny-qwen3-fp8"), scratch.path("bf16"), "--scheme", "none"}},
      {{"accuracy", "--data", "normal:64x64"}},
      {{"--help"}},
      {{"--version"}},
      {{"compare", "--help"}},
  };
  std::set<std::string> seen;
  for (const Words& run : runs) {
    seen.insert(run.words[0]);
    expect_lost(run, ">/dev/full", "No space left on device");
  }
  for (const auto& command : ironcl::cli::all_commands())
    EXPECT_TRUE(seen.contains(command->get_name())) << command->get_name();
}

TEST(Outputs, LostOnAClosedStandardOutputAreStatus3) {
  expect_lost(kCompare, ">&-", "Bad file descriptor");
  expect_lost(longer(kCompare, {"--json", "-"}), ">&-", "Bad file descriptor");
}

}  // namespace

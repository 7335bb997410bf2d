// SPDX-License-Identifier: Apache-2.0
// Help, version and usage errors.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/command.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;

TEST(CommandLine, EveryCommandHasASummaryExamplesAndExitStatuses) {
  const Outcome all = ironcl_command({"--help"});
  for (const auto& command : ironcl::cli::all_commands()) {
    EXPECT_TRUE(contains(all.out, command->get_description()));
    prints(ironcl_command({command->get_name(), "--help"}), 0,
           {"Examples\n  ironcl " + command->get_name(), "Exit status\n  0  "});
  }
}

TEST(CommandLine, VersionIsThatOfTheLibrary) {
  const Outcome outcome = prints(ironcl_command({"--version"}), 0, {});
  EXPECT_EQ(outcome.out.rfind("ironcl 0.", 0), 0u) << outcome.out;
}

TEST(CommandLine, NoWordsGiveTheHelpAndStatus2) {
  const Outcome outcome = prints(ironcl_command({}), 2, {});
  EXPECT_TRUE(outcome.out.empty()) << outcome.out;
  EXPECT_TRUE(contains(outcome.err, "First steps"));
}

TEST(CommandLine, UsageErrorsNameTheOptionAndTheHelp) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"frobnicate"}, "there is no command 'frobnicate'; see ironcl --help"},
      {{"devces"}, "there is no command 'devces'; did you mean devices?; see ironcl --help"},
      {{"help", "comprae"}, "there is no command 'comprae'; did you mean compare?"},
      {{"--jsn"}, "a command comes first; there is no option --jsn"},
      {{"devices", "--jsn"},
       "ironcl devices: there is no option --jsn; did you mean --json?; see ironcl devices --help"},
      {{"devices", "--jsn=x"}, "there is no option --jsn; did you mean --json?"},
      {{"compare", kLayer, "--exepct", "x"}, "there is no option --exepct; did you mean --expect?"},
      {{"devices", "--budget", "1"}, "there is no option --budget here; tune has it"},
      {{"devices", "everything"}, "'everything' is not expected here"},
      {{"compare"}, "PATH is required; see ironcl compare --help"},
      {{"compare", kLayer, "--frobnicate"}, "--frobnicate; see ironcl compare --help"},
      {{"compare", kLayer, "--m", "-1"}, "--m"},
      {{"compare", kLayer, "--m", "4294967296"}, "--m"},
      {{"compare", kLayer, "--m", "many"}, "--m"},
      {{"compare", kLayer, "--seed", "-1"}, "--seed"},
      {{"compare", kLayer, "--out", "f64"}, "--out-dtype f64: the result is f32, bf16 or f16"},
      {{"compare", kLayer, "--block", "12by8"}, "--block 12by8: "},
      {{"compare", kLayer, "--x-block", "1x"}, "--x-block 1x: "},
      {{"compare", kLayer, "--x-dtype", "e4m3fn"}, "--x-dtype e4m3fn: write one of f32, f16, bf16"},
      {{"compare", kLayer, "--accuracy", "f16"}, "--accuracy f16: the classes are f32 and tensor14"},
      {{"run", kLayer, "--layer", "weight", "--input", kLayer + ":x", "--output", "y", "--accuracy", "both"},
       "(or IRONCL_ACCURACY=both) is for compare and bench"},
      {{"compare", kLayer, "--input", kLayer + ":x", "--input-q", kLayer + ":x_q,x_scale"}, "--input"},
      {{"compare", kLayer, "--json"}, "--json"},
      {{"compare", kLayer, kLayer}, "see ironcl compare --help"},
      {{"bench", "--shape", "128x128", "--runs", "0"}, "--runs: '0' is not a number above 0"},
      {{"bench", "--shape", "128x128", "--min-ms", "nan"}, "--min-ms: 'nan' is not a number of at least 0"},
      {{"bench", "--shape", "128x128", "--rotate-mib", "17592186044416"}, "not in range 0 to 1073741824"},
      {{"bench", "--problem", "--dt=e4m3fn:e4m3fn:f32 --grouping=masked:2 4x64:64x64"},
       "--problem: a masked problem does not say how many rows"},
      {{"bench", "--problem", "1x2"}, "--problem: "},
      {{"bench", "--shape", "256x512", "--opt", "variant"}, "--opt variant: write KEY=VALUE"},
      {{"tune", "--shape", "128x128", "--budget", "-3"}, "--budget: '-3' is not a number above 0"},
      {{"inspect"}, "PATH is required; see ironcl inspect --help"},
  };
  for (const auto& [words, part] : cases) {
    complains(ironcl_command(words), 2, {part, "ironcl"});
  }
}

/// What would be ignored is refused: a number without the option that was meant is worse than none.
TEST(CommandLine, OptionsThatWouldBeIgnoredAreUsage) {
  const std::vector<std::string> experts = {"--model", "qwen3-30b-a3b", "--tokens", "1"},
                                 model = {"model", "--experts",      "8",  "--tokens", "4", "--hidden",
                                          "256",   "--intermediate", "128"};
  const std::string kLine = "--dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 1x128:128x128";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {with(with({"bench"}, experts), {"--out", "f32"}), "leave --out-dtype out"},
      {with(with({"bench"}, experts), {"--m", "4"}), "leave --m out"},
      {with(with({"tune"}, experts), {"--x-dtype", "f32"}), "leave --x-dtype out"},
      {with(with({"tune"}, experts), {"--block", "64"}), "leave --block out"},
      {{"compare", kLayer, "--input-q", kLayer + ":x_q,x_scale", "--x-dtype", "f32"}, "--input-q brings codes"},
      {with(model, {"--m", "4"}), "--m means nothing with --experts"},
      {{"model", "--m", "4", "--n", "4", "--k", "4", "--tokens", "2"}, "--tokens means nothing without --experts"},
      {{"model", "--m", "4", "--n", "4", "--k", "4", "--layer", "q"}, "--layer means nothing without --layers"},
      {{"model", "--layers", kLayer, "--m", "4", "--trace", "t.json"}, "--trace means nothing with --layers"},
      {{"model", "--layers", kLayer, "--m", "4", "--block", "256"}, "--block means nothing with --layers"},
      {{"model", "--m", "4", "--n", "4", "--k", "4", "--search", "--trace", "t"},
       "--trace means nothing with --search"},
      {{"model", "--machines", "--m", "4"}, "--m means nothing with --machines"},
      {{"model", "--machines", "--search"}, "--search means nothing with --machines"},
      {with(with({"bench"}, experts), {"--rotate-mib", "1"}), "leave --rotate-mib out"},
      {with(with({"bench"}, experts), {"--router", "--skew", "1"}), "a router chooses experts; leave --skew out"},
      {{"bench", "--shape", "128x128", "--router"}, "--router is about layers of experts: give --tokens"},
      {{"bench", "--problem", kLine, "--m", "4"}, "--problem says everything of itself; leave --m out"},
      {{"bench", "--problem", kLine, "--out", "f32"}, "leave --out-dtype out"},
      {{"bench", "--shape", "128x128", "--tp-size", "2"}, "--tp-size divides the layers of --model; leave it out"},
      {{"bench", "--chain", "2", "--problem", kLine}, "--chain takes neither --problem nor --rotate-mib"},
      {{"bench", "--problem", kLine, "--tp-size", "2"}, "leave --tp-size out"},
      {{"tune", "--checkpoint", kLayer, "--w-dtype", "i8"}, "have types of their own; leave --w-dtype out"},
      {{"bench", "--checkpoint", kLayer, "--scale-dtype", "f16"}, "leave --scale-dtype out"},
      {{"tune", "--model", "qwen3-30b-a3b", "--experts", "8"}, "--experts is about layers of experts: give --tokens"},
      {{"tune", "--shape", "128x128", "--redo"}, "--redo is about what a folder has: give --save DIR"},
  };
  for (const auto& [words, part] : cases) {
    complains(ironcl_command(words), 2, {part});
  }
}

TEST(CommandLine, EveryCommandThatMultipliesSpellsItsTypesAndBlocksAlike) {
  for (const char* name : {"compare", "run", "model", "bench", "tune"}) {
    const std::string help = ironcl_command({name, "--help"}).out;
    for (const char* option : {"--out-dtype,--out", "--x-dtype", "--block ROWSxCOLS", "--x-block ROWSxCOLS"})
      EXPECT_TRUE(contains(help, option) || contains(help, "--out, --out-dtype")) << name;
  }
}

TEST(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(ironcl_command({"help"}).out, ironcl_command({"--help"}).out);
  for (const auto& command : ironcl::cli::all_commands()) {
    const Outcome outcome = prints(ironcl_command({"help", command->get_name()}), 0, {});
    EXPECT_EQ(outcome.out, ironcl_command({command->get_name(), "--help"}).out);
  }
}

TEST(CommandLine, JsonGoesToTheStandardOutputOrAFileInEveryCommand) {
  const Scratch scratch;
  const std::string file = scratch.path("report.json");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"devices"},
                                                {"devices", "--explain", "16x1024x3072"},
                                                {"plugins"},
                                                {"inspect", kLayer}}) {
    const auto run = [&](const std::vector<std::string>& more) { return ironcl_command(with(words, more)); };
    const Outcome plain = run({}), alone = run({"--json"});
    const boost::json::value report = alone.json();
    EXPECT_EQ(run({"--json", "-"}).json(), report);
    for (const std::vector<std::string>& named : {std::vector<std::string>{"--json", file}, {"--json=" + file}}) {
      std::filesystem::remove(file);
      const Outcome outcome = prints(run(named), 0, {});
      EXPECT_EQ(outcome.out, plain.out) << outcome.command;
      EXPECT_EQ(outcome.json(file), report);
    }
  }
  EXPECT_EQ(ironcl_command({"inspect", "--json", kLayer}).json(),
            ironcl_command({"inspect", kLayer, "--json"}).json());
}

}  // namespace

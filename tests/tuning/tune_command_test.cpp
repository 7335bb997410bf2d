// SPDX-License-Identifier: Apache-2.0
// ironcl tune as a user runs it, on a plugin whose fastest candidate is wrong.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "backends/tuned/tables.h"
#include "host/tuning/tables.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace ironcl::cli_test {
namespace {

namespace fs = std::filesystem;

const tuned::Key kKey{40, 256, "Fake_to_be_tuned", "fp8_w8a8", 128, 128};
const std::map<std::string, std::string> kFake{{"IRONCL_PLUGIN_DIRS", TUNING_PLUGIN_DIR}};

std::vector<std::string> words(const std::string& folder, const std::string& rows,
                               const std::vector<std::string>& more = {}) {
  const auto all = split_words("tune --n 40 --k 256 --x-dtype e4m3fn --device tuning_fake:0 --budget 60");
  return with(with(all, {"--m", rows, "--save", folder}), more);
}

TEST(Tune, SavesTheFastestRightConfigurationUnderTheNameThatOthersUse) {
  const Scratch scratch;
  const Outcome outcome = prints(ironcl_command(words(scratch.path("t"), "1,3"), Plugins::toy, kFake), 0, {});
  ASSERT_TRUE(fs::exists(scratch.path("t") +
                         "/N=40,K=256,device_name=Fake_to_be_tuned,dtype=fp8_w8a8,block_shape=[128,128].json"));
  const auto table = tuning::read_table(scratch.path("t"), kKey);
  ASSERT_EQ(table->entries().size(), 2u);
  const auto& ours = table->entries().at(3).at("ironcl").as_object();
  EXPECT_EQ(ours.at("variant").as_string(), "plain");
  EXPECT_EQ(ours.at("options").at("tile").as_string(), "8");
  EXPECT_EQ(ours.at("options").at("unroll").as_string(), "2");
  EXPECT_EQ(ours.at("time_ns").to_number<double>(), 1000);
  EXPECT_EQ(ours.at("rule_of_thumb_ns").to_number<double>(), 8500);
  EXPECT_EQ(ours.at("driver").as_string(), "fake 1.0");
  EXPECT_EQ(ours.at("accuracy_class").as_string(), "f32");
  EXPECT_TRUE(ours.at("checked").as_bool());
  EXPECT_EQ(ours.at("compute_units").to_number<int>(), 2);
  EXPECT_FALSE(ours.contains("is_rule_of_thumb"));
  EXPECT_TRUE(contains(outcome.out, "plain tile=8,unroll=2"));
  EXPECT_TRUE(contains(outcome.out, "8.50"));
}

TEST(Tune, ReportsTheWrongCandidateAndNeverSavesIt) {
  const Scratch scratch;
  const std::string json = scratch.path("rows.json");
  const Outcome outcome =
      prints(ironcl_command(words(scratch.path("t"), "3", {"--json", json}), Plugins::toy, kFake), 0, {});
  const auto rows = outcome.json(json).at("rows").as_array();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("variant").as_string(), "plain");
  EXPECT_EQ(rows[0].at("wrong").to_number<int>(), 2) << "planted and flaky";
  EXPECT_EQ(rows[0].at("dropped").at(0).at("count").to_number<int>(), 7);
  bool seen = false;
  for (const auto& trial : rows[0].at("trials").as_array())
    if (trial.at("configuration").as_string() == "planted tile=1") {
      seen = true;
      EXPECT_EQ(trial.at("outcome").as_string(), "wrong");
    }
  EXPECT_TRUE(seen);
}

TEST(Tune, GoesOnWhereItEndedAndMeasuresAgainWhenTold) {
  const Scratch scratch;
  ironcl_command(words(scratch.path("t"), "1"), Plugins::toy, kFake);
  const Outcome again = ironcl_command(words(scratch.path("t"), "1,2"), Plugins::toy, kFake);
  EXPECT_TRUE(contains(again.out, "1 searched"));
  EXPECT_TRUE(contains(again.out, "1 known from before"));
  const Outcome redo = ironcl_command(words(scratch.path("t"), "1,2", {"--redo"}), Plugins::toy, kFake);
  EXPECT_TRUE(contains(redo.out, "2 searched"));
  const Outcome other = ironcl_command(words(scratch.path("t"), "1,2", {"--out-dtype", "f32"}), Plugins::toy, kFake);
  EXPECT_TRUE(contains(other.out, "2 searched")) << "another problem is not known from before";
}

TEST(Tune, DoesNotTakeAnEntryOfAnotherDriverForItsOwn) {
  const Scratch scratch;
  ironcl_command(words(scratch.path("t"), "1"), Plugins::toy, kFake);
  tuned::Table table = *tuning::read_table(scratch.path("t"), kKey);
  boost::json::object ours = table.entries().at(1).at("ironcl").as_object();
  ours["driver"] = "fake 0.9";
  table.set(1, ours);
  tuning::merge_into(scratch.path("t"), kKey, table);
  EXPECT_TRUE(contains(ironcl_command(words(scratch.path("t"), "1"), Plugins::toy, kFake).out, "1 searched"));
}

TEST(Tune, SaysWhatItsTimeDidNotReach) {
  const Scratch scratch;
  auto all = words(scratch.path("t"), "1,2,3,4,5,6,7,8");
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    if (all[i] == "--budget") all[i + 1] = "0.04";
  prints(ironcl_command(all, Plugins::toy, kFake), 0, {"not reached (a larger --budget reaches them): ", "8x40x256"});
}

TEST(Tune, KeepsWhatItHasWhenInterrupted) {
  const Scratch scratch;
  const std::string folder = scratch.path("t");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::setenv("IRONCL_PLUGIN_DIRS", TUNING_PLUGIN_DIR, 1);
    ::setenv("IRONCL_DISABLE", "opencl,ironwood", 1);
    if (std::freopen(scratch.path("out").c_str(), "w", stdout) == nullptr) ::_exit(127);
    std::vector<std::string> all = words(folder, "1:64:1");
    all.insert(all.begin(), IRONCL_COMMAND);
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(IRONCL_COMMAND, argv.data());
    ::_exit(127);
  }
  // 64 problems of about 16 plans at 10 ms each: the first entry is there long before the last one.
  int status = 0;
  while (!tuning::read_table(folder, kKey)) {
    ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it has ended without a table, status " << status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_EQ(::kill(child, SIGINT), 0);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << "status " << status;
  const auto table = tuning::read_table(folder, kKey);
  ASSERT_TRUE(table);
  EXPECT_GE(table->entries().size(), 1u);
  EXPECT_LT(table->entries().size(), 64u);
  for (const auto& [m, entry] : table->entries()) EXPECT_EQ(tuned::entry_of(entry).variant, "plain") << m;
  const std::string out = read_file(scratch.path("out"));
  EXPECT_TRUE(contains(out, "interrupted: "));
  EXPECT_TRUE(contains(out, "not reached (the same command with --save resumes there): "));
  EXPECT_TRUE(contains(out, " more\n")) << "few names of many";
}

TEST(Tune, WritesNothingWithoutSave) {
  const Scratch scratch;
  std::vector<std::string> all = words("unused", "1");
  all.resize(all.size() - 2);  // without --save
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path("."));
  const Outcome outcome = ironcl_command(all, Plugins::toy, kFake);
  fs::current_path(before);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "tables: none, results are only printed (--save DIR keeps them)"));
  EXPECT_TRUE(fs::is_empty(scratch.path("."))) << "it writes no ironcl-tuned of its own accord";
}

TEST(Tune, SaysWhereItSavesBeforeItDoes) {
  const Scratch scratch;
  const Outcome outcome = ironcl_command(words(scratch.path("t"), "1"), Plugins::toy, kFake);
  EXPECT_LT(outcome.out.find("tables: merged into " + scratch.path("t")), outcome.out.find("plain tile"));
}

TEST(Tune, SaysWhereADeviceOffersNothingToTune) {
  const Scratch scratch;
  complains(ironcl_command({"tune", "--n", "40", "--k", "256", "--device", "toy:0", "--save", scratch.path("t")}), 4,
            {"offers nothing to tune"});
}

TEST(Tune, RefusesABrokenTableInItsFolder) {
  const Scratch scratch;
  scratch.file("N=40,K=256,device_name=Fake_to_be_tuned,dtype=fp8_w8a8,block_shape=[128,128].json", "no JSON");
  complains(ironcl_command(words(scratch.path("."), "1"), Plugins::toy, kFake), 3, {"must be JSON"});
}

TEST(Tune, ProductsOfALayerOfExpertsGoIntoTablesOfTheirOwn) {
  const Scratch scratch;
  const std::string folder = scratch.path("t");
  // An expert of 96 columns; one kernel, so that there is little to build. Each candidate is checked against each
  // row's expert.
  const auto all = split_words(
      "tune --model qwen3-30b-a3b --tp-size 8 --experts 8 --tokens 2 --device opencl:0 --budget 120 --save " +
      folder +
      " --opt variant=gemm_stream --opt tile_m=2 --opt tile_n=32 --opt block_m=1 --opt block_n=32 --opt floats=0 "
      "--opt "
      "split_k=1");
  const Outcome outcome = ironcl_command(all, Plugins::real);
  if (outcome.status == 4) GTEST_SKIP() << "no OpenCL device";
  ASSERT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
  std::size_t files = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    const auto key = tuned::parse_file_name(file.path().filename().string());
    if (file.path().extension() != ".json") continue;
    ++files;
    ASSERT_TRUE(key) << file.path();
    EXPECT_EQ(key->experts, 8);
    EXPECT_EQ(key->n, 96);
    const auto table = tuning::read_table(folder, *key);
    ASSERT_EQ(table->entries().size(), 1u);
    const auto& ours = table->entries().at(2).at("ironcl").as_object();
    EXPECT_EQ(ours.at("variant").as_string(), "gemm_stream");
    EXPECT_TRUE(ours.at("checked").as_bool());
    EXPECT_NEAR(ours.at("rows_per_expert").to_number<double>(), 16 / (8 * (1 - std::pow(7.0 / 8, 16))), 1e-3);
    EXPECT_EQ(ours.at("n").to_number<int>(), key->down ? 2048 : 96);
    EXPECT_EQ(ours.at("k").to_number<int>(), key->down ? 96 : 2048);
    EXPECT_TRUE(contains(ours.at("problem").as_string().c_str(), "--grouping=contiguous:8"));
  }
  EXPECT_EQ(files, 2u) << "gate and up, and down";
  const Outcome again = ironcl_command(all, Plugins::real);
  EXPECT_TRUE(contains(again.out, "0 searched")) << again.out;
  EXPECT_TRUE(contains(again.out, "2 known")) << again.out;
}

}  // namespace
}  // namespace ironcl::cli_test

// SPDX-License-Identifier: Apache-2.0
// Trials of kernels in a process of their own: what is kept, what is made again, and that they come out as they do
// here.
#include "backends/opencl/device.h"
#include "backends/opencl/trial.h"
#include "backends/opencl/variant.h"
#include "tests/opencl/trials.h"

namespace ironcl::opencl::testing {
namespace {

class OpenClTrials : public TrialPrograms {
 protected:
  OpenClTrials() {
    variant.trial = Trial{};
    variant.trial->in_child = true;
    config.cache_dir = dir_ / "cache";
  }
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << why_no_devices();
  }
  std::string saying(const std::string& text) const { return program("echo '" + text + "'"); }
  std::string trial_of(const Variant& asked) const {
    const auto made = make(config);
    return make_trials(*dynamic_cast<Device&>(*made.devices.at(0)).context(), nullptr)->why_not(asked);
  }
  Variant variant = *find_variant("gemm_tiled");
  Config config;
};

TEST_F(OpenClTrials, AreMadeHereWhereNoChildCouldKeepItsAnswer) {
  variant.trial->or_here = true;
  EXPECT_EQ(trial_of(variant), "");
  config.trial_program = dir_ / "is_not_there";
  EXPECT_EQ(trial_of(variant), "");
  config.trial_program = saying("ironcl trial: the child says no");
  config.cache_dir = "";
  EXPECT_EQ(trial_of(variant), "");
  config.cache_dir = dir_ / "cache";
  EXPECT_EQ(trial_of(variant), "the child says no");
  config.trial_program = saying("ironcl trial: right");
  EXPECT_EQ(trial_of(variant), "the child says no") << "an answer is kept";
  config.cache_dir = dir_ / "another";
  config.trial_program = saying("ironcl trial, for now: a child process does not see the device; not that one");
  EXPECT_EQ(trial_of(variant), "") << "a device that this process has to itself";
  variant.trial->or_here = false;
  EXPECT_NE(trial_of(variant), "") << "where it may end the process";
}

TEST_F(OpenClTrials, AreMadeAgainWhereTheChildCrashes) {
  const std::string mark = dir_ / "mark";
  config.trial_program =
      program("[ -e " + mark + " ] && echo 'ironcl trial: right' || { : >" + mark + "; kill -SEGV $$; }");
  EXPECT_EQ(trial_of(variant), "") << "one crash is no answer";
  config.cache_dir = dir_ / "another";
  config.trial_program = program("kill -SEGV $$");
  EXPECT_NE(trial_of(variant).find("ended by signal 11"), std::string::npos) << "two are";
  config.trial_program = saying("ironcl trial: right");
  EXPECT_NE(trial_of(variant).find("ended by signal 11"), std::string::npos) << "and are kept";
}

TEST_F(OpenClTrials, OfAnotherProblemAreOthers) {
  config.trial_program = saying("ironcl trial: the child says no");
  EXPECT_EQ(trial_of(variant), "the child says no");
  // A later version asks more of the same kernel.
  config.trial_program = saying("ironcl trial: right");
  EXPECT_EQ(trial_of(variant), "the child says no");
  Variant other = variant;
  other.trial->k = 512;
  EXPECT_EQ(trial_of(other), "") << "more k";
  other = variant;
  other.products = {{{backend::DType::e5m2}, {backend::DType::e5m2}}};
  EXPECT_EQ(trial_of(other), "") << "other codes";
  other = variant;
  other.trial->tunables = {{"tile_m", 16}};
  EXPECT_EQ(trial_of(other), "") << "other tunables";
}

TEST_F(OpenClTrials, OfAnotherBuildsKernelAreNoAnswer) {
  // The child of this build, asked about a kernel whose text it does not have: as where a program for trials was
  // replaced and the plugin not.
  config.trial_program = program(std::string("shift 2; exec ") + IRONCL_TRIAL_PROGRAM + " gemm_tiled another \"$@\"");
  EXPECT_EQ(
      trial_of(variant),
      "the program for trials beside the plugin has another gemm_tiled than the plugin: install both of one build");
  config.trial_program = saying("ironcl trial: right");
  EXPECT_EQ(trial_of(variant), "") << "which was not kept";
}

TEST_F(OpenClTrials, FindNoKernelWrongOnDevicesHere) {
  // Other tests pass over a variant that its trial refuses: here a kernel that is wrong everywhere shows.
  for (const auto& device : devices()) {
    const auto features = boost::json::parse(device->query("features", nullptr)).as_object();
    const bool has_builtins = device->props().driver.find("Intel(R) OpenCL") == std::string::npos;  // Those of clang.
    for (const auto& [name, answer] : features.at("trials").as_object()) {
      const std::string_view text = answer.as_string();
      EXPECT_EQ(text.find("on a tiny problem"), std::string_view::npos) << std::string_view(name) << ": " << text;
      EXPECT_TRUE(!has_builtins || text.find("did not build") == text.npos) << std::string_view(name) << ": " << text;
    }
  }
}

TEST_F(OpenClTrials, InAChildComeOutAsHere) {
  bool tried = false;
  for (const auto& device : devices()) {
    const auto context = dynamic_cast<Device&>(*device).context();
    if (!context->features.ptx_sm_90) continue;
    tried = true;
    Context other;
    other.platform = context->platform;
    other.device = context->device;
    other.context = context->context;
    other.features = context->features;
    other.config.cache_dir = dir_ / "cache";
    other.config.trial_program = IRONCL_TRIAL_PROGRAM;
    other.builder = std::make_unique<ProgramBuilder>(other.config, nullptr, other.context, other.device);
    for (const char* name : {"gemm_mma_stream", "gemm_mma_tiled", "gemm_wgmma_f16", "gemm_wgmma_few",
                             "gemm_wgmma_few_f16", "gemm_wgmma_fp8", "gemm_wgmma_s8"}) {
      const std::string answer = try_in_child(other, *find_variant(name));
      // Some hosts show a GPU to no child of a process that has opened it, whatever the child inherits: the trial is
      // made here then.
      if (answer.rfind(kNotSeenByChild, 0) == 0) GTEST_SKIP() << answer;
      EXPECT_EQ(answer, "") << name;
    }
  }
  if (!tried) GTEST_SKIP() << "no device of compute capability 9.0";
}

}  // namespace
}  // namespace ironcl::opencl::testing

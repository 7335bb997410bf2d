// SPDX-License-Identifier: Apache-2.0
// Which device is chosen for a problem, and what is said of the others.
#include <gmock/gmock.h>

#include "tests/registry/fakes.h"

namespace {

using fakes::Variable;
using ironcl::Registry;
using ironcl::Selection;
using testing::HasSubstr;

const ironcl::GemmDesc kProblem{.m = 16, .n = 256, .k = 512};

// A registry of the plugins alpha and beta with these devices.
Registry with_devices(const std::string& alpha, const std::string& beta) {
  auto options = fakes::alone();
  options.use_environment = true;
  options.plugin_options = {{"alpha", "devices", alpha}, {"beta", "devices", beta}};
  Registry registry(options);
  registry.load_file(fakes::path("beta"));
  registry.load_file(fakes::path("alpha"));
  return registry;
}

class Selecting : public testing::Test {
  const Variable no_device_{"IRONCL_DEVICE", nullptr};
};

struct Order {
  const char* alpha;
  const char* beta;
  const char* chosen;
  const char* why;
};

TEST_F(Selecting, FollowsTheOrderOfTypeMemoryNameAndNumber) {
  const Order orders[] = {
      {"cpu/900", "gpu/1", "beta:0", "GPU before CPU, whatever the memory"},
      {"cpu/900", "accelerator/1", "beta:0", "accelerator before CPU"},
      {"accelerator/900", "gpu/1", "beta:0", "GPU before accelerator"},
      {"gpu/5", "gpu/6", "beta:0", "more memory"},
      {"gpu/6,gpu/6", "gpu/6", "alpha:0", "the plugin's name, then the number"},
      {"gpu/5,gpu/6", "gpu/6", "alpha:1", "the plugin's name"},
      {"model/900", "cpu/1", "beta:0", "a model never"},
      {"gpu/9/3", "cpu/1", "beta:0", "only devices that support the problem"},
      {"gpu/9/0/1", "cpu/1", "beta:0", "never a weaker accuracy class than allowed"},
      {"gpu/9/99", "cpu/1", "beta:0", "a device that throws is passed over"},
  };
  for (const Order& order : orders) {
    const Registry registry = with_devices(order.alpha, order.beta);
    EXPECT_EQ(registry.select(kProblem).uri(), order.chosen) << order.why;
    EXPECT_EQ(registry.select(kProblem, "auto").uri(), order.chosen) << order.why;
  }
}

TEST_F(Selecting, TakesAWeakerAccuracyClassWhereTheProblemAllowsIt) {
  const Registry registry = with_devices("gpu/9/0/1", "cpu/1");
  ironcl::GemmDesc problem = kProblem;
  problem.weakest_accuracy = IRONCL_ACCURACY_TENSOR14;
  EXPECT_EQ(registry.select(problem).uri(), "alpha:0");
}

TEST_F(Selecting, TakesTheFirstPreferredDeviceThatSupportsTheProblem) {
  const Registry registry = with_devices("gpu/9,gpu/8/3,model/1", "cpu/1,cpu/2");
  EXPECT_EQ(registry.select(kProblem, "beta:cpu").uri(), "beta:0");
  EXPECT_EQ(registry.select(kProblem, "alpha:1,beta:1").uri(), "beta:1");
  EXPECT_EQ(registry.select(kProblem, "alpha:1,auto").uri(), "alpha:0");
  EXPECT_EQ(registry.select(kProblem, "alpha:model").uri(), "alpha:2") << "named, so a model will do";
  EXPECT_EQ(registry.select(kProblem, "opencl:0,beta:0").uri(), "beta:0") << "one that is absent is passed over";
}

TEST_F(Selecting, ReadsTheEnvironmentWhereTheApplicationNamesNothing) {
  const Variable device("IRONCL_DEVICE", "alpha:model,beta:0");
  const Registry registry = with_devices("gpu/9,model/1", "cpu/1");
  EXPECT_EQ(registry.select(kProblem).uri(), "alpha:1");
  EXPECT_EQ(registry.device("auto").uri(), "alpha:1");
  EXPECT_EQ(registry.select(kProblem, "beta:0").uri(), "beta:0") << "the application's word comes first";
}

TEST_F(Selecting, RefusesAMalformedEnvironmentByName) {
  const Variable device("IRONCL_DEVICE", "opencl//0");
  const Registry registry = with_devices("gpu/9", "cpu/1");
  EXPECT_THAT(fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.select(kProblem); }),
              HasSubstr("IRONCL_DEVICE"));
}

TEST_F(Selecting, NamesTheEnvironmentWhereItNamesADeviceThatIsNotThere) {
  const Variable device("IRONCL_DEVICE", "foo");
  const Registry registry = with_devices("gpu/9", "cpu/1");
  EXPECT_THAT(fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.select(kProblem); }),
              HasSubstr("IRONCL_DEVICE: foo: no such device; there are "));
  EXPECT_THAT(registry.explain(&kProblem).candidates.at(0).text, HasSubstr("IRONCL_DEVICE=foo does not name it"));
}

TEST_F(Selecting, SaysWhyThePluginThatWasNamedHasNoDevice) {
  auto options = fakes::alone();
  options.plugin_options = {{"alpha", "enumerate", "unavailable"}};
  Registry registry(options);
  registry.load_file(fakes::path("alpha"));
  registry.load_file(fakes::path("beta"));
  const auto without = fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.device("alpha:cpu"); });
  EXPECT_THAT(without, HasSubstr("alpha:cpu: no such device; there are beta:0; libironcl_alpha.so: "));
  EXPECT_EQ(fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.select(kProblem, "alpha:cpu"); }), without);
  EXPECT_THAT(fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.device("beta:7"); }),
              testing::Not(HasSubstr("alpha")))
      << "beta has devices: what alpha lacks explains nothing";
}

TEST_F(Selecting, NeverFallsBackFromWhatWasNamed) {
  const Registry registry = with_devices("gpu/9/3", "cpu/1");
  EXPECT_THAT(fakes::error_of(IRONCL_UNSUPPORTED, [&] { registry.select(kProblem, "alpha:0"); }),
              HasSubstr("alpha:0: refused with reason 3"));
  EXPECT_THAT(fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.select(kProblem, "opencl:gpu"); }),
              HasSubstr("there are beta:0, alpha:0"));
}

TEST_F(Selecting, JoinsAllReasonsWhereNothingWillDo) {
  const Registry registry = with_devices("gpu/9/3,gpu/8/0/1", "cpu/1/1,model/1");
  const std::string text = fakes::error_of(IRONCL_UNSUPPORTED, [&] { registry.select(kProblem); });
  EXPECT_THAT(text, HasSubstr("alpha:0: refused with reason 3"));
  EXPECT_THAT(text, HasSubstr("alpha:1: its kernel is of accuracy class 1"));
  EXPECT_THAT(text, HasSubstr("beta:0: refused with reason 1"));
  EXPECT_THAT(text, HasSubstr("name it: beta:1"));
  EXPECT_THAT(text, HasSubstr("16x512:512x256")) << "the problem";
}

TEST_F(Selecting, SaysThatTheProblemIsInvalidWhereEveryDeviceSaysSo) {
  const Registry registry = with_devices("gpu/9", "cpu/1");
  EXPECT_THAT(fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.select({.m = 1, .n = 0, .k = 1}); }),
              HasSubstr("n is 0"));
}

TEST_F(Selecting, VisitsEveryDeviceWithItsVerdict) {
  const Registry registry = with_devices("gpu/9/3,gpu/8,model/7", "cpu/1,accelerator/2/99");
  const Selection selection = registry.explain(&kProblem);
  ASSERT_TRUE(selection.device);
  EXPECT_EQ(selection.device->uri(), "alpha:1");
  std::string lines;
  for (const auto& candidate : selection.candidates) {
    lines += candidate.device.uri() + " " + std::to_string(candidate.verdict) + " " +
             (candidate.rank == UINT32_MAX ? "-" : std::to_string(candidate.rank)) + " " +
             ironcl_reason_name(candidate.reason) + " " + (candidate.support ? "asked" : "not asked") + "\n";
  }
  EXPECT_EQ(lines,
            "beta:0 2 1 none asked\n"
            "beta:1 3 - call_failed not asked\n"
            "alpha:0 3 - shape asked\n"
            "alpha:1 1 0 none asked\n"
            "alpha:2 3 - model_device not asked\n");
}

TEST_F(Selecting, MarksWhatWasNotNamed) {
  const Registry registry = with_devices("gpu/9", "cpu/1");
  const Selection selection = registry.explain(&kProblem, "beta");
  EXPECT_EQ(selection.candidates.at(1).reason, std::uint32_t{IRONCL_REASON_NOT_NAMED});
  EXPECT_THAT(selection.candidates.at(1).text, HasSubstr("beta"));
}

TEST_F(Selecting, WorksWithoutAProblem) {
  const Registry registry = with_devices("gpu/9/3", "cpu/1");
  EXPECT_EQ(registry.explain(nullptr).device->uri(), "alpha:0");
}

TEST_F(Selecting, IsUnavailableWithoutAnyDevice) {
  Registry none = with_devices("", "");
  EXPECT_EQ(none.explain(&kProblem).status, ironcl_status{IRONCL_UNAVAILABLE});
  none.shutdown();
  const Registry models = with_devices("model/1", "");
  EXPECT_EQ(models.explain(&kProblem).status, ironcl_status{IRONCL_UNAVAILABLE});
  EXPECT_THAT(models.explain(&kProblem).error, HasSubstr("name it: alpha:0"));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Loading and unloading: several registries, loops, shutdown, threads, and a process that ends without any of it.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "tests/registry/fakes.h"

namespace {

using ironcl::Registry;
using testing::HasSubstr;

int count(const ironcl::Device& device, const char* what) { return std::stoi(device.query(what)); }

TEST(Lifetime, LoadsAndUnloadsTenTimes) {
  for (int turn = 0; turn < 10; ++turn) {
    Registry registry(fakes::alone());
    registry.load_file(fakes::path("fake"));
    const auto device = registry.device("fake:0");
    EXPECT_EQ(count(device, "loads"), count(device, "unloads") + 1) << "turn " << turn;
    registry.shutdown();
    EXPECT_TRUE(registry.devices().empty());
    registry.shutdown();
  }
}

TEST(Lifetime, ClosesAnUnloadableLibraryOnlyWhereAsked) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer keeps closed libraries mapped, or misses what they kept";
#endif
  const auto is_mapped = [] {
    return ironcl::read_file("/proc/self/maps").find("libironcl_gone.so") != std::string::npos;
  };
  if (is_mapped()) GTEST_SKIP() << "an earlier test of this process left it mapped; run this one alone";
  // A toolchain that links its own library statically puts unique symbols into every library: none can be closed.
  void* probe = dlopen(fakes::path("gone").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(probe, nullptr) << dlerror();
  dlclose(probe);
  if (is_mapped()) GTEST_SKIP() << "libraries of this toolchain stay mapped after dlclose";
  for (int turn = 0; turn < 10; ++turn) {
    auto options = fakes::alone();
    options.unload = true;
    Registry registry(options);
    registry.load_file(fakes::path("gone"));
    EXPECT_TRUE(is_mapped());
    registry.shutdown();
    EXPECT_FALSE(is_mapped()) << "turn " << turn;
  }
  Registry(fakes::alone()).load_file(fakes::path("gone"));
  EXPECT_TRUE(is_mapped());
}

TEST(Lifetime, TwoRegistriesShareAPluginThatIsLoadedOnce) {
  Registry first(fakes::alone());
  first.load_file(fakes::path("fake"));
  const int loads = count(first.device("fake:0"), "loads");
  {
    Registry second(fakes::alone());
    second.load_file(fakes::path("fake"));
    EXPECT_EQ(count(second.device("fake:0"), "loads"), loads);
  }
  EXPECT_EQ(count(first.device("fake:0"), "unloads"), loads - 1) << "the second registry took it away from the first";
}

TEST(Lifetime, RefusesOtherOptionsForAPluginThatIsLoaded) {
  Registry first(fakes::with("fake", "devices", "gpu/1"));
  first.load_file(fakes::path("fake"));
  Registry second(fakes::with("fake", "devices", "cpu/1"));
  EXPECT_THAT(fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { second.load_file(fakes::path("fake")); }),
              HasSubstr("other options"));
  first.shutdown();
  second.load_file(fakes::path("fake"));
  EXPECT_EQ(second.devices()[0].props().type, std::uint32_t{IRONCL_DEVICE_CPU});
}

TEST(Lifetime, DevicesKeepTheirRegistryAlive) {
  ironcl::Device device;
  {
    Registry registry(fakes::alone());
    registry.load_file(fakes::path("fake"));
    device = registry.device("fake:0");
  }
  EXPECT_EQ(count(device, "loads"), count(device, "unloads") + 1);
}

TEST(Lifetime, EmptyObjectsAnswerAndDoNotCrash) {
  using namespace ironcl;
  const auto refused = [](const auto& use) { fakes::error_of(IRONCL_INVALID_ARGUMENT, use); };
  const Device none;
  refused([&] { none.query("features"); });
  refused([&] { none.supports({}); });
  refused([&] { Queue queue(none); });
  refused([&] { Buffer buffer(none, 4); });
  refused([&] { Gemm gemm(none, {}); });
  Queue queue;
  refused([&] { queue.finish(); });
  refused([&] { queue.run(Gemm(), {}); });
  refused([] { Event().wait(); });
  refused([] { (void)Event().profile(); });
  refused([] { (void)Weights().info(); });
  queue.reset();
  Queue other = std::move(queue);
  refused([&] { other.wait(Event()); });
}

TEST(Lifetime, ADeviceThatWasMovedFromKeepsItsRegistryOrIsEmpty) {
  using namespace ironcl;
  Device device;
  {
    Registry registry(fakes::alone());
    registry.load_file(fakes::path("fake"));
    device = registry.device("fake:0");
  }
  Device other = std::move(device);
  other = Device();
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what it is then is the question.
  EXPECT_EQ(static_cast<bool>(device), device.owner() != nullptr) << "a device of a registry that is gone";
  if (device) {
    EXPECT_EQ(count(device, "loads"), count(device, "unloads") + 1);
  }
}

TEST(Lifetime, RefusesToLoadAfterShutdown) {
  Registry registry(fakes::alone());
  registry.shutdown();
  fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.load_file(fakes::path("fake")); });
  fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.search(); });
}

TEST(Lifetime, ALoadThatAShutdownOvertakesRegistersNothing) {
  Registry* shut = nullptr;
  auto options = fakes::alone();
  options.verbose = "load";
  options.log = [&shut](std::string_view line) {
    if (shut == nullptr || line.find("passed,enumerate") == std::string_view::npos) return;
    std::thread([one = std::exchange(shut, nullptr)] { one->shutdown(); }).join();
  };
  Registry registry(options);
  shut = &registry;
  EXPECT_THAT(fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.load_file(fakes::path("fake")); }),
              HasSubstr("shut down"));
  EXPECT_EQ(shut, nullptr) << "the shutdown came in between";
  EXPECT_TRUE(registry.plugins().empty());
  EXPECT_TRUE(registry.devices().empty());
  Registry another(fakes::alone());
  another.load_file(fakes::path("fake"));
  const auto device = another.device("fake:0");
  EXPECT_EQ(count(device, "loads"), count(device, "unloads") + 1) << "what was loaded is unloaded";
}

TEST(Lifetime, ThreadsMayLoadTheSamePluginsAtOnce) {
  Registry shared(fakes::alone());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&shared, t] {
      for (int turn = 0; turn < 5; ++turn) {
        Registry own(fakes::alone());
        own.load_file(fakes::path(t % 2 ? "fake" : "alpha"));
        EXPECT_EQ(own.devices().size(), 1u);
        ironcl_registry_load_file(shared.handle(), fakes::path("alpha").c_str(), nullptr);
        shared.devices();
        shared.report();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(shared.plugins().size(), 1u) << "one of them came first, the others were told that the name is taken";
}

TEST(Lifetime, AProcessMayEndWithoutShutdown) {
  const std::string environment =
      "IRONCL_DISABLE=opencl,ironwood,skeleton IRONCL_PLUGIN_FILES=" + fakes::path("fake");
  const ironcl::Ran ran = ironcl::run_command("env " + environment + " " IRONCL_LIST_PLUGINS " leave");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("device fake:0"));
}

TEST(Lifetime, AFileIsTakenByARelativePath) {
  const ironcl::Ran ran =
      ironcl::run_command("cd " IRONCL_FAKES_DIRECTORY " && " IRONCL_LIST_PLUGINS " file libironcl_fake.so");
  EXPECT_THAT(ran.output, HasSubstr("device fake:0")) << ran.output;
}

}  // namespace

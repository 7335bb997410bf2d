// SPDX-License-Identifier: Apache-2.0
// Each step from a file to a plugin, and how each refuses. Next door: discovery_test.cpp (which files).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "tests/registry/fakes.h"

namespace {

using ironcl::Registry;
using testing::HasSubstr;

struct Refusal {
  const char* fake;
  std::uint32_t step;
  ironcl_status status;
  const char* says;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.fake; }

class Refuses : public testing::TestWithParam<Refusal> {};

TEST_P(Refuses, ABrokenPluginAtItsStepWithItsReason) {
  const Refusal& expected = GetParam();
  Registry registry(fakes::alone());
  const std::string text = fakes::error_of(expected.status, [&] { registry.load_file(fakes::path(expected.fake)); });
  EXPECT_THAT(text, HasSubstr(expected.says));
  EXPECT_THAT(text, HasSubstr(fakes::path(expected.fake)));
  ASSERT_EQ(registry.report().size(), 1u);
  const auto entry = registry.report().front();
  EXPECT_STREQ(ironcl_outcome_name(entry.outcome), "refused");
  EXPECT_STREQ(ironcl_step_name(entry.step), ironcl_step_name(expected.step));
  EXPECT_EQ(entry.status, expected.status);
  EXPECT_THAT(entry.reason, HasSubstr(expected.says));
  EXPECT_TRUE(registry.plugins().empty());
  EXPECT_TRUE(registry.devices().empty());
  registry.load_file(fakes::path("alpha"));  // and it hides no other
  EXPECT_EQ(registry.devices().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Load, Refuses,
    testing::Values(
        Refusal{"nowhere", IRONCL_STEP_FOUND, IRONCL_UNAVAILABLE, "No such file"},
        Refusal{"foreign", IRONCL_STEP_PREFLIGHT, IRONCL_INCOMPATIBLE, "is a library but not an IronCL plugin"},
        Refusal{"unresolved", IRONCL_STEP_OPEN, IRONCL_INCOMPATIBLE, "a_function_that_nobody_has"},
        Refusal{"sanitized", IRONCL_STEP_SANITIZER, IRONCL_INCOMPATIBLE, "MemorySanitizer"},
        Refusal{"query_throws", IRONCL_STEP_QUERY, IRONCL_INTERNAL, "threw an exception"},
        Refusal{"query_null", IRONCL_STEP_QUERY, IRONCL_INCOMPATIBLE, "gave NULL"},
        Refusal{"major", IRONCL_STEP_VERSION, IRONCL_INCOMPATIBLE, "it has ABI 3.5, this library has ABI 2.0"},
        Refusal{"short", IRONCL_STEP_VERSION, IRONCL_INCOMPATIBLE, "16 bytes"},
        Refusal{"bad_name", IRONCL_STEP_VERSION, IRONCL_INVALID_ARGUMENT, "Bad:Name"},
        Refusal{"no_enumerate", IRONCL_STEP_VERSION, IRONCL_INVALID_ARGUMENT, "its table has no enumerate"},
        Refusal{"other_sanitizer", IRONCL_STEP_SANITIZER, IRONCL_INCOMPATIBLE, "MemorySanitizer"},
        Refusal{"null_name", IRONCL_STEP_VERSION, IRONCL_INVALID_ARGUMENT, "its table has no name"},
        Refusal{"required", IRONCL_STEP_SANITIZER, IRONCL_INCOMPATIBLE, "extension 77"}),
    [](const auto& instance) { return std::string(instance.param.fake); });

struct Failure {
  const char* name;
  const char* key;
  const char* value;
  std::uint32_t step;
  ironcl_status status;
  const char* says;
};
void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.name; }

class Fails : public testing::TestWithParam<Failure> {};

TEST_P(Fails, APluginWhoseOwnFunctionFails) {
  const Failure& expected = GetParam();
  Registry registry(fakes::with("fake", expected.key, expected.value));
  const std::string text = fakes::error_of(expected.status, [&] { registry.load_file(fakes::path("fake")); });
  EXPECT_THAT(text, HasSubstr(expected.says));
  ASSERT_FALSE(registry.report().empty());
  EXPECT_STREQ(ironcl_step_name(registry.report().front().step), ironcl_step_name(expected.step));
  EXPECT_TRUE(registry.plugins().empty());
  // Its name is free again: another file of that name fails for its own reason, and not because it came second.
  fakes::error_of(expected.status, [&] { registry.load_file(fakes::path("shadow")); });
  EXPECT_STREQ(ironcl_outcome_name(registry.report().back().outcome), "refused");
}

INSTANTIATE_TEST_SUITE_P(
    Load, Fails,
    testing::Values(
        Failure{"load_fails", "load", "fail", IRONCL_STEP_LOAD, IRONCL_INTERNAL, "told to fail"},
        Failure{"load_fails_silently", "load", "silent", IRONCL_STEP_LOAD, IRONCL_INTERNAL, "gave no message"},
        Failure{"load_throws", "load", "throw", IRONCL_STEP_LOAD, IRONCL_INTERNAL, "threw an exception"},
        Failure{"load_refuses_an_option", "colour", "red", IRONCL_STEP_LOAD, IRONCL_INVALID_ARGUMENT,
                "unknown option"},
        Failure{"enumerate_fails", "enumerate", "fail", IRONCL_STEP_ENUMERATE, IRONCL_INTERNAL, "told to fail"},
        Failure{"enumerate_throws", "enumerate", "throw", IRONCL_STEP_ENUMERATE, IRONCL_INTERNAL,
                "threw an exception"},
        Failure{"props_throw", "enumerate", "props_throw", IRONCL_STEP_ENUMERATE, IRONCL_INTERNAL,
                "threw an exception"},
        Failure{"enumerate_gives_null", "enumerate", "null", IRONCL_STEP_ENUMERATE, IRONCL_INTERNAL, "NULL"},
        Failure{"enumerate_gives_many", "enumerate", "many", IRONCL_STEP_ENUMERATE, IRONCL_INTERNAL, "4097 devices"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Load, KeepsTheDriversOwnCode) {
  Registry registry(fakes::with("fake", "load", "fail"));
  try {
    registry.load_file(fakes::path("fake"));
    FAIL();
  } catch (const ironcl::Error& error) {
    EXPECT_EQ(error.native_code(), -7);
  }
}

TEST(Load, UnloadsAPluginWhoseEnumerateFails) {
  {
    Registry registry(fakes::with("alpha", "enumerate", "fail"));
    fakes::error_of(IRONCL_INTERNAL, [&] { registry.load_file(fakes::path("alpha")); });
  }
  Registry registry(fakes::alone());
  registry.load_file(fakes::path("alpha"));
  const auto device = registry.device("alpha:0");
  EXPECT_EQ(std::stoi(device.query("loads")), std::stoi(device.query("unloads")) + 1);
}

TEST(Load, NeverRunsALibraryThatIsNoPlugin) {
  ::unsetenv("FOREIGN_LIBRARY_RAN");
  Registry registry(fakes::alone());
  fakes::error_of(IRONCL_INCOMPATIBLE, [&] { registry.load_file(fakes::path("foreign")); });
  EXPECT_EQ(::getenv("FOREIGN_LIBRARY_RAN"), nullptr) << "its constructor ran";
}

TEST(Load, SaysWhenThereIsNoFileHandleLeft) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's check of virtual tables asks a pipe whether memory is there, and gets none here";
#endif
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(next);
  bool loaded = false;
  for (rlim_t left = 0; left < 8 && !loaded; ++left) {
    const fakes::Scratch scratch;
    const std::string copy = scratch.copy("fake", "libironcl_fake.so");
    const struct rlimit few = {static_cast<rlim_t>(next) + left, before.rlim_max};
    std::string why;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    try {
      Registry registry(fakes::alone());
      registry.load_file(copy);
      loaded = true;
    } catch (const ironcl::Error& error) {
      EXPECT_EQ(error.status(), IRONCL_UNAVAILABLE) << left;
      EXPECT_EQ(error.native_code(), EMFILE) << left;
      why = error.what();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_THAT(loaded ? "Too many open files; close some files, or raise the limit" : why,
                HasSubstr("Too many open files; close some files, or raise the limit"))
        << left;
  }
  EXPECT_TRUE(loaded);
}

TEST(Load, RefusesFilesThatAreNoLibraries) {
  const fakes::Scratch scratch;
  const std::string whole = ironcl::read_file(fakes::path("fake"));
  const struct {
    std::string path, says;
  } cases[] = {{scratch.file("libironcl_text.so", "not a library\n"), "is not a shared library"},
               {scratch.file("libironcl_empty.so", ""), "is not a shared library"},
               {scratch.file("libironcl_cut.so", whole.substr(0, whole.size() / 2)), "cut off"},
               {scratch.file("libironcl_head.so", whole.substr(0, 100)), "is not a shared library"},
               {scratch.path().string(), "is a folder"},
               {"/dev/null", "not a regular file"}};
  for (const auto& [path, says] : cases) {
    Registry registry(fakes::alone());
    const std::string text = fakes::error_of(IRONCL_INCOMPATIBLE, [&, &file = path] { registry.load_file(file); });
    EXPECT_THAT(text, HasSubstr(says)) << path;
  }
}

TEST(Load, SurvivesALibraryWithAnyByteOfItsHeaderChanged) {
  const fakes::Scratch scratch;
  const std::string whole = ironcl::read_file(fakes::path("foreign"));
  for (std::size_t byte = 0; byte < 64; ++byte) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[byte] = value;
      const std::string path = scratch.file("libironcl_changed.so", changed);
      Registry registry(fakes::alone());
      fakes::error_of(IRONCL_INCOMPATIBLE, [&] { registry.load_file(path); });
    }
  }
}

TEST(Load, TakesALaterMinorVersionWithAppendedSlots) {
  Registry registry(fakes::alone());
  registry.load_file(fakes::path("later"));
  const auto plugin = registry.plugins().at(0);
  EXPECT_EQ(plugin.abi_minor, 9u);
  EXPECT_EQ(plugin.api->struct_size, sizeof(ironcl_plugin));
}

TEST(Load, FillsMissingFunctionsWithOnesThatAnswerUnimplemented) {
  Registry registry(fakes::alone());
  registry.load_file(fakes::path("fake"));
  const auto device = registry.device("fake:0");
  ASSERT_NE(device.api().queue_create, nullptr);
  const std::string text = fakes::error_of(IRONCL_UNIMPLEMENTED, [&] { ironcl::Queue queue(device); });
  EXPECT_THAT(text, HasSubstr("queue_create"));
  device.api().queue_destroy(nullptr);
}

TEST(Load, ListsAPluginWithoutADriverWithItsReason) {
  Registry registry(fakes::with("fake", "enumerate", "unavailable"));
  registry.load_file(fakes::path("fake"));
  const auto plugin = registry.plugins().at(0);
  EXPECT_EQ(plugin.device_count, 0u);
  EXPECT_EQ(plugin.enumerate_status, ironcl_status{IRONCL_UNAVAILABLE});
  EXPECT_EQ(plugin.enumerate_reason, "no driver here");
  EXPECT_EQ(registry.report().at(0).reason, "no driver here");
  const std::string text = fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.device("auto"); });
  EXPECT_THAT(text, HasSubstr("no driver here"));
}

TEST(Load, ListsAPluginWithZeroDevices) {
  Registry registry(fakes::with("fake", "devices", ""));
  registry.load_file(fakes::path("fake"));
  EXPECT_EQ(registry.plugins().at(0).device_count, 0u);
  EXPECT_EQ(registry.plugins().at(0).enumerate_status, ironcl_status{IRONCL_OK});
  EXPECT_THAT(registry.plugins().at(0).enumerate_reason, HasSubstr("no device"));
}

TEST(Load, LeavesOutADeviceThatCannotBeAskedAndKeepsTheNumbersOfTheOthers) {
  auto options = fakes::alone();
  options.plugin_options = {{"fake", "devices", "gpu/5,cpu/7"}, {"fake", "enumerate", "props"}};
  Registry registry(options);
  registry.load_file(fakes::path("fake"));
  ASSERT_EQ(registry.devices().size(), 1u);
  EXPECT_EQ(registry.devices()[0].uri(), "fake:1");
  EXPECT_EQ(registry.device("fake:1").props().memory_bytes, 7u);
  EXPECT_THAT(registry.report().at(1).reason, HasSubstr("fake:0 is left out: device fell off"));
}

TEST(Load, TakesAnEndlessChainAndTextsWithoutAnEnd) {
  Registry registry(fakes::with("fake", "enumerate", "unterminated"));
  registry.load_file(fakes::path("endless"));
  registry.load_file(fakes::path("fake"));
  EXPECT_EQ(registry.device("endless:0").props().type, std::uint32_t{IRONCL_DEVICE_CPU});
  const ironcl_device_props props = registry.device("fake:0").props();
  EXPECT_EQ(strnlen(props.name, sizeof props.name), sizeof props.name - 1);
}

TEST(Load, OutlivesAnUnloadThatThrows) {
  Registry registry(fakes::with("fake", "enumerate", "unload_throws"));
  registry.load_file(fakes::path("fake"));
  registry = Registry(fakes::alone());
  registry.load_file(fakes::path("alpha"));
  EXPECT_EQ(registry.devices().size(), 1u);
}

TEST(Load, RefusesASecondPluginOfTheSameName) {
  Registry registry(fakes::alone());
  registry.load_file(fakes::path("fake"));
  fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.load_file(fakes::path("shadow")); });
  EXPECT_STREQ(ironcl_outcome_name(registry.report().at(1).outcome), "shadowed");
  EXPECT_EQ(registry.plugins().size(), 1u);
}

TEST(Load, RefusesTheSameFileTwice) {
  Registry registry(fakes::alone());
  registry.load_file(fakes::path("fake"));
  fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.load_file(fakes::path("fake")); });
  EXPECT_STREQ(ironcl_outcome_name(registry.report().at(1).outcome), "duplicate");
}

}  // namespace

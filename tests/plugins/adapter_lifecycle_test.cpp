// SPDX-License-Identifier: Apache-2.0
// Loading, listing and destroying through the C table.
#include "plugins/adapter/instance.h"
#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterLifecycle : public AdapterTest {};

TEST_F(AdapterLifecycle, TableIsWholeAndSaysWhatItIs) {
  EXPECT_EQ(table->struct_size, sizeof(ironcl_plugin));
  EXPECT_EQ(table->abi_major, IRONCL_ABI_MAJOR);
  EXPECT_EQ(table->abi_minor, IRONCL_ABI_MINOR);
  EXPECT_STREQ(table->name, "fake");
  ASSERT_NE(table->extensions, nullptr);
  EXPECT_EQ(table->extensions->type, static_cast<uint32_t>(IRONCL_CHAIN_SANITIZER));
  EXPECT_EQ(table->extensions->struct_size, sizeof(ironcl_sanitizer));
  std::array<void*, (sizeof(ironcl_plugin) - offsetof(ironcl_plugin, load)) / sizeof(void*)> slots{};
  std::memcpy(slots.data(), reinterpret_cast<const char*>(table) + offsetof(ironcl_plugin, load), sizeof slots);
  for (std::size_t i = 0; i < slots.size(); ++i) EXPECT_NE(slots[i], nullptr) << "slot " << i << " is empty";
}

TEST_F(AdapterLifecycle, EnumerateBeforeLoadIsInvalid) {
  uint32_t count = 77;
  EXPECT_EQ(table->enumerate(nullptr, 0, &count, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_EQ(count, 77u);
  EXPECT_TRUE(says({"fake", "not loaded", "load()"}));
}

TEST_F(AdapterLifecycle, SecondLoadIsInvalidUntilUnload) {
  load();
  EXPECT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"loaded already"}));
  const ironcl_host host = {sizeof host, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR, 0, nullptr, nullptr};
  EXPECT_EQ(table->load(&host, nullptr, 0, &error), IRONCL_INVALID_ARGUMENT) << "with a host too";
  EXPECT_TRUE(says({"loaded already"}));
  table->unload();
  EXPECT_EQ(table->load(&host, nullptr, 0, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_INVALID_ARGUMENT);
  table->unload();
  EXPECT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_OK) << error.message;
}

TEST_F(AdapterLifecycle, FailedLoadHasLoadedNothing) {
  script().before["load"] = [] { throw backend::Error(backend::Status::unavailable, "no driver"); };
  EXPECT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_UNAVAILABLE);
  uint32_t count = 0;
  EXPECT_EQ(table->enumerate(nullptr, 0, &count, &error), IRONCL_INVALID_ARGUMENT);
  script().before.clear();
  load();
}

TEST_F(AdapterLifecycle, LoadHandsOverOptionsAndRefusesNullOnes) {
  const ironcl_key_value options[] = {{"cache_dir", "/tmp"}, {"flag", ""}};
  ASSERT_EQ(table->load(nullptr, options, 2, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(script().load_options, (backend::Options{{"cache_dir", "/tmp"}, {"flag", ""}}));
  table->unload();
  const ironcl_key_value bad[] = {{"cache_dir", nullptr}};
  EXPECT_EQ(table->load(nullptr, bad, 1, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"options[0].value", "NULL"}));
  EXPECT_EQ(table->load(nullptr, nullptr, 1, &error), IRONCL_INVALID_ARGUMENT);
}

TEST_F(AdapterLifecycle, UnknownOptionNamesTheKnownOnes) {
  script().before["load"] = [] { adapter::check_option_names(script().load_options, {"cache_dir", "cl_dir"}); };
  const ironcl_key_value options[] = {{"cachedir", "/tmp"}};
  EXPECT_EQ(table->load(nullptr, options, 1, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"cachedir", "cache_dir, cl_dir"}));
}

TEST_F(AdapterLifecycle, OptionGoesBeforeItsEnvironmentVariable) {
  ASSERT_EQ(setenv("IRONCL_TEST_SETTING", "from environment", 1), 0);
  EXPECT_EQ(adapter::setting({{"key", "from option"}}, "key", "IRONCL_TEST_SETTING"), "from option");
  EXPECT_EQ(adapter::setting({}, "key", "IRONCL_TEST_SETTING"), "from environment");
  ASSERT_EQ(setenv("IRONCL_TEST_SETTING", "", 1), 0);
  EXPECT_EQ(adapter::setting({}, "key", "IRONCL_TEST_SETTING"), std::nullopt) << "empty counts as unset";
  unsetenv("IRONCL_TEST_SETTING");
}

TEST_F(AdapterLifecycle, HostOfAnotherMajorVersionIsIncompatible) {
  auto host = sized<ironcl_host>();
  host.abi_major = IRONCL_ABI_MAJOR + 1;
  EXPECT_EQ(table->load(&host, nullptr, 0, &error), IRONCL_INCOMPATIBLE);
  EXPECT_TRUE(says({"3.0", "2.0"}));
}

TEST_F(AdapterLifecycle, LogGetsOneCallALineUntilUnload) {
  std::vector<std::pair<uint32_t, std::string>> lines;
  auto host = sized<ironcl_host>();
  host.abi_major = IRONCL_ABI_MAJOR;
  host.context = &lines;
  host.log = [](void* context, uint32_t level, const char* text) {
    static_cast<decltype(lines)*>(context)->emplace_back(level, text);
  };
  ASSERT_EQ(table->load(&host, nullptr, 0, &error), IRONCL_OK) << error.message;
  script().log->write(backend::LogLevel::warn, "first\nsecond\n");
  EXPECT_EQ(lines, (decltype(lines){{IRONCL_LOG_WARN, "first"}, {IRONCL_LOG_WARN, "second"}}));
  script().log->write(backend::LogLevel::error, "build: tile.cl failed\nline 3: no such type");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[3].second, "build: line 3: no such type") << "the kind of the first line is that of all";
  table->unload();
  script().log->write(backend::LogLevel::error, "after unload");
  EXPECT_EQ(lines.size(), 4u);
}

TEST_F(AdapterLifecycle, FailedEnumerateIsAskedAgain) {
  ASSERT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_OK);
  script().before["enumerate"] = [] { throw backend::Error(backend::Status::unavailable, "not yet"); };
  uint32_t count = 5;
  EXPECT_EQ(table->enumerate(nullptr, 0, &count, &error), IRONCL_UNAVAILABLE);
  EXPECT_EQ(count, 5u);
  script().before.clear();
  EXPECT_EQ(table->enumerate(nullptr, 0, &count, &error), IRONCL_OK);
  EXPECT_EQ(count, 2u);
}

TEST_F(AdapterLifecycle, DeviceOfAnUnloadedPluginIsInvalidAndNotACrash) {
  load();
  table->unload();
  auto props = sized<ironcl_device_props>();
  EXPECT_EQ(table->device_props(devices[0], &props, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"unloaded"}));
}

TEST_F(AdapterLifecycle, ObjectsInUseLiveOnAfterDestroy) {
  make_all();
  ASSERT_EQ(enqueue(gemm_args()), IRONCL_OK) << error.message;
  const auto in_flight = script().gemm_args;  // what a queued command holds
  const int before = script().live_objects;
  table->buffer_destroy(std::exchange(buffer, nullptr));
  table->weights_destroy(std::exchange(weights, nullptr));
  EXPECT_EQ(script().live_objects, before);
  EXPECT_EQ(in_flight.a.buffer->size(), 4096u);
}

TEST_F(AdapterLifecycle, DestroyFreesWhatNobodyUses) {
  make_all();
  EXPECT_EQ(script().live_objects, 4);
  table->buffer_destroy(std::exchange(buffer, nullptr));
  table->weights_destroy(std::exchange(weights, nullptr));
  table->op_destroy(std::exchange(gemm, nullptr));
  table->queue_destroy(std::exchange(queue, nullptr));
  EXPECT_EQ(script().live_objects, 0);
}

TEST_F(AdapterLifecycle, UnloadSaysThatObjectsWereLeft) {
  static std::string said;
  said.clear();
  auto host = sized<ironcl_host>();
  host.abi_major = IRONCL_ABI_MAJOR;
  host.log = [](void*, uint32_t, const char* text) { said = text; };
  ASSERT_EQ(table->load(&host, nullptr, 0, &error), IRONCL_OK);
  uint32_t count = 0;
  ASSERT_EQ(table->enumerate(devices.data(), 2, &count, &error), IRONCL_OK);
  ASSERT_EQ(table->queue_create(devices[0], 0, &queue, &error), IRONCL_OK);
  table->unload();
  EXPECT_NE(said.find("1 objects not destroyed"), std::string::npos) << said;
  table->queue_destroy(std::exchange(queue, nullptr));
}

}  // namespace
}  // namespace ironcl::fake

// SPDX-License-Identifier: Apache-2.0
// The rules of structs, errors and NULL in ironcl.h, and the names that it gives.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstring>
#include <set>

#include "tests/c_api.h"
#include "tests/registry/fakes.h"

namespace {

using testing::HasSubstr;

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    auto options = ironcl::sized<ironcl_registry_options>();
    options.flags = IRONCL_REGISTRY_IGNORE_ENVIRONMENT;
    ASSERT_EQ(ironcl_registry_create(&options, &registry_, nullptr), ironcl_status{IRONCL_OK});
    ASSERT_EQ(ironcl_registry_load_file(registry_, fakes::path("fake").c_str(), nullptr), ironcl_status{IRONCL_OK});
  }
  void TearDown() override { ironcl_registry_destroy(registry_); }
  ironcl_registry registry_ = nullptr;
};

TEST_F(CApi, ANullOptionsStructIsTheDefault) {
  ironcl_registry registry = nullptr;
  EXPECT_EQ(ironcl_registry_create(nullptr, &registry, nullptr), ironcl_status{IRONCL_OK});
  ironcl_registry_destroy(registry);
  ironcl_registry_destroy(nullptr);
}

TEST_F(CApi, AShortInputStructReadsAsZeroesBehindItsEnd) {
  ironcl_registry_options options{};
  options.struct_size = offsetof(ironcl_registry_options, log);
  options.verbose = "nonsense";
  ironcl_registry registry = nullptr;
  EXPECT_EQ(ironcl_registry_create(&options, &registry, nullptr), ironcl_status{IRONCL_OK});
  ironcl_registry_destroy(registry);
}

TEST_F(CApi, AnInputStructWithAnUnknownTailMustBeZeroThere) {
  struct {
    ironcl_registry_options options;
    std::uint64_t later;
  } grown{};
  grown.options.struct_size = sizeof grown;
  ironcl_registry registry = nullptr;
  EXPECT_EQ(ironcl_registry_create(&grown.options, &registry, nullptr), ironcl_status{IRONCL_OK});
  ironcl_registry_destroy(registry);
  registry = nullptr;
  grown.later = 1;
  auto error = ironcl::sized<ironcl_error>();
  EXPECT_EQ(ironcl_registry_create(&grown.options, &registry, &error), ironcl_status{IRONCL_UNIMPLEMENTED});
  EXPECT_EQ(registry, nullptr) << "an out parameter was touched on failure";
  EXPECT_THAT(error.message, HasSubstr("ironcl_registry_options"));
}

TEST_F(CApi, AnUnknownFlagIsUnimplemented) {
  auto options = ironcl::sized<ironcl_registry_options>();
  options.flags = 1u << 30;
  ironcl_registry registry = nullptr;
  EXPECT_EQ(ironcl_registry_create(&options, &registry, nullptr), ironcl_status{IRONCL_UNIMPLEMENTED});
  auto select = ironcl::sized<ironcl_select_options>();
  select.flags = 1u << 30;
  auto info = ironcl::sized<ironcl_device_info>();
  EXPECT_EQ(ironcl_registry_select(registry_, &select, &info, nullptr), ironcl_status{IRONCL_UNIMPLEMENTED});
}

TEST_F(CApi, AnOutputStructIsFilledAsFarAsItReaches) {
  ironcl_device_info info;
  std::memset(&info, 0xab, sizeof info);
  info.struct_size = offsetof(ironcl_device_info, handle);
  ASSERT_EQ(ironcl_registry_device_info(registry_, 0, &info, nullptr), ironcl_status{IRONCL_OK});
  EXPECT_EQ(info.struct_size, offsetof(ironcl_device_info, handle));
  EXPECT_NE(info.api, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(info.uri), 0xababababababababu) << "written behind its end";
}

TEST_F(CApi, AMissingStructSizeIsSaid) {
  ironcl_device_info info{};
  auto error = ironcl::sized<ironcl_error>();
  EXPECT_EQ(ironcl_registry_device_info(registry_, 0, &info, &error), ironcl_status{IRONCL_INVALID_ARGUMENT});
  EXPECT_THAT(error.message, HasSubstr("set it to sizeof(ironcl_device_info)"));
}

TEST_F(CApi, AnIndexOutOfRangeIsInvalidAndTouchesNothing) {
  auto error = ironcl::sized<ironcl_error>();
  auto device = ironcl::sized<ironcl_device_info>();
  EXPECT_EQ(ironcl_registry_device_info(registry_, 7, &device, &error), ironcl_status{IRONCL_INVALID_ARGUMENT});
  EXPECT_THAT(error.message, HasSubstr("device 7 does not exist; there are 1"));
  EXPECT_EQ(error.status, ironcl_status{IRONCL_INVALID_ARGUMENT});
  EXPECT_EQ(device.api, nullptr);
  auto plugin = ironcl::sized<ironcl_plugin_info>();
  EXPECT_EQ(ironcl_registry_plugin_info(registry_, 1, &plugin, nullptr), ironcl_status{IRONCL_INVALID_ARGUMENT});
  auto entry = ironcl::sized<ironcl_report_entry>();
  EXPECT_EQ(ironcl_registry_report_entry(registry_, 1, &entry, nullptr), ironcl_status{IRONCL_INVALID_ARGUMENT});
}

TEST_F(CApi, NullArgumentsAreRefused) {
  auto info = ironcl::sized<ironcl_device_info>();
  const ironcl_status refused = IRONCL_INVALID_ARGUMENT;
  EXPECT_EQ(ironcl_registry_create(nullptr, nullptr, nullptr), refused);
  EXPECT_EQ(ironcl_registry_load_file(registry_, nullptr, nullptr), refused);
  EXPECT_EQ(ironcl_registry_load_file(registry_, "", nullptr), refused);
  EXPECT_EQ(ironcl_registry_load_file(nullptr, "x", nullptr), refused);
  EXPECT_EQ(ironcl_registry_discover(nullptr, nullptr), refused);
  EXPECT_EQ(ironcl_registry_shutdown(nullptr, nullptr), refused);
  EXPECT_EQ(ironcl_registry_find_device(registry_, nullptr, &info, nullptr), refused);
  EXPECT_EQ(ironcl_registry_find_device(registry_, "auto", nullptr, nullptr), refused);
  EXPECT_EQ(ironcl_registry_select(registry_, nullptr, nullptr, nullptr), refused);
  EXPECT_EQ(ironcl_registry_device_count(nullptr), 0u);
}

TEST_F(CApi, SelectionWithoutOptionsTakesTheDefaultDevice) {
  auto info = ironcl::sized<ironcl_device_info>();
  ASSERT_EQ(ironcl_registry_select(registry_, nullptr, &info, nullptr), ironcl_status{IRONCL_OK});
  EXPECT_STREQ(info.uri, "fake:0");
}

TEST_F(CApi, ALongMessageIsCutAndTerminated) {
  auto error = ironcl::sized<ironcl_error>();
  auto info = ironcl::sized<ironcl_device_info>();
  const std::string uri(2000, 'x');
  EXPECT_EQ(ironcl_registry_find_device(registry_, uri.c_str(), &info, &error),
            ironcl_status{IRONCL_INVALID_ARGUMENT});
  EXPECT_EQ(std::strlen(error.message), sizeof error.message - 1);
}

TEST_F(CApi, TheReportOutlivesShutdown) {
  auto entry = ironcl::sized<ironcl_report_entry>();
  ASSERT_EQ(ironcl_registry_report_entry(registry_, 0, &entry, nullptr), ironcl_status{IRONCL_OK});
  ASSERT_EQ(ironcl_registry_shutdown(registry_, nullptr), ironcl_status{IRONCL_OK});
  EXPECT_EQ(entry.path, fakes::path("fake"));
  EXPECT_STREQ(entry.build_id, "fake 1.2.3");
  EXPECT_EQ(ironcl_registry_device_count(registry_), 0u);
}

TEST_F(CApi, NamesAreDistinctAndUnknownNumbersHaveOneToo) {
  std::set<std::string> names;
  for (std::uint32_t status = 0; status <= IRONCL_INTERNAL; ++status) names.insert(ironcl_status_name(status));
  EXPECT_EQ(names.size(), IRONCL_INTERNAL + 1u);
  EXPECT_FALSE(names.contains("UNKNOWN"));
  EXPECT_STREQ(ironcl_status_name(1000), "UNKNOWN");
  names.clear();
  for (std::uint32_t reason = 0; reason <= IRONCL_REASON_OPTION; ++reason) names.insert(ironcl_reason_name(reason));
  for (std::uint32_t reason = IRONCL_REASON_MODEL_DEVICE; reason <= IRONCL_REASON_CALL_FAILED; ++reason)
    names.insert(ironcl_reason_name(reason));
  EXPECT_EQ(names.size(), IRONCL_REASON_OPTION + 4u);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_STREQ(ironcl_step_name(IRONCL_STEP_SANITIZER), "sanitizer");
  EXPECT_STREQ(ironcl_outcome_name(IRONCL_REPORT_SHADOWED), "shadowed");
  EXPECT_STREQ(ironcl_device_type_name(IRONCL_DEVICE_MODEL), "model");
  EXPECT_THAT(ironcl_build_id(), HasSubstr("0.1.0"));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// device_import through the C table: an application's own objects become a device beside those of enumerate.
#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterImport : public AdapterTest {
 protected:
  ironcl_native_device native(void* context) {
    auto desc = sized<ironcl_native_device>();
    desc.kind = IRONCL_NATIVE_OPENCL;
    desc.device = &device_;
    desc.context = context;
    return desc;
  }
  int device_ = 0, one_ = 0, two_ = 0;
};

TEST_F(AdapterImport, GivesTheSameHandleForTheSameObjects) {
  load();
  ironcl_device first = nullptr, again = nullptr, other = nullptr;
  auto desc = native(&one_);
  ASSERT_EQ(table->device_import(&desc, &first, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(script().native.device, &device_);
  EXPECT_EQ(script().native.context, &one_);
  ASSERT_EQ(table->device_import(&desc, &again, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(first, again);
  desc = native(&two_);
  ASSERT_EQ(table->device_import(&desc, &other, &error), IRONCL_OK) << error.message;
  EXPECT_NE(other, first);
  for (ironcl_device device : devices) EXPECT_NE(device, first);
  uint32_t count = 0;
  ASSERT_EQ(table->enumerate(nullptr, 0, &count, &error), IRONCL_OK);
  EXPECT_EQ(count, 2u) << "imported devices are not listed";

  // It is a device like the others, and its objects are not another's.
  auto props = sized<ironcl_device_props>();
  ASSERT_EQ(table->device_props(first, &props, &error), IRONCL_OK) << error.message;
  EXPECT_STREQ(props.name, "fake 99");
  ASSERT_EQ(table->queue_create(first, 0, &queue, &error), IRONCL_OK) << error.message;
  const auto bytes = buffer_desc();
  ASSERT_EQ(table->buffer_create(devices[0], &bytes, &buffer, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(table->write(queue, {buffer, 0, 4}, "abc", 0, nullptr, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"another device"}));
}

TEST_F(AdapterImport, NeedsALoadedPluginAndBothObjects) {
  ironcl_device out = nullptr;
  auto desc = native(&one_);
  EXPECT_EQ(table->device_import(&desc, &out, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"not loaded", "load()"}));
  load();
  desc.device = nullptr;
  EXPECT_EQ(table->device_import(&desc, &out, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"native_device.device is NULL"}));
  desc = native(nullptr);
  EXPECT_EQ(table->device_import(&desc, &out, &error), IRONCL_INVALID_ARGUMENT);
  desc = native(&one_);
  EXPECT_EQ(table->device_import(&desc, nullptr, &error), IRONCL_INVALID_ARGUMENT);
  desc.kind = 7;
  EXPECT_EQ(table->device_import(&desc, &out, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_TRUE(says({"native_device.kind is 7"}));
  EXPECT_EQ(out, nullptr);
}

TEST_F(AdapterImport, EndsWithUnloadAsEveryDeviceDoes) {
  load();
  ironcl_device out = nullptr;
  const auto desc = native(&one_);
  ASSERT_EQ(table->device_import(&desc, &out, &error), IRONCL_OK) << error.message;
  table->unload();
  auto props = sized<ironcl_device_props>();
  EXPECT_EQ(table->device_props(out, &props, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"unloaded"}));
}

}  // namespace
}  // namespace ironcl::fake

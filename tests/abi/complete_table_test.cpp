// SPDX-License-Identifier: Apache-2.0
// A completed table has no holes: every missing slot answers UNIMPLEMENTED and says its name.
#include "host/registry/complete_table.h"
#include "tests/c_api.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

using ironcl::registry::complete_table;
using ironcl::registry::CompletedTable;

ironcl_plugin empty_table() {
  auto table = ironcl::sized<ironcl_plugin>();
  table.abi_major = IRONCL_ABI_MAJOR;
  table.name = "empty";
  return table;
}

/// Calls a slot with zeros for everything but the error.
template <class... Args>
ironcl_status call(ironcl_status (*slot)(Args...), ironcl_error* error) {
  const auto argument = [error]<class T>(T) {
    if constexpr (std::is_same_v<T, ironcl_error*>) {
      return error;
    } else {
      return T{};
    }
  };
  return slot(argument(Args{})...);
}
template <class... Args>
ironcl_status call(void (*slot)(Args...), ironcl_error*) {
  slot(Args{}...);
  return IRONCL_UNIMPLEMENTED;
}

template <class Result, class... Args>
constexpr bool returns_status(Result (*)(Args...)) {
  return !std::is_void_v<Result>;
}

TEST(CompleteTable, AnswersUnimplementedInEveryMissingSlot) {
  const CompletedTable completed = complete_table(empty_table());
  const auto check = [](const char* name, auto slot) {
    ASSERT_NE(slot, nullptr) << name;
    auto error = ironcl::sized<ironcl_error>();
    const ironcl_status status = call(slot, &error);
    if (std::string(name) == "load") {
      EXPECT_EQ(status, IRONCL_OK) << "no load means that there is nothing to load";
      return;
    }
    EXPECT_EQ(status, IRONCL_UNIMPLEMENTED) << name;
    EXPECT_EQ(call(slot, nullptr), IRONCL_UNIMPLEMENTED) << name << " without an error to fill";
    if (returns_status(slot)) {
      EXPECT_EQ(error.status, IRONCL_UNIMPLEMENTED) << name;
      EXPECT_EQ(std::string(error.message).rfind(std::string(name) + ":", 0), 0u) << error.message;
    }
  };
#define IRONCL_CHECK(slot) check(#slot, completed.table.slot);
  IRONCL_FOR_EACH_SLOT(IRONCL_CHECK)
#undef IRONCL_CHECK
}

TEST(CompleteTable, NamesEverySlotOfTheTableAsMissing) {
  const CompletedTable completed = complete_table(empty_table());
  EXPECT_EQ(completed.missing.size(), (sizeof(ironcl_plugin) - offsetof(ironcl_plugin, load)) / sizeof(void*))
      << "IRONCL_FOR_EACH_SLOT has not every slot of ironcl_plugin";
  EXPECT_EQ(std::set(completed.missing.begin(), completed.missing.end()).size(), completed.missing.size());
  EXPECT_EQ(completed.missing_required(), "enumerate");
}

TEST(CompleteTable, KeepsWhatThePluginHas) {
  ironcl_plugin table = empty_table();
  table.enumerate = [](ironcl_device*, uint32_t, uint32_t*, ironcl_error*) -> ironcl_status { return IRONCL_OK; };
  table.device_props = [](ironcl_device, ironcl_device_props*, ironcl_error*) -> ironcl_status {
    return IRONCL_UNAVAILABLE;
  };
  const CompletedTable completed = complete_table(table);
  EXPECT_EQ(completed.table.enumerate, table.enumerate);
  EXPECT_EQ(completed.table.device_props, table.device_props);
  EXPECT_EQ(completed.missing_required(), "");
  EXPECT_STREQ(completed.table.name, "empty");
}

TEST(CompleteTable, ReadsNoFurtherThanAShortTableGoes) {
  // The table ends in the middle of the slot `supports`; what follows in memory is not the plugin's.
  std::vector<unsigned char> bytes(offsetof(ironcl_plugin, supports) + 4, 0xff);
  ironcl_plugin whole = empty_table();
  whole.enumerate = [](ironcl_device*, uint32_t, uint32_t*, ironcl_error*) -> ironcl_status { return IRONCL_OK; };
  whole.struct_size = static_cast<uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &whole, offsetof(ironcl_plugin, supports));
  const CompletedTable completed = complete_table(*reinterpret_cast<const ironcl_plugin*>(bytes.data()));
  EXPECT_EQ(completed.table.enumerate, whole.enumerate);
  EXPECT_EQ(completed.missing_required(), "device_props");
  auto error = ironcl::sized<ironcl_error>();
  EXPECT_EQ(completed.table.supports(nullptr, nullptr, nullptr, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(completed.table.event_wait(nullptr, 0, &error), IRONCL_UNIMPLEMENTED);
}

TEST(CompleteTable, LeavesOutTheSlotsOfANewerMinorVersion) {
  struct Newer {
    ironcl_plugin known;
    void (*appended)();
  } newer{empty_table(), [] {}};
  newer.known.struct_size = sizeof newer;
  newer.known.abi_minor = IRONCL_ABI_MINOR + 1;
  const CompletedTable completed = complete_table(newer.known);
  EXPECT_EQ(completed.table.struct_size, sizeof(ironcl_plugin));
}

TEST(CompleteTable, CutsTheErrorTextToTheCallersStruct) {
  const CompletedTable completed = complete_table(empty_table());
  ironcl_error error;
  std::memset(&error, 0x5a, sizeof error);
  error.struct_size = offsetof(ironcl_error, message) + 8;
  EXPECT_EQ(completed.table.queue_finish(nullptr, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_STREQ(error.message, "queue_f");
  EXPECT_EQ(error.message[8], 0x5a) << "written past struct_size";
}

}  // namespace

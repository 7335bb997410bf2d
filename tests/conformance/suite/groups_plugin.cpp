// SPDX-License-Identifier: Apache-2.0
// Groups Plugin (query, load, enumerate) and Device (properties, device_query).
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

void query_is_pure(Context& c) {
  const ironcl_plugin* first = &c.plugin.raw();
  EXPECT_EQ(c.plugin.query()(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR), first) << "the table is one constant";
  EXPECT_EQ(c.plugin.query()(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR + 7), first) << "a newer minor version is served";
  const ironcl_plugin* other = c.plugin.query()(IRONCL_ABI_MAJOR + 1, 0);
  if (other != nullptr) {
    EXPECT_NE(other->abi_major, IRONCL_ABI_MAJOR + 1) << "a plugin cannot speak a major version that does not exist";
  }
}

void leading_fields(Context& c) {
  const ironcl_plugin& t = c.plugin.raw();
  EXPECT_GE(t.struct_size, 40u);
  EXPECT_EQ(t.abi_major, IRONCL_ABI_MAJOR);
  ASSERT_NE(t.name, nullptr);
  const std::string name = t.name;
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << name;
  ASSERT_NE(t.build_id, nullptr);
  EXPECT_NE(t.enumerate, nullptr) << "required of every plugin";
  EXPECT_NE(t.device_props, nullptr) << "required of every plugin";
  int length = 0;
  for (const ironcl_chain* item = t.extensions; item != nullptr && length < 1000; item = item->next) {
    EXPECT_GE(item->struct_size, sizeof(ironcl_chain));
    ++length;
  }
  EXPECT_LT(length, 1000) << "the chain of extensions has no end";
}

void unknown_option(Context& c) {
  if (c.plugin.raw().load == nullptr) throw NotApplicable("the plugin has no load()");
  EXPECT_EQ(c.plugin.refused_option, unsigned{IRONCL_INVALID_ARGUMENT})
      << "load() with an unknown option answers " << status_name(c.plugin.refused_option) << ": "
      << c.plugin.refused_option_text;
  EXPECT_NE(c.plugin.refused_option_text.find("no_plugin_has_this_option"), std::string::npos)
      << "the message does not name the option: " << c.plugin.refused_option_text;
}

void second_load(Context& c) {
  if (c.plugin.raw().load == nullptr) throw NotApplicable("the plugin has no load()");
  Error error;
  EXPECT_EQ(c.table.load(nullptr, nullptr, 0, &error), unsigned{IRONCL_INVALID_ARGUMENT})
      << "a second load before unload must be refused";
  EXPECT_NE(std::string(error.message), "");
}

void enumerate_counts(Context& c) {
  Error error;
  std::uint32_t count = 12345;
  ironcl_status status = c.table.enumerate(nullptr, 0, &count, &error);
  if (status == IRONCL_UNAVAILABLE) throw Unavailable(error.message);
  require(status, error, "enumerate");
  EXPECT_EQ(count, c.plugin.devices().size());
  std::vector<ironcl_device> again(count + 3, nullptr);
  std::uint32_t written = 0;
  require(c.table.enumerate(again.data(), count + 3, &written, &error), error, "enumerate");
  EXPECT_EQ(written, count);
  for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(again[i], c.plugin.devices()[i]) << "handles are stable";
  for (std::uint32_t i = count; i < count + 3; ++i) EXPECT_EQ(again[i], nullptr) << "written past the count";
  if (count == 0) return;
  std::vector<ironcl_device> fewer(count, nullptr);
  std::uint32_t whole = 0;
  require(c.table.enumerate(fewer.data(), count - 1, &whole, &error), error, "enumerate with less capacity");
  EXPECT_EQ(whole, count) << "the whole number is written also where the capacity is less";
  EXPECT_EQ(fewer[count - 1], nullptr) << "written past the capacity";
  whole = 777;
  EXPECT_EQ(c.table.enumerate(nullptr, 1, &whole, &error), unsigned{IRONCL_INVALID_ARGUMENT})
      << "a capacity without an array";
  EXPECT_EQ(whole, 777u) << "an out parameter of a failed call was touched";
  EXPECT_EQ(c.table.enumerate(nullptr, 0, nullptr, &error), unsigned{IRONCL_INVALID_ARGUMENT});
}

void props_are_sane(Context& c) {
  const ironcl_device_props p = props_of(c);
  EXPECT_EQ(p.struct_size, sizeof p) << "struct_size is the caller's";
  EXPECT_TRUE(p.type >= IRONCL_DEVICE_CPU && p.type <= IRONCL_DEVICE_MODEL) << p.type;
  EXPECT_NE(p.name[0], '\0') << "a device has a name";
  EXPECT_NE(std::memchr(p.name, 0, sizeof p.name), nullptr);
  EXPECT_NE(std::memchr(p.driver, 0, sizeof p.driver), nullptr);
  EXPECT_NE(std::memchr(p.stable_id, 0, sizeof p.stable_id), nullptr);
  EXPECT_TRUE(p.buffer_alignment > 0 && (p.buffer_alignment & (p.buffer_alignment - 1)) == 0) << p.buffer_alignment;
  constexpr std::uint32_t kKnown = IRONCL_CAP_IMPORT_HOST_POINTER | IRONCL_CAP_IMPORT_CL_MEM |
                                   IRONCL_CAP_EVENT_PROFILING | IRONCL_CAP_BITWISE_REPEATABLE;
  if (c.table.abi_minor == IRONCL_ABI_MINOR) {
    EXPECT_EQ(p.caps & ~kKnown, 0u) << "unknown capability bits";
  }
  const ironcl_device_props again = props_of(c);
  EXPECT_STREQ(again.name, p.name);
  EXPECT_EQ(again.caps, p.caps);
}

void memory_is_sane(Context& c) {
  const ironcl_device_props p = props_of(c);
  EXPECT_GT(p.memory_bytes, 0u);
  EXPECT_GT(p.max_buffer_bytes, 0u);
  EXPECT_LE(p.max_buffer_bytes, p.memory_bytes);
}

void unknown_key(Context& c) {
  Error error;
  std::uint64_t size = 4711;
  char text[16];
  std::memset(text, 'x', sizeof text);
  EXPECT_EQ(c.table.device_query(c.device, "no_such_key", nullptr, text, sizeof text, &size, &error),
            unsigned{IRONCL_UNIMPLEMENTED});
  EXPECT_EQ(size, 4711u) << "an out parameter of a failed call was touched";
  EXPECT_EQ(text[0], 'x') << "an out parameter of a failed call was touched";
}

void query_protocol(Context& c) {
  Error error;
  for (const char* key : {"features", "options", "variants"}) {
    SCOPED_TRACE(key);
    std::uint64_t size = 0;
    const ironcl_status status = c.table.device_query(c.device, key, nullptr, nullptr, 0, &size, &error);
    if (status == IRONCL_UNIMPLEMENTED && !c.plugin.raw().device_query) {
      throw NotApplicable("the plugin has no device_query()");
    }
    if (status == IRONCL_UNIMPLEMENTED) continue;
    require(status, error, "device_query for the size");
    ASSERT_GE(size, 1u) << "the size includes the NUL";
    std::vector<char> whole(size + 8, '#');
    std::uint64_t again = 0;
    require(c.table.device_query(c.device, key, nullptr, whole.data(), whole.size(), &again, &error), error,
            "device_query");
    EXPECT_EQ(again, size);
    EXPECT_EQ(std::strlen(whole.data()) + 1, size);
    EXPECT_EQ(whole[size], '#') << "written past the NUL";
    const std::uint64_t less = std::min<std::uint64_t>(size, 2);
    std::array<char, 8> cut{};
    cut.fill('#');
    again = 0;
    require(c.table.device_query(c.device, key, nullptr, cut.data(), less, &again, &error), error,
            "device_query with less capacity");
    EXPECT_EQ(again, size) << "the whole size is written also where the capacity is less";
    EXPECT_EQ(cut[less - 1], '\0') << "cut text is terminated";
    EXPECT_EQ(cut[less], '#') << "written past the capacity";
  }
}

void null_device(Context& c) {
  Error error;
  auto props = sized<ironcl_device_props>();
  EXPECT_EQ(c.table.device_props(nullptr, &props, &error), unsigned{IRONCL_INVALID_ARGUMENT});
  EXPECT_NE(std::string(error.message), "");
  EXPECT_EQ(c.table.device_props(c.device, nullptr, &error), unsigned{IRONCL_INVALID_ARGUMENT});
}

}  // namespace

void add_plugin_tests(Suite& suite) {
  const auto add = [&suite](const char* name, std::function<void(Context&)> body) {
    suite.add(TestCase{.group = "Plugin",
                       .name = name,
                       .needs = Needs::devices,
                       .floor = true,
                       .per_device = false,
                       .body = std::move(body)});
  };
  add("QueryIsPure", query_is_pure);
  add("LeadingFieldsAreFilled", leading_fields);
  add("LoadRefusesAnUnknownOptionByName", unknown_option);
  add("LoadTwiceIsRefused", second_load);
  add("EnumerateCountsAndFills", enumerate_counts);
  suite.add("Device", "PropertiesAreSane", Needs::devices, props_are_sane);
  suite.add("Device", "MemoryIsSane", Needs::memory, memory_is_sane);
  suite.add("Device", "NullIsRefused", Needs::devices, null_device);
  suite.add("Device", "AnUnknownQueryKeyIsUnimplemented", Needs::devices, unknown_key);
  suite.add("Device", "QueryCutsToTheCapacity", Needs::devices, query_protocol);
}

}  // namespace ironcl::conformance

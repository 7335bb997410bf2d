// SPDX-License-Identifier: Apache-2.0
// A plugin that was built from the oldest header loads and works through the table of today.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "host/registry/complete_table.h"

namespace {

TEST(PluginOfTheOldestHeader, LoadsAndCopiesBytes) {
  void* library = dlopen(IRONCL_OLD_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto query = reinterpret_cast<ironcl_plugin_query_fn>(dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL));
  ASSERT_NE(query, nullptr) << dlerror();
  const ironcl_plugin* raw = query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  ASSERT_NE(raw, nullptr);
  ASSERT_EQ(raw->abi_major, 1u);
  EXPECT_EQ(raw->abi_minor, 0u) << "tests/abi/v1_0 is the header of 1.0";
  const ironcl_plugin table = ironcl::registry::complete_table(*raw).table;

  ironcl_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(table.load(nullptr, nullptr, 0, &error), IRONCL_OK) << error.message;
  ironcl_device device = nullptr;
  uint32_t count = 0;
  ASSERT_EQ(table.enumerate(&device, 1, &count, &error), IRONCL_OK) << error.message;
  ASSERT_EQ(count, 1u);

  ironcl_queue queue = nullptr;
  ASSERT_EQ(table.queue_create(device, 0, &queue, &error), IRONCL_OK) << error.message;
  ironcl_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.size = 64;
  ironcl_buffer buffer = nullptr;
  ASSERT_EQ(table.buffer_create(device, &desc, &buffer, &error), IRONCL_OK) << error.message;
  const std::array<char, 8> sent{"ironcl!"};
  std::array<char, 8> got{};
  ironcl_event event = nullptr;
  ASSERT_EQ(table.write(queue, {buffer, 16, 8}, sent.data(), IRONCL_HOST_COPIED_BEFORE_RETURN, nullptr, &error),
            IRONCL_OK)
      << error.message;
  ASSERT_EQ(table.read(queue, {buffer, 16, 8}, got.data(), &event, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(table.event_wait(event, UINT64_MAX, &error), IRONCL_OK) << error.message;
  EXPECT_EQ(got, sent);

  ironcl_gemm_desc problem{};
  problem.struct_size = sizeof problem;
  problem.m = problem.n = problem.k = 1;
  ironcl_support support{};
  support.struct_size = sizeof support;
  ASSERT_EQ(table.supports(device, &problem, &support, &error), IRONCL_OK) << error.message;
  EXPECT_NE(support.reason, static_cast<uint32_t>(IRONCL_REASON_NONE));
  ironcl_gemm gemm = nullptr;
  EXPECT_EQ(table.gemm_create(device, &problem, &gemm, &error), IRONCL_UNSUPPORTED);
  EXPECT_STREQ(error.message, support.text);
  EXPECT_EQ(table.weights_info(nullptr, nullptr, &error), IRONCL_UNIMPLEMENTED) << "a slot that it left out";
  // What 1.1 appended is beyond the end of its table.
  ironcl_device imported = nullptr;
  ironcl_quantize quantize = nullptr;
  const ironcl_quantize_desc quantisation{};
  const ironcl_native_device native{};
  EXPECT_EQ(table.device_import(&native, &imported, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(table.quantize_create(device, &quantisation, &quantize, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(std::string(error.message).rfind("quantize_create:", 0), 0u) << error.message;
  EXPECT_EQ(table.quantize_enqueue(nullptr, queue, nullptr, nullptr, &error), IRONCL_UNIMPLEMENTED);
  table.quantize_destroy(quantize);
  ironcl_route route = nullptr;
  ironcl_activate activate = nullptr;
  ironcl_combine combine = nullptr;
  EXPECT_EQ(table.route_create(device, nullptr, &route, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(table.route_enqueue(nullptr, queue, nullptr, nullptr, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(table.activate_create(device, nullptr, &activate, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(table.activate_enqueue(nullptr, queue, nullptr, nullptr, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(table.combine_create(device, nullptr, &combine, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(table.combine_enqueue(nullptr, queue, nullptr, nullptr, &error), IRONCL_UNIMPLEMENTED);
  EXPECT_EQ(std::string(error.message).rfind("combine_enqueue:", 0), 0u) << error.message;
  table.route_destroy(route);
  table.activate_destroy(activate);
  table.combine_destroy(combine);
  // A field that 1.1 appended is in a tail that it does not know: never ignored where it is set.
  problem.a_rows = 1;
  EXPECT_EQ(table.supports(device, &problem, &support, &error), IRONCL_UNIMPLEMENTED) << error.message;
  EXPECT_EQ(table.gemm_create(device, &problem, &gemm, &error), IRONCL_UNIMPLEMENTED) << error.message;

  table.event_destroy(event);
  table.buffer_destroy(buffer);
  table.queue_destroy(queue);
  table.unload();
  EXPECT_EQ(dlclose(library), 0);
}

}  // namespace

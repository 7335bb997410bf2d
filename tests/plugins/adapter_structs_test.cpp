// SPDX-License-Identifier: Apache-2.0
// Structs of any length: short ones, long ones, filled ones, chains, texts that are cut.
#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterStructs : public AdapterTest {
 protected:
  void SetUp() override {
    AdapterTest::SetUp();
    load();
  }
};

/// A struct of a later minor version: what this one knows, and a field more.
template <class T>
struct Later {
  explicit Later(const T& value) : known(value) { known.struct_size = sizeof *this; }
  T known;
  uint64_t appended = 1;
};

TEST_F(AdapterStructs, NonZeroUnknownTailIsUnimplementedAndSaysWhere) {
  Later<ironcl_gemm_desc> desc(gemm_desc());
  EXPECT_EQ(ask(desc.known), IRONCL_UNIMPLEMENTED);
  EXPECT_TRUE(
      says({"gemm_desc", "offset " + std::to_string(sizeof(ironcl_gemm_desc)), "248", "240", "newer plugin"}));
}

TEST_F(AdapterStructs, UnknownTailIsRefusedInEveryInputStruct) {
  table->unload();
  Later<ironcl_host> host(sized<ironcl_host>());
  host.known.abi_major = IRONCL_ABI_MAJOR;
  EXPECT_EQ(table->load(&host.known, nullptr, 0, &error), IRONCL_UNIMPLEMENTED);
  make_all();
  Later<ironcl_buffer_desc> bytes(buffer_desc());
  EXPECT_EQ(create(bytes.known), IRONCL_UNIMPLEMENTED);
  Later<ironcl_weights_desc> matrix(weights_desc());
  EXPECT_EQ(create(matrix.known), IRONCL_UNIMPLEMENTED);
  Later<ironcl_gemm_args> args(gemm_args());
  EXPECT_EQ(enqueue(args.known), IRONCL_UNIMPLEMENTED);
}

TEST_F(AdapterStructs, AbsurdSizesAreInvalid) {
  auto desc = gemm_desc();
  for (const uint32_t size : {0u, 3u, 1u << 20, UINT32_MAX}) {
    desc.struct_size = size;
    EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT) << size;
    EXPECT_TRUE(says({"desc.struct_size", std::to_string(size), "sizeof"}));
  }
  auto support = sized<ironcl_support>();
  support.struct_size = 0;
  desc = gemm_desc();
  EXPECT_EQ(table->supports(devices[0], &desc, &support, &error), IRONCL_INVALID_ARGUMENT);
}

TEST_F(AdapterStructs, TextIsCutAtAWholeCharacter) {
  auto props = sized<ironcl_device_props>();
  ASSERT_EQ(table->device_props(devices[0], &props, &error), IRONCL_OK);
  EXPECT_EQ(std::string(props.driver), std::string(126, 'd')) << "half a UTF-8 character was left";
}

TEST_F(AdapterStructs, ErrorTextIsCutToTheCallersStruct) {
  ironcl_error small;
  std::memset(&small, 0x5a, sizeof small);
  small.struct_size = offsetof(ironcl_error, message) + 6;
  EXPECT_EQ(table->queue_finish(nullptr, &small), IRONCL_INVALID_ARGUMENT);
  EXPECT_STREQ(small.message, "queue");
  EXPECT_EQ(small.message[6], 0x5a);
  small.struct_size = 8;  // no room for a text at all
  EXPECT_EQ(table->queue_finish(nullptr, &small), IRONCL_INVALID_ARGUMENT);
  EXPECT_EQ(small.status, static_cast<uint32_t>(IRONCL_INVALID_ARGUMENT));
  small.struct_size = 0;
  EXPECT_EQ(table->queue_finish(nullptr, &small), IRONCL_INVALID_ARGUMENT) << "and nothing written";
}

TEST_F(AdapterStructs, RequiredUnknownPartOfAChainIsUnimplemented) {
  const ironcl_chain required{sizeof required, 4711u | IRONCL_CHAIN_REQUIRED, nullptr};
  const ironcl_chain optional{sizeof optional, 4712, &required};
  auto desc = gemm_desc();
  desc.next = &optional;
  EXPECT_EQ(ask(desc), IRONCL_UNIMPLEMENTED);
  EXPECT_TRUE(says({"gemm_desc.next", "4711", "part 2"}));
  auto matrix = weights_desc();
  matrix.next = &required;
  EXPECT_EQ(create(matrix), IRONCL_UNIMPLEMENTED);
  auto bytes = buffer_desc();
  bytes.next = &required;
  EXPECT_EQ(create(bytes), IRONCL_UNIMPLEMENTED);
}

TEST_F(AdapterStructs, EndlessChainAndHalfPartAreInvalid) {
  ironcl_chain endless{sizeof endless, 4711, nullptr};
  endless.next = &endless;
  auto desc = gemm_desc();
  desc.next = &endless;
  EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT);
  const ironcl_chain half{4, 4711, nullptr};
  desc.next = &half;
  EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT);
}

TEST_F(AdapterStructs, ChainsOf64PartsAreReadAndLongerOnesAreRefused) {
  std::array<ironcl_chain, 65> parts;
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = {sizeof(ironcl_chain), 4711, i + 1 < parts.size() ? &parts[i + 1] : nullptr};
  auto desc = gemm_desc();
  desc.next = &parts[1];
  EXPECT_EQ(ask(desc), IRONCL_OK) << error.message;
  desc.next = &parts[0];
  EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"gemm_desc.next", "more than 64 parts"}));
}

TEST_F(AdapterStructs, OptionsOfAPlanReachTheBackend) {
  const ironcl_key_value items[] = {{"variant", "gemm_panel"}, {"tile_m", "14"}};
  auto options = chained<ironcl_options>();
  options.chain.type = IRONCL_CHAIN_OPTIONS | IRONCL_CHAIN_REQUIRED;
  options.count = 2;
  options.items = items;
  auto desc = gemm_desc();
  desc.next = &options.chain;
  ASSERT_EQ(ask(desc), IRONCL_OK) << error.message;
  EXPECT_EQ(script().gemm_desc.options, (backend::Options{{"variant", "gemm_panel"}, {"tile_m", "14"}}));

  auto again = options;
  again.chain.next = &options.chain;
  desc.next = &again.chain;
  EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT) << "the same part twice";
  const ironcl_key_value twice[] = {{"variant", "a"}, {"variant", "b"}};
  options.items = twice;
  desc.next = &options.chain;
  EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"\"variant\"", "twice"}));
  options.items = nullptr;
  EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT);
  const ironcl_key_value null_value[] = {{"variant", nullptr}};
  options.items = null_value;
  options.count = 1;
  EXPECT_EQ(ask(desc), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"options.items[0].value", "NULL"}));
}

TEST_F(AdapterStructs, UnknownFlagsAndReservedFieldsAreUnimplemented) {
  auto desc = gemm_desc();
  desc.flags = 1u << 9;
  EXPECT_EQ(ask(desc), IRONCL_UNIMPLEMENTED);
  EXPECT_TRUE(says({"gemm_desc.flags", "0x200"}));
  desc = gemm_desc();
  desc.a_quantizer.reserved = 1;
  EXPECT_EQ(ask(desc), IRONCL_UNIMPLEMENTED);
  auto matrix = weights_desc();
  matrix.reserved = 1;
  EXPECT_EQ(create(matrix), IRONCL_UNIMPLEMENTED);
  auto bytes = buffer_desc();
  bytes.flags = 1;
  EXPECT_EQ(create(bytes), IRONCL_UNIMPLEMENTED);
  ironcl_queue q = nullptr;
  EXPECT_EQ(table->queue_create(devices[0], 1, &q, &error), IRONCL_UNIMPLEMENTED);
}

TEST_F(AdapterStructs, ImportedMemoryIsTheBackendsAnswer) {
  alignas(16) int memory = 0;
  auto native = chained<ironcl_native_memory>();
  native.chain.type = IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED;
  native.kind = IRONCL_MEMORY_HOST_POINTER;
  native.handle = &memory;
  auto desc = buffer_desc();
  desc.next = &native.chain;
  EXPECT_EQ(create(desc), IRONCL_UNIMPLEMENTED);
  EXPECT_TRUE(says({"imports no foreign memory"}));
  native.handle = nullptr;
  EXPECT_EQ(create(desc), IRONCL_INVALID_ARGUMENT);
  native.handle = &memory;
  native.kind = 9;
  EXPECT_EQ(create(desc), IRONCL_UNIMPLEMENTED);
}

TEST_F(AdapterStructs, ImportedHostMemoryIsAlignedAndEndsInMemory) {
  alignas(16) char memory[64] = {};
  auto native = chained<ironcl_native_memory>();
  native.chain.type = IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED;
  native.kind = IRONCL_MEMORY_HOST_POINTER;
  auto desc = buffer_desc();
  desc.size = 16;
  desc.next = &native.chain;
  for (const int past : {1, 4, 8, 15}) {
    native.handle = memory + past;
    EXPECT_EQ(create(desc), IRONCL_INVALID_ARGUMENT) << past;
    EXPECT_TRUE(says({"native_memory.handle is " + std::to_string(past) + " bytes past a multiple of 16",
                      "buffer_alignment", "aligned_alloc"}));
  }
  native.handle = memory;
  desc.size = UINT64_MAX - 15;
  EXPECT_EQ(create(desc), IRONCL_INVALID_ARGUMENT);
  EXPECT_TRUE(says({"past the end of memory"}));
  // A cl_mem is a driver's object: its address says nothing.
  desc.size = 16;
  native.kind = IRONCL_MEMORY_CL_MEM;
  native.handle = memory + 8;
  EXPECT_EQ(create(desc), IRONCL_UNIMPLEMENTED);
}

}  // namespace
}  // namespace ironcl::fake

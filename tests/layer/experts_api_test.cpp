// SPDX-License-Identifier: Apache-2.0
// The C door of layers of experts: what there is, what is refused, and the same bits as by the C++ classes.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "host/include/ironcl/checkpoint.hpp"
#include "host/layer/execution.h"
#include "tests/c_api.h"
#include "tests/layer/devices.h"
#include "tests/layer/experts_support.h"

namespace {

using namespace ironcl;

class ExpertsApi : public testing::Test {
 protected:
  ExpertsApi() {
    const std::string path = std::string(TEST_DATA) + "/experts/deepseek-v3";
    if (ironcl_checkpoint_open(path.c_str(), nullptr, &checkpoint, &error) != IRONCL_OK)
      throw std::runtime_error(error.message);
  }
  ~ExpertsApi() override { ironcl_checkpoint_close(checkpoint); }
  ironcl_checkpoint checkpoint = nullptr;
  ironcl_error error = sized<ironcl_error>();
};

TEST_F(ExpertsApi, SaysWhatThereIs) {
  ASSERT_EQ(ironcl_checkpoint_experts_count(checkpoint), 1u);
  auto info = sized<ironcl_experts_info>();
  ASSERT_EQ(ironcl_checkpoint_experts_info(checkpoint, 0, &info, &error), IRONCL_OK) << error.message;
  EXPECT_STREQ(info.name, "model.layers.0.mlp");
  EXPECT_STREQ(info.problem, "");
  EXPECT_EQ(info.experts, 8u);
  EXPECT_EQ(info.top_k, 2u);
  EXPECT_EQ(info.hidden, 160);
  EXPECT_EQ(info.width, 96);
  EXPECT_EQ(info.shared, 1u);
  EXPECT_EQ(ironcl_checkpoint_experts_info(checkpoint, 1, &info, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_EQ(ironcl_checkpoint_experts_count(nullptr), 0u);
}

TEST_F(ExpertsApi, RefusesWhatIsMissing) {
  ironcl_experts experts = nullptr;
  auto choices = sized<ironcl_experts_choices>();
  choices.tokens = 4;
  EXPECT_EQ(ironcl_experts_create(checkpoint, "model.layers.0.mlp", nullptr, nullptr, &choices, &experts, &error),
            IRONCL_INVALID_ARGUMENT);
  EXPECT_EQ(ironcl_experts_create(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &error),
            IRONCL_INVALID_ARGUMENT);
  EXPECT_EQ(ironcl_experts_enqueue(nullptr, nullptr, nullptr, nullptr, &error), IRONCL_INVALID_ARGUMENT);
  ironcl_experts_destroy(nullptr);
  EXPECT_EQ(experts, nullptr);
}

/// y of the example by checkpoint.hpp, whose checkpoint is closed before the call.
std::vector<std::byte> by_the_header(const Device& device, const layer::Example& example) {
  const std::string name = "model.layers.0.mlp";
  const auto make = [&](const std::string& layer) {
    const Checkpoint opened(std::string(TEST_DATA) + "/experts/deepseek-v3");
    return Experts(opened, layer, device, {.tokens = example.input.tokens, .y = IRONCL_F32});
  };
  EXPECT_THROW(make(name + "x"), Error);
  Experts made = make(name);
  Experts experts = std::move(made);
  Queue queue(device);
  const Buffer x(device, example.input.x.size()), y(device, example.y.size() * 4),
      ids(device, example.input.routed->ids.size() * 4), weights(device, example.input.routed->weights.size() * 4);
  queue.write(x, std::span(example.input.x));
  queue.write(ids, std::span(example.input.routed->ids));
  queue.write(weights, std::span(example.input.routed->weights));
  experts
      .enqueue(queue, {.tokens = example.input.tokens,
                       .routed = IRONCL_ROUTED_BY_CALLER,
                       .x = x,
                       .ids = ids,
                       .weights = weights,
                       .y = y})
      .wait();
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what it answers then is the question.
  EXPECT_THROW(made.enqueue(queue, {}), Error) << "moved from";
  std::vector<std::byte> got(y.size());
  queue.read(y, std::span(got)).wait();
  return got;
}

TEST_F(ExpertsApi, TheHeaderSaysWhatThereIs) {
  const Checkpoint opened(std::string(TEST_DATA) + "/experts/deepseek-v3");
  const std::vector<ExpertsInfo> all = opened.experts();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "model.layers.0.mlp");
  EXPECT_EQ(all[0].problem, "");
  EXPECT_EQ(all[0].experts, 8u);
  EXPECT_EQ(all[0].top_k, 2u);
  EXPECT_TRUE(all[0].shared);
  EXPECT_EQ(all[0].hidden, 160);
  EXPECT_EQ(all[0].width, 96);
  EXPECT_GT(all[0].bytes, 0u);
}

TEST_F(ExpertsApi, GivesTheBitsOfTheClasses) {
  const Registry registry = cli_test::real_plugins();
  std::size_t ran = 0;
  for (const Device& device : registry.devices()) {
    const layer::Example example("deepseek-v3", true);
    ironcl_experts experts = nullptr;
    auto choices = sized<ironcl_experts_choices>();
    EXPECT_EQ(ironcl_experts_create(checkpoint, "model.layers.0.mpl", &device.api(), device.handle(), &choices,
                                    &experts, &error),
              IRONCL_UNAVAILABLE);
    EXPECT_NE(std::string(error.message).find("model.layers.0.mlp"), std::string::npos) << error.message;
    EXPECT_EQ(ironcl_experts_create(checkpoint, "model.layers.0.mlp", &device.api(), device.handle(), &choices,
                                    &experts, &error),
              IRONCL_INVALID_ARGUMENT)
        << "0 tokens";
    choices.tokens = example.input.tokens;
    for (const std::uint32_t local : {0u, 8u}) {
      choices.first_expert = 1;
      choices.local_experts = local;
      EXPECT_EQ(ironcl_experts_create(checkpoint, "model.layers.0.mlp", &device.api(), device.handle(), &choices,
                                      &experts, &error),
                IRONCL_INVALID_ARGUMENT);
      EXPECT_NE(std::string(error.message).find("experts from 1 on"), std::string::npos) << error.message;
    }
    choices.first_expert = choices.local_experts = 0;
    choices.y_dtype = IRONCL_F32;
    const ironcl_status made = ironcl_experts_create(checkpoint, "model.layers.0.mlp", &device.api(), device.handle(),
                                                     &choices, &experts, &error);
    if (made == IRONCL_UNIMPLEMENTED || made == IRONCL_UNSUPPORTED) continue;
    ASSERT_EQ(made, IRONCL_OK) << error.message;
    ++ran;
    Queue queue(device);
    const Buffer x(device, example.input.x.size()), y(device, example.y.size() * 4);
    const Buffer ids(device, example.input.routed->ids.size() * 4),
        weights(device, example.input.routed->weights.size() * 4);
    queue.write(x.span(), std::span(example.input.x));
    queue.write(ids.span(), std::span(example.input.routed->ids));
    queue.write(weights.span(), std::span(example.input.routed->weights));
    auto args = sized<ironcl_experts_args>();
    args.tokens = example.input.tokens;
    args.routed = IRONCL_ROUTED_BY_CALLER;
    args.x = x;
    args.ids = ids;
    args.weights = weights;
    args.y = y;
    ironcl_event event = nullptr;
    ASSERT_EQ(ironcl_experts_enqueue(experts, queue.handle(), &args, &event, &error), IRONCL_OK) << error.message;
    ASSERT_EQ(device.api().event_wait(event, UINT64_MAX, &error), IRONCL_OK) << error.message;
    device.api().event_destroy(event);
    const bool counts = device.api().name == std::string("opencl");
    const auto launches = [&] { return counts ? std::stoll(device.query("launches")) : 0; };
    const auto before = launches();
    ASSERT_EQ(ironcl_experts_enqueue(experts, queue.handle(), &args, nullptr, &error), IRONCL_OK)
        << "without an event";
    std::vector<std::byte> got(y.size());
    queue.read(y.span(), std::span(got)).wait();
    const auto launched = launches() - before;
    ironcl_op op = nullptr;
    ASSERT_EQ(ironcl_experts_record(experts, &args, &op, &error), IRONCL_OK) << error.message;
    std::vector<std::byte> recorded(y.size());
    queue.write(y.span(), std::span<const std::byte>(recorded));
    queue.submit(Sequence(device, op), {});
    queue.read(y.span(), std::span(recorded)).wait();
    EXPECT_TRUE(recorded == got) << device.uri() << ": too small to become one launch";
    args.wait_count = 1, args.wait = &event;
    EXPECT_EQ(ironcl_experts_record(experts, &args, &op, &error), IRONCL_INVALID_ARGUMENT);
    args.wait_count = 0, args.tokens = 0;
    EXPECT_EQ(ironcl_experts_record(experts, &args, &op, &error), IRONCL_INVALID_ARGUMENT);
    args.tokens = 99;
    EXPECT_EQ(ironcl_experts_record(experts, &args, &op, &error), IRONCL_INVALID_ARGUMENT);
    EXPECT_EQ(ironcl_experts_enqueue(experts, queue.handle(), &args, nullptr, &error), IRONCL_INVALID_ARGUMENT);
    queue.finish();
    ironcl_experts_destroy(experts);
    EXPECT_TRUE(by_the_header(device, example) == got) << device.uri();
    layer::ExpertsChoices same{.tokens = example.input.tokens, .out = numerics::DType::f32};
    layer::Runner classes = layer::experts_on(device, *example.source, same);
    layer::Execution whole(device, classes, example.input);
    const auto first = launches();
    EXPECT_TRUE(whole.compute().d == got) << device.uri();
    EXPECT_EQ(launches() - first, launched) << device.uri();
  }
  if (ran == 0) GTEST_SKIP() << "no device runs a layer of experts";
}

/// The table of an older plugin is shorter, and one that was opened without a library may have no function
/// in a slot.
TEST_F(ExpertsApi, ATableWithHolesAnswersInPlaceOfEndingTheProcess) {
  const Registry registry = cli_test::real_plugins();
  ASSERT_FALSE(registry.devices().empty());
  const Device device = registry.devices().front();
  const auto create = [&](const ironcl_plugin& table, std::uint32_t reserved = 0) {
    ironcl_experts experts = nullptr;
    auto choices = sized<ironcl_experts_choices>();
    choices.tokens = 4;
    choices.reserved = reserved;
    const ironcl_status status =
        ironcl_experts_create(checkpoint, "model.layers.0.mlp", &table, device.handle(), &choices, &experts, &error);
    ironcl_experts_destroy(experts);
    return status;
  };
  ironcl_plugin older = device.api(), hollow = device.api(), next = device.api(), none{};
  older.struct_size = offsetof(ironcl_plugin, op_create);
  older.op_create = reinterpret_cast<decltype(older.op_create)>(1);  // what lies behind a shorter table
  hollow.op_create = nullptr;
  next.abi_major = IRONCL_ABI_MAJOR + 1;
  EXPECT_EQ(create(older), IRONCL_UNIMPLEMENTED) << error.message;
  EXPECT_EQ(create(hollow), IRONCL_UNIMPLEMENTED) << error.message;
  EXPECT_EQ(create(next), IRONCL_INCOMPATIBLE) << error.message;
  EXPECT_EQ(create(none), IRONCL_INVALID_ARGUMENT) << error.message;
  EXPECT_EQ(create(device.api(), 1), IRONCL_UNIMPLEMENTED) << error.message;
}

/// What a plugin's table does with a plan that is destroyed, and when.
struct Watched {
  inline static const ironcl_plugin* real = nullptr;
  inline static bool registry_is_gone = false;
  inline static int destroyed = 0, too_late = 0;
  static void op_destroy(ironcl_op gemm) {
    ++destroyed;
    if (registry_is_gone) ++too_late;
    real->op_destroy(gemm);
  }
};

TEST_F(ExpertsApi, GoBeforeTheirRegistryWhereOthersTakeTheirPlace) {
  const Registry registry = cli_test::real_plugins();
  const Checkpoint opened(std::string(TEST_DATA) + "/experts/deepseek-v3");
  for (const Device& device : registry.devices()) {
    const auto make = [&](const Device& on) { return Experts(opened, "model.layers.0.mlp", on, {.tokens = 2}); };
    std::optional<Experts> others;
    try {
      others = make(device);
    } catch (const Error&) {
      continue;  // Not every device runs such layers.
    }
    Watched::real = &device.api();
    ironcl_plugin table = device.api();
    table.op_destroy = Watched::op_destroy;
    std::shared_ptr<detail::RegistryOwner> owner(new detail::RegistryOwner, [](detail::RegistryOwner* last) {
      Watched::registry_is_gone = true;
      delete last;
    });
    Experts experts = make(Device(std::move(owner), &table, device.handle(), "watched"));
    EXPECT_FALSE(Watched::registry_is_gone);
    experts = std::move(*others);
    EXPECT_TRUE(Watched::registry_is_gone);
    EXPECT_GT(Watched::destroyed, 0);
    EXPECT_EQ(Watched::too_late, 0) << "plans of a device whose registry is gone";
    return;
  }
  GTEST_SKIP() << "no device runs a layer of experts";
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Group Struct: the rules by which structs grow (short ones, long ones, chains), and what a failing call leaves
// behind.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

/// `desc` followed by bytes that this version does not know, all `tail`.
template <class T>
struct Longer {
  T known;
  unsigned char unknown[24];
  Longer(const T& value, unsigned char tail) : known(value) {
    std::memset(unknown, tail, sizeof unknown);
    known.struct_size = sizeof(T) + sizeof unknown;
  }
};

/// `value` cut to `size` bytes; what lies behind is garbage that must not be read.
template <class T>
T shorter(const T& value, std::size_t size) {
  T out = value;
  std::memset(reinterpret_cast<unsigned char*>(&out) + size, 0xee, sizeof(T) - size);
  out.struct_size = static_cast<uint32_t>(size);
  return out;
}

/// That `call` takes an unknown tail of zeros and unknown parts of a chain, and refuses what it must know.
template <class T, class F>
void expect_grows(const T& good, F call) {
  const Longer<T> zero(good, 0), other(good, 1);
  EXPECT_EQ(call(zero.known), "OK") << "an unknown tail of zeros";
  EXPECT_EQ(call(other.known), "UNIMPLEMENTED") << "an unknown tail that is not zero";
  T chained = good;
  ironcl_chain part{sizeof(ironcl_chain), 0x7abc, nullptr};
  chained.next = &part;
  EXPECT_EQ(call(chained), "OK") << "an unknown part in the chain";
  part.type |= IRONCL_CHAIN_REQUIRED;
  EXPECT_EQ(call(chained), "UNIMPLEMENTED") << "an unknown required part in the chain";
}

struct Answer {
  ironcl_status supports, create;
  std::string text;
};

Answer ask(Context& c, const ironcl_gemm_desc* desc) {
  auto support = sized<ironcl_support>();
  Error one, two;
  Answer out{};
  out.supports = c.table.supports(c.device, desc, &support, &one);
  ironcl_op plan = nullptr;
  out.create = c.table.op_create(c.device, desc, &plan, &two);
  const Op owner(c.table, out.create == IRONCL_OK ? plan : nullptr);
  out.text = two.message;
  return out;
}

void expect_answer(const Answer& answer, ironcl_status want, const char* what) {
  EXPECT_EQ(status_name(answer.supports), status_name(want)) << "supports: " << what << ": " << answer.text;
  EXPECT_EQ(status_name(answer.create), status_name(want)) << "op_create: " << what << ": " << answer.text;
}

void desc_sizes(Context& c) {
  const ironcl_gemm_desc desc = base_problem().desc();
  const auto without_quantizers = shorter(desc, offsetof(ironcl_gemm_desc, a_quantizer));
  expect_answer(ask(c, &without_quantizers), IRONCL_OK, "a description that ends before a_quantizer");
  const auto without_d_scale = shorter(desc, offsetof(ironcl_gemm_desc, d_scale));
  expect_answer(ask(c, &without_d_scale), IRONCL_OK, "a description that ends before d_scale");
  const auto without_sizes = shorter(desc, offsetof(ironcl_gemm_desc, n));
  expect_answer(ask(c, &without_sizes), IRONCL_INVALID_ARGUMENT, "a description that ends before n");
  auto none = desc;
  none.struct_size = 0;
  expect_answer(ask(c, &none), IRONCL_INVALID_ARGUMENT, "a description with struct_size 0");
  expect_grows(desc, [&](const ironcl_gemm_desc& d) {
    const Answer answer = ask(c, &d);
    EXPECT_EQ(answer.supports, answer.create) << answer.text;
    return status_name(answer.create);
  });
}

void desc_unknown_values(Context& c) {
  const auto with = [&](auto change, const char* what) {
    ironcl_gemm_desc desc = base_problem().desc();
    change(desc);
    expect_answer(ask(c, &desc), IRONCL_UNIMPLEMENTED, what);
  };
  with([](auto& d) { d.flags = 1u << 30; }, "an unknown flag");
  with([](auto& d) { d.a_dtype = 77; }, "an unknown a_dtype");
  with([](auto& d) { d.d_dtype = 77; }, "an unknown d_dtype");
  with([](auto& d) { d.a_scale.dtype = 77; }, "an unknown a_scale.dtype");
  with([](auto& d) { d.a_quantizer.reserved = 1; }, "a reserved field that is not zero");
  with([](auto& d) { d.weakest_accuracy = 77; }, "an unknown weakest_accuracy");
  with([](auto& d) { d.grouping = 77; }, "an unknown grouping");
  with([](auto& d) { d.a_quantizer.scale_rounding = 77; }, "an unknown scale_rounding");
}

void unknown_plan_option(Context& c) {
  ironcl_gemm_desc desc = base_problem().desc();
  const ironcl_key_value item{"no_plan_has_this_option", "1"};
  ironcl_options options{};
  options.chain = {sizeof options, IRONCL_CHAIN_OPTIONS | IRONCL_CHAIN_REQUIRED, nullptr};
  options.count = 1, options.items = &item;
  desc.next = &options.chain;
  const Answer answer = ask(c, &desc);
  expect_answer(answer, IRONCL_INVALID_ARGUMENT, "an option that no plan has");
  EXPECT_NE(answer.text.find("no_plan_has_this_option"), std::string::npos)
      << "the message does not name the option: " << answer.text;
  options.count = 0;
  expect_answer(ask(c, &desc), IRONCL_OK, "no options");
}

void buffer_desc(Context& c) {
  const auto make = [&](const ironcl_buffer_desc& desc) {
    ironcl_buffer buffer = nullptr;
    Error error;
    const ironcl_status status = c.table.buffer_create(c.device, &desc, &buffer, &error);
    const Buffer owner(c.table, status == IRONCL_OK ? buffer : nullptr);
    return status_name(status);
  };
  auto desc = sized<ironcl_buffer_desc>();
  desc.size = 100;
  expect_grows(desc, make);
  desc.flags = 1u << 30;
  EXPECT_EQ(make(desc), "UNIMPLEMENTED") << "an unknown flag";
}

void args_sizes(Context& c) {
  Rig rig(c, base_problem());
  const auto call = [&](const ironcl_gemm_args& args) {
    ironcl_event event = nullptr;
    Error error;
    const ironcl_status status = rig.enqueue_raw(rig.queue(), args, &event, error);
    const Event owner(c.table, status == IRONCL_OK ? event : nullptr);
    if (status == IRONCL_OK) wait(c, event, "op_enqueue");
    return status_name(status);
  };
  rig.reset();
  EXPECT_EQ(call(shorter(rig.args(), offsetof(ironcl_gemm_args, d_scale))), "OK") << "arguments that end after d";
  rig.expect_right(rig.collect(rig.queue()));
  expect_grows(rig.args(), call);
}

void weights_desc(Context& c) {
  const std::vector<std::byte> data(128 * 128), scales(4);
  auto desc = sized<ironcl_weights_desc>();
  desc.dtype = IRONCL_F8_E4M3FN;
  desc.n = desc.k = 128;
  desc.scale = {IRONCL_F32, 128, 128, 0, 0, 0, 0};
  desc.data = data.data(), desc.data_bytes = data.size();
  desc.scales = scales.data(), desc.scale_bytes = scales.size();
  const auto prepare = [&](const ironcl_weights_desc& d) {
    ironcl_weights weights = nullptr;
    Error error;
    const ironcl_status status = c.table.weights_prepare(c.device, &d, &weights, &error);
    const Weights owner(c.table, status == IRONCL_OK ? weights : nullptr);
    return status_name(status);
  };
  EXPECT_EQ(prepare(desc), "OK");
  EXPECT_EQ(prepare(shorter(desc, offsetof(ironcl_weights_desc, plan))), "OK")
      << "a description that ends before plan";
  expect_grows(desc, prepare);
}

/// Calls `fill` with a T of `size` bytes inside a larger area of 0xd7; checks that nothing past them is written, that
/// struct_size stays and that what is written equals `whole`. A plugin of a newer minor version may know more than T.
template <class T, class F>
void expect_filled(Context& c, const T& whole, std::size_t size, const char* what, F fill) {
  alignas(T) unsigned char area[sizeof(T) + 64];
  std::memset(area, 0xd7, sizeof area);
  auto* value = reinterpret_cast<T*>(area);
  const auto stated = static_cast<uint32_t>(size);
  std::memcpy(area, &stated, sizeof stated);
  Error error;
  const ironcl_status status = fill(value, &error);
  EXPECT_EQ(status_name(status), "OK") << what << " with struct_size " << size << ": " << error.message;
  if (status != IRONCL_OK) return;
  std::uint32_t kept = 0;
  std::memcpy(&kept, area, sizeof kept);
  EXPECT_EQ(kept, stated) << what << ": struct_size is the caller's";
  const std::size_t known = std::min(size, sizeof(T));
  for (std::size_t i = c.table.abi_minor > IRONCL_ABI_MINOR ? size : known; i < sizeof area; ++i) {
    if (area[i] == 0xd7) continue;
    ADD_FAILURE() << what << ": byte " << i << " was written, past the " << size << " bytes that the caller has";
    return;
  }
  if (size > sizeof(T)) return;
  EXPECT_EQ(std::memcmp(area + 4, reinterpret_cast<const unsigned char*>(&whole) + 4, known - 4), 0)
      << what << ": a short struct gets other contents";
}

void filled_structs(Context& c) {
  const ironcl_device_props props = props_of(c);
  const auto fill = [&](ironcl_device_props* out, ironcl_error* e) { return c.table.device_props(c.device, out, e); };
  for (const std::size_t size :
       {std::size_t{16}, offsetof(ironcl_device_props, name) + 8, sizeof props, sizeof props + 32}) {
    expect_filled(c, props, size, "device_props", fill);
  }
}

void filled_gemm_structs(Context& c) {
  Rig rig(c, base_problem());
  const ironcl_op_info info = info_of(c, rig.plan());
  const ironcl_gemm_desc desc = rig.problem().desc();
  auto support = sized<ironcl_support>();
  auto weights = sized<ironcl_weights_info>();
  Error error;
  require(c.table.supports(c.device, &desc, &support, &error), error, "supports");
  require(c.table.weights_info(rig.weights(), &weights, &error), error, "weights_info");
  EXPECT_EQ(support.accuracy_class, info.accuracy_class) << "supports() and op_info name different classes";
  EXPECT_EQ(info.accuracy_class, unsigned{IRONCL_ACCURACY_F32}) << "a weaker class was not allowed";
  EXPECT_NE(info.variant[0], '\0') << "the kernel has no name";
  const auto filled = [&](const auto& whole, const char* what, auto fill) {
    for (const std::size_t size : {std::size_t{16}, sizeof whole, sizeof whole + 24})
      expect_filled(c, whole, size, what, fill);
  };
  filled(info, "op_info", [&](auto* out, ironcl_error* e) { return c.table.op_info(rig.plan(), out, e); });
  filled(support, "supports", [&](auto* out, ironcl_error* e) { return c.table.supports(c.device, &desc, out, e); });
  filled(weights, "weights_info",
         [&](auto* out, ironcl_error* e) { return c.table.weights_info(rig.weights(), out, e); });
}

/// device_props of no device fails everywhere: what does it leave in the error?
void errors(Context& c) {
  auto props = sized<ironcl_device_props>();
  Error whole;
  const ironcl_status status = c.table.device_props(nullptr, &props, &whole);
  ASSERT_NE(status, unsigned{IRONCL_OK});
  EXPECT_EQ(whole.status, status) << "error.status is the returned status";
  EXPECT_EQ(whole.struct_size, sizeof(ironcl_error));
  const std::string text(whole.message, strnlen(whole.message, sizeof whole.message));
  EXPECT_FALSE(text.empty()) << "a refusal has a text";
  EXPECT_LT(text.size(), sizeof whole.message) << "the text is not terminated";

  constexpr std::size_t kHead = offsetof(ironcl_error, message);
  for (const std::size_t room : {std::size_t{1}, std::size_t{7}, sizeof whole.message, sizeof whole.message + 16}) {
    alignas(ironcl_error) unsigned char area[sizeof(ironcl_error) + 64];
    std::memset(area, 0xd7, sizeof area);
    auto* error = reinterpret_cast<ironcl_error*>(area);
    const auto stated = static_cast<uint32_t>(kHead + room);
    std::memcpy(area, &stated, 4);
    EXPECT_EQ(c.table.device_props(nullptr, &props, error), status);
    const std::size_t known = std::min(kHead + room, sizeof(ironcl_error));
    for (std::size_t i = known; i < sizeof area; ++i) {
      ASSERT_EQ(area[i], 0xd7) << "byte " << i << " of an error of " << stated << " bytes was written";
    }
    const char* message = reinterpret_cast<const char*>(area) + kHead;
    const std::size_t length = strnlen(message, known - kHead);
    EXPECT_LT(length, known - kHead) << "a cut text is terminated (room for " << room << ")";
    EXPECT_EQ(std::string(message, length), text.substr(0, known - kHead - 1));
  }
  EXPECT_EQ(c.table.device_props(nullptr, &props, nullptr), status) << "error may be NULL";

  Error untouched;
  untouched.status = 99;
  std::strcpy(untouched.message, "as it was");
  require(c.table.device_props(c.device, &props, &untouched), untouched, "device_props");
  EXPECT_EQ(untouched.status, 99u) << "an error is filled on failure only";
  EXPECT_STREQ(untouched.message, "as it was") << "an error is filled on failure only";
}

template <class H>
H sentinel() {
  return reinterpret_cast<H>(static_cast<std::uintptr_t>(0x5e5e5e5e));
}

void untouched_on_failure(Context& c) {
  Error error;
  ironcl_device_props props;
  std::memset(&props, 0x3c, sizeof props);
  props.struct_size = sizeof props;
  const ironcl_device_props before = props;
  EXPECT_NE(c.table.device_props(nullptr, &props, &error), unsigned{IRONCL_OK});
  EXPECT_EQ(std::memcmp(&props, &before, sizeof props), 0) << "device_props wrote although it failed";
}

void handles_untouched_on_failure(Context& c) {
  Error error;
  auto queue = sentinel<ironcl_queue>();
  EXPECT_NE(c.table.queue_create(nullptr, 0, &queue, &error), unsigned{IRONCL_OK});
  EXPECT_EQ(queue, sentinel<ironcl_queue>()) << "queue_create wrote although it failed";
  EXPECT_NE(c.table.queue_create(c.device, 1u << 30, &queue, &error), unsigned{IRONCL_OK}) << "an unknown flag";
  EXPECT_EQ(queue, sentinel<ironcl_queue>()) << "queue_create wrote although it failed";
  ironcl_buffer_desc desc{};
  desc.struct_size = sizeof desc;  // size 0
  auto buffer = sentinel<ironcl_buffer>();
  EXPECT_EQ(status_name(c.table.buffer_create(c.device, &desc, &buffer, &error)), "INVALID_ARGUMENT") << "size 0";
  EXPECT_EQ(buffer, sentinel<ironcl_buffer>()) << "buffer_create wrote although it failed";
  desc.size = std::uint64_t{1} << 62;
  const ironcl_status status = c.table.buffer_create(c.device, &desc, &buffer, &error);
  EXPECT_TRUE(status == IRONCL_OUT_OF_DEVICE_MEMORY || status == IRONCL_OUT_OF_HOST_MEMORY ||
              status == IRONCL_UNSUPPORTED || status == IRONCL_INVALID_ARGUMENT)
      << "a buffer of 2^62 bytes: " << status_name(status);
  EXPECT_EQ(buffer, sentinel<ironcl_buffer>()) << "buffer_create wrote although it failed";
}

void plans_untouched_on_failure(Context& c) {
  Error error;
  ironcl_gemm_desc desc = base_problem().desc();
  desc.n = -1;
  auto plan = sentinel<ironcl_op>();
  EXPECT_NE(c.table.op_create(c.device, &desc, &plan, &error), unsigned{IRONCL_OK});
  EXPECT_EQ(plan, sentinel<ironcl_op>()) << "op_create wrote although it failed";
  ironcl_support support;
  std::memset(&support, 0x3c, sizeof support);
  support.struct_size = sizeof support;
  const ironcl_support before = support;
  EXPECT_NE(c.table.supports(c.device, &desc, &support, &error), unsigned{IRONCL_OK});
  EXPECT_EQ(std::memcmp(&support, &before, sizeof support), 0) << "supports wrote although it failed";
  auto weights_desc = sized<ironcl_weights_desc>();
  auto weights = sentinel<ironcl_weights>();
  EXPECT_NE(c.table.weights_prepare(c.device, &weights_desc, &weights, &error), unsigned{IRONCL_OK});
  EXPECT_EQ(weights, sentinel<ironcl_weights>()) << "weights_prepare wrote although it failed";
  Rig rig(c, base_problem());
  ironcl_gemm_args args = rig.args();
  args.m = -1;
  auto event = sentinel<ironcl_event>();
  EXPECT_NE(rig.enqueue_raw(rig.queue(), args, &event, error), unsigned{IRONCL_OK});
  EXPECT_EQ(event, sentinel<ironcl_event>()) << "op_enqueue wrote although it failed";
}

}  // namespace

void add_struct_tests(Suite& suite) {
  suite.add("Struct", "DescriptionsMayBeShortOrLong", Needs::gemm, desc_sizes);
  suite.add("Struct", "UnknownValuesAreUnimplemented", Needs::gemm, desc_unknown_values);
  suite.add("Struct", "UnknownOptionsOfAPlanAreNamed", Needs::gemm, unknown_plan_option);
  suite.add("Struct", "ArgumentsMayBeShortOrLong", Needs::gemm, args_sizes);
  suite.add("Struct", "WeightsMayBeShortOrLong", Needs::gemm, weights_desc);
  suite.add("Struct", "BuffersMayBeLong", Needs::memory, buffer_desc);
  suite.add("Struct", "FilledStructsKeepToTheirSize", Needs::devices, filled_structs);
  suite.add("Struct", "FilledPlanStructsKeepToTheirSize", Needs::gemm, filled_gemm_structs);
  suite.add("Struct", "ErrorsAreFilledAndCut", Needs::devices, errors);
  suite.add("Struct", "PropertiesAreUntouchedOnFailure", Needs::devices, untouched_on_failure);
  suite.add("Struct", "HandlesAreUntouchedOnFailure", Needs::memory, handles_untouched_on_failure);
  suite.add("Struct", "PlansAndEventsAreUntouchedOnFailure", Needs::gemm, plans_untouched_on_failure);
}

}  // namespace ironcl::conformance

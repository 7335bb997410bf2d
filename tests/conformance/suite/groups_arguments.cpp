// SPDX-License-Identifier: Apache-2.0
// Groups Argument (descriptions) and Call (op_enqueue, write, read): what breaks a rule of plugin.h is
// INVALID_ARGUMENT with a text that names the operand, and changes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

/// What makes a description or arguments wrong, and a word that the text must have.
template <class T>
struct WrongBy {
  const char* what;
  const char* word;
  void (*change)(T&);
};

constexpr WrongBy<ironcl_gemm_desc> kWrongPlans[] = {
    {"a negative m", "m", [](auto& d) { d.m = -1; }},
    {"n of 0", "n", [](auto& d) { d.n = 0; }},
    {"a negative n", "n", [](auto& d) { d.n = -5; }},
    {"k of 0", "k", [](auto& d) { d.k = 0; }},
    {"a negative k", "k", [](auto& d) { d.k = std::numeric_limits<int64_t>::min(); }},
    {"an m of 2^31", "m", [](auto& d) { d.m = int64_t{1} << 31; }},
    {"an m of 2^31 - 1 with a k of 2^40", "k", [](auto& d) { d.m = (int64_t{1} << 31) - 1, d.k = int64_t{1} << 40; }},
    {"an lda under k", "lda", [](auto& d) { d.lda = d.k - 1; }},
    {"a negative lda", "lda", [](auto& d) { d.lda = -d.k; }},
    {"an ldd under n", "ldd", [](auto& d) { d.ldd = d.n - 1; }},
    {"an lda with which A ends beyond 2^63", "A",
     [](auto& d) { d.m = 1 << 20, d.lda = std::numeric_limits<int64_t>::max() / 2; }},
    {"no b_dtype", "b_dtype", [](auto& d) { d.b_dtype = IRONCL_DTYPE_NONE; }},
    {"no d_dtype", "d_dtype", [](auto& d) { d.d_dtype = IRONCL_DTYPE_NONE; }},
    {"an a_source_dtype of fp8", "a_source_dtype",
     [](auto& d) { d.a_source_dtype = IRONCL_F8_E4M3FN, d.a_scale.ld = 0; }},
    {"scales of i8", "a_scale", [](auto& d) { d.a_scale.dtype = IRONCL_I8; }},
    {"a scale ld that is too short", "a_scale", [](auto& d) { d.a_scale.ld = 1; }},
    {"an ld of b_scale, which is the weights'", "b_scale", [](auto& d) { d.b_scale.ld = 100; }},
    {"a negative amax_floor", "amax_floor", [](auto& d) { d.a_quantizer.amax_floor = -1; }},
    {"a NaN amax_floor", "amax_floor",
     [](auto& d) { d.a_quantizer.amax_floor = std::numeric_limits<float>::quiet_NaN(); }},
    {"a matrices without grouping", "matrices", [](auto& d) { d.matrices = 3; }},
};

void wrong_plans(Context& c) {
  make_plan(c, base_problem().desc());
  for (const auto& wrong : kWrongPlans) {
    ironcl_gemm_desc desc = base_problem().desc();
    wrong.change(desc);
    expect_refused(c, &desc, IRONCL_INVALID_ARGUMENT, wrong.word, wrong.what);
  }
}

void expect_invalid(ironcl_status status, const Error& error, const char* what) {
  EXPECT_EQ(status_name(status), "INVALID_ARGUMENT") << what << ": " << error.message;
  EXPECT_NE(std::string(error.message), "") << what;
}

void null_handles(Context& c) {
  const ironcl_gemm_desc desc = base_problem().desc();
  auto support = sized<ironcl_support>();
  ironcl_op plan = nullptr;
  Error e;
  expect_invalid(c.table.supports(nullptr, &desc, &support, &e), e, "supports without a device");
  expect_invalid(c.table.supports(c.device, nullptr, &support, &e), e, "supports without a description");
  expect_invalid(c.table.supports(c.device, &desc, nullptr, &e), e, "supports without an answer");
  expect_invalid(c.table.op_create(nullptr, &desc, &plan, &e), e, "op_create without a device");
  expect_invalid(c.table.op_create(c.device, nullptr, &plan, &e), e, "op_create without a description");
  expect_invalid(c.table.op_create(c.device, &desc, nullptr, &e), e, "op_create without out_gemm");
  auto info = sized<ironcl_op_info>();
  expect_invalid(c.table.op_info(nullptr, &info, &e), e, "op_info without a plan");
  ironcl_weights weights = nullptr;
  expect_invalid(c.table.weights_prepare(c.device, nullptr, &weights, &e), e,
                 "weights_prepare without a description");
  auto weights_info = sized<ironcl_weights_info>();
  expect_invalid(c.table.weights_export(nullptr, &info, 1, &info, 1, &e), e, "weights_export without weights");
  expect_invalid(c.table.weights_info(nullptr, &weights_info, &e), e, "weights_info without weights");
}

void null_memory(Context& c) {
  Error e;
  ironcl_queue queue = nullptr;
  ironcl_buffer buffer = nullptr;
  expect_invalid(c.table.queue_create(nullptr, 0, &queue, &e), e, "queue_create without a device");
  expect_invalid(c.table.queue_create(c.device, 0, nullptr, &e), e, "queue_create without out_queue");
  expect_invalid(c.table.queue_finish(nullptr, &e), e, "queue_finish without a queue");
  expect_invalid(c.table.buffer_create(c.device, nullptr, &buffer, &e), e, "buffer_create without a description");
  char text[8];
  std::uint64_t size = 0;
  expect_invalid(c.table.device_query(nullptr, "features", nullptr, text, 8, &size, &e), e,
                 "device_query: no device");
  expect_invalid(c.table.device_query(c.device, nullptr, nullptr, text, 8, &size, &e), e, "device_query: no key");
  expect_invalid(c.table.device_query(c.device, "features", nullptr, text, 8, nullptr, &e), e,
                 "device_query: no size");
  auto profile = sized<ironcl_event_profile>();
  expect_invalid(c.table.event_profile(nullptr, &profile, &e), e, "event_profile without an event");
  expect_invalid(c.table.event_wait(nullptr, 0, &e), e, "event_wait without an event");
  const Queue owner = make_queue(c);
  expect_invalid(c.table.queue_wait(owner.get(), nullptr, &e), e, "queue_wait without an event");
}

constexpr WrongBy<ironcl_weights_desc> kWrongWeights[] = {
    {"no data", "data", [](auto& d) { d.data = nullptr; }},
    {"a byte too little data", "data_bytes", [](auto& d) { d.data_bytes -= 1; }},
    {"no scales", "scales", [](auto& d) { d.scales = nullptr; }},
    {"a byte too little of scales", "scale_bytes", [](auto& d) { d.scale_bytes -= 1; }},
    {"an ld under k", "ld", [](auto& d) { d.ld = d.k - 1; }},
    {"n of 0", "n", [](auto& d) { d.n = 0; }},
    {"a negative k", "k", [](auto& d) { d.k = -1; }},
    {"an n that the data do not have", "data_bytes", [](auto& d) { d.n = (int64_t{1} << 31) - 1; }},
};

void wrong_weights(Context& c) {
  const std::vector<std::byte> data(130 * 140), scales(4 * 2 * 2);
  for (const auto& wrong : kWrongWeights) {
    auto desc = sized<ironcl_weights_desc>();
    desc.dtype = IRONCL_F8_E4M3FN;
    desc.n = 130, desc.k = 140;
    desc.scale = {IRONCL_F32, 128, 128, 0, 0, 0, 0};
    desc.data = data.data(), desc.data_bytes = data.size();
    desc.scales = scales.data(), desc.scale_bytes = scales.size();
    wrong.change(desc);
    ironcl_weights weights = nullptr;
    Error error;
    const ironcl_status status = c.table.weights_prepare(c.device, &desc, &weights, &error);
    const Weights owner(c.table, status == IRONCL_OK ? weights : nullptr);
    EXPECT_EQ(status_name(status), "INVALID_ARGUMENT") << wrong.what << ": " << error.message;
    if (status == IRONCL_INVALID_ARGUMENT) {
      EXPECT_TRUE(has_word(error.message, wrong.word))
          << wrong.what << ": the message does not name " << wrong.word << ": " << error.message;
    }
  }
}

void weights_of_another_plan(Context& c) {
  Problem p = base_problem();
  const Op plan = make_plan(c, p.desc());
  p.n += 1;
  Operands operands = make_operands(p);
  Random random(c.seed);
  fill_exact(p, random, operands);
  EXPECT_THROW(make_weights(c, p, operands, plan.get()), Failed) << "weights of another n were prepared for a plan";
}

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max() - 7;

constexpr WrongBy<ironcl_gemm_args> kWrongCalls[] = {
    {"more rows than planned", "m", [](auto& a) { a.m += 1; }},
    {"negative rows", "m", [](auto& a) { a.m = -1; }},
    {"no weights", "weights", [](auto& a) { a.weights = nullptr; }},
    {"no A", "a", [](auto& a) { a.a = {}; }},
    {"no scales of A", "a_scale", [](auto& a) { a.a_scale = {}; }},
    {"no D", "d", [](auto& a) { a.d = {}; }},
    {"an A that is a byte short", "a", [](auto& a) { a.a.size -= 1; }},
    {"scales of A that are a byte short", "a_scale", [](auto& a) { a.a_scale.size -= 1; }},
    {"a D that is a byte short", "d", [](auto& a) { a.d.size -= 1; }},
    {"a D that ends past its buffer", "d", [](auto& a) { a.d.offset += 4096; }},
    {"an A whose offset and size wrap", "a", [](auto& a) { a.a.offset = kHuge; }},
    {"a D that is far too large for its buffer", "d", [](auto& a) { a.d.size = kHuge; }},
    {"a D inside A", "d", [](auto& a) { a.d.buffer = a.a.buffer, a.d.offset = 0, a.d.size = a.a.size; }},
    {"a bias inside D", "bias", [](auto& a) { a.bias.buffer = a.d.buffer, a.bias.offset = a.d.offset; }},
    {"scales of A inside D", "a_scale",
     [](auto& a) { a.a_scale.buffer = a.d.buffer, a.a_scale.offset = a.d.offset; }},
    {"a wait list without events", "wait", [](auto& a) { a.wait_count = 1, a.wait = nullptr; }},
};

/// A Problem whose A could hold D: so that only the overlap is wrong in "a D inside A".
Problem roomy() {
  Problem p = base_problem();
  p.n = 40, p.k = 400, p.bias = DType::f32;
  return p;
}

void wrong_calls(Context& c) {
  Rig rig(c, roomy());
  rig.reset();
  for (const auto& wrong : kWrongCalls) {
    ironcl_gemm_args args = rig.args();
    wrong.change(args);
    expect_call_refused(c, rig.plan(), rig.queue(), &args, wrong.word, wrong.what);
  }
  Error error;
  ironcl_event event = nullptr;
  const ironcl_event nothing = nullptr;
  ironcl_gemm_args args = rig.args();
  args.wait = &nothing, args.wait_count = 1;
  EXPECT_EQ(status_name(rig.enqueue_raw(rig.queue(), args, &event, error)), "INVALID_ARGUMENT")
      << "a NULL event in the wait list: " << error.message;
  args = rig.args();
  EXPECT_EQ(status_name(rig.enqueue_raw(nullptr, args, &event, error)), "INVALID_ARGUMENT")
      << "no queue: " << error.message;
  EXPECT_EQ(status_name(c.table.op_enqueue(nullptr, rig.queue(), &args, &event, &error)), "INVALID_ARGUMENT")
      << "no plan: " << error.message;
  EXPECT_EQ(status_name(c.table.op_enqueue(rig.plan(), rig.queue(), nullptr, &event, &error)), "INVALID_ARGUMENT")
      << "no arguments: " << error.message;
  // After all these the plan still works, and nothing was written on the way.
  rig.expect_right(rig.call());
}

void weights_of_another_shape(Context& c) {
  Rig rig(c, base_problem());
  Problem other = base_problem();
  for (int which = 0; which < 2; ++which) {
    Problem q = other;
    (which == 0 ? q.n : q.k) += 1;
    Rig source(c, q, RigOptions{.weights_for_plan = false});
    ironcl_gemm_args args = rig.args();
    args.weights = source.weights();
    expect_call_refused(c, rig.plan(), rig.queue(), &args, "weights", which == 0 ? "of another n" : "of another k");
  }
}

void misaligned_spans(Context& c) {
  Rig rig(c, base_problem());
  const ironcl_device_props props = props_of(c);
  ironcl_gemm_args args = rig.args();
  args.d.offset += std::max<std::uint64_t>(props.buffer_alignment / 2, 1);
  args.d.offset |= 1;  // also no multiple of the element's size
  args.d.size = rig.d_span().size;
  expect_call_refused(c, rig.plan(), rig.queue(), &args, "d");
}

void wrong_transfers(Context& c) {
  const Queue queue = make_queue(c);
  const Buffer buffer = make_buffer(c, 100);
  std::vector<std::byte> host(100, std::byte{1});
  Error e;
  upload(c, queue.get(), buffer.get(), 0, host);
  const auto write = [&](ironcl_queue q, ironcl_span span, const void* src, std::uint32_t semantics) {
    return status_name(c.table.write(q, span, src, semantics, nullptr, &e));
  };
  const auto read = [&](ironcl_queue q, ironcl_span span, void* dst) {
    return status_name(c.table.read(q, span, dst, nullptr, &e));
  };
  const ironcl_span good{buffer.get(), 0, 100};
  const ironcl_span bad[] = {{buffer.get(), 1, 100}, {buffer.get(), kHuge, 100}, {buffer.get(), 0, kHuge},
                             {buffer.get(), 101, 1}, {buffer.get(), 0, 0},       {nullptr, 0, 10}};
  for (const auto& span : bad) {
    SCOPED_TRACE(fmt::format("span of {} bytes from {} of a buffer of 100", span.size, span.offset));
    EXPECT_EQ(write(queue.get(), span, host.data(), IRONCL_HOST_COPIED_BEFORE_RETURN), "INVALID_ARGUMENT")
        << e.message;
    EXPECT_EQ(read(queue.get(), span, host.data()), "INVALID_ARGUMENT") << e.message;
  }
  EXPECT_EQ(write(queue.get(), good, nullptr, IRONCL_HOST_COPIED_BEFORE_RETURN), "INVALID_ARGUMENT") << "no source";
  EXPECT_EQ(read(queue.get(), good, nullptr), "INVALID_ARGUMENT") << "no destination";
  EXPECT_EQ(write(nullptr, good, host.data(), IRONCL_HOST_COPIED_BEFORE_RETURN), "INVALID_ARGUMENT") << "no queue";
  EXPECT_EQ(read(nullptr, good, host.data()), "INVALID_ARGUMENT") << "no queue";
  EXPECT_EQ(write(queue.get(), good, host.data(), 77), "UNIMPLEMENTED") << "unknown host semantics";
  EXPECT_EQ(download(c, queue.get(), buffer.get(), 0, 100), host) << "a refused write changed the buffer";
}

}  // namespace

void add_argument_tests(Suite& suite) {
  suite.add("Argument", "WrongDescriptionsAreNamed", Needs::gemm, wrong_plans);
  suite.add("Argument", "NullIsRefused", Needs::gemm, null_handles);
  suite.add("Argument", "NullQueuesAndBuffersAreRefused", Needs::memory, null_memory);
  suite.add("Argument", "WrongWeightsAreNamed", Needs::gemm, wrong_weights);
  suite.add("Argument", "WeightsOfAnotherShapeThanThePlans", Needs::gemm, weights_of_another_plan);
  suite.add("Call", "WrongCallsAreNamed", Needs::gemm, wrong_calls);
  suite.add("Call", "WeightsOfAnotherShapeAreRefused", Needs::gemm, weights_of_another_shape);
  suite.add("Call", "MisalignedSpansAreRefused", Needs::gemm, misaligned_spans);
  suite.add("Call", "WrongTransfersAreRefused", Needs::memory, wrong_transfers);
}

}  // namespace ironcl::conformance

// SPDX-License-Identifier: Apache-2.0
// Group Call: wrong calls of op_enqueue, write and read are INVALID_ARGUMENT with a text that names the operand,
// and change nothing.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

struct Wrong {
  const char* what;
  const char* word;
  void (*change)(ironcl_gemm_args&);
};

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max() - 7;

constexpr Wrong kWrongCalls[] = {
    {"more rows than planned", "m", [](ironcl_gemm_args& a) { a.m += 1; }},
    {"negative rows", "m", [](ironcl_gemm_args& a) { a.m = -1; }},
    {"no weights", "weights", [](ironcl_gemm_args& a) { a.weights = nullptr; }},
    {"no A", "a", [](ironcl_gemm_args& a) { a.a = {}; }},
    {"no scales of A", "a_scale", [](ironcl_gemm_args& a) { a.a_scale = {}; }},
    {"no D", "d", [](ironcl_gemm_args& a) { a.d = {}; }},
    {"an A that is a byte short", "a", [](ironcl_gemm_args& a) { a.a.size -= 1; }},
    {"scales of A that are a byte short", "a_scale", [](ironcl_gemm_args& a) { a.a_scale.size -= 1; }},
    {"a D that is a byte short", "d", [](ironcl_gemm_args& a) { a.d.size -= 1; }},
    {"a D that ends past its buffer", "d", [](ironcl_gemm_args& a) { a.d.offset += 4096; }},
    {"an A whose offset and size wrap", "a", [](ironcl_gemm_args& a) { a.a.offset = kHuge; }},
    {"a D that is far too large for its buffer", "d", [](ironcl_gemm_args& a) { a.d.size = kHuge; }},
    {"a D inside A", "d", [](ironcl_gemm_args& a) { a.d.buffer = a.a.buffer, a.d.offset = 0, a.d.size = a.a.size; }},
    {"a bias inside D", "bias", [](ironcl_gemm_args& a) { a.bias.buffer = a.d.buffer, a.bias.offset = a.d.offset; }},
    {"scales of A inside D", "a_scale",
     [](ironcl_gemm_args& a) { a.a_scale.buffer = a.d.buffer, a.a_scale.offset = a.d.offset; }},
    {"a wait list without events", "wait", [](ironcl_gemm_args& a) { a.wait_count = 1, a.wait = nullptr; }},
};

bool has_word(const std::string& text, const std::string& word) {
  const auto is_letter = [](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) != 0 || ch == '_'; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

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
    ironcl_event event = nullptr;
    Error error;
    const ironcl_status status = rig.enqueue_raw(rig.queue(), args, &event, error);
    const Event owner(c.table, status == IRONCL_OK ? event : nullptr);
    EXPECT_EQ(status_name(status), "INVALID_ARGUMENT") << wrong.what << ": " << error.message;
    if (status == IRONCL_INVALID_ARGUMENT) {
      EXPECT_TRUE(has_word(error.message, wrong.word))
          << wrong.what << ": the message does not name " << wrong.word << ": " << error.message;
    }
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
    Error error;
    ironcl_event event = nullptr;
    const ironcl_status status = rig.enqueue_raw(rig.queue(), args, &event, error);
    const Event owner(c.table, status == IRONCL_OK ? event : nullptr);
    EXPECT_EQ(status_name(status), "INVALID_ARGUMENT")
        << "weights of another " << (which == 0 ? "n" : "k") << ": " << error.message;
    EXPECT_TRUE(status == IRONCL_OK || has_word(error.message, "weights")) << error.message;
  }
}

void misaligned_spans(Context& c) {
  Rig rig(c, base_problem());
  const ironcl_device_props props = props_of(c);
  ironcl_gemm_args args = rig.args();
  args.d.offset += std::max<std::uint64_t>(props.buffer_alignment / 2, 1);
  args.d.offset |= 1;  // also no multiple of the element's size
  args.d.size = rig.d_span().size;
  Error error;
  ironcl_event event = nullptr;
  const ironcl_status status = rig.enqueue_raw(rig.queue(), args, &event, error);
  const Event owner(c.table, status == IRONCL_OK ? event : nullptr);
  EXPECT_EQ(status_name(status), "INVALID_ARGUMENT") << "a D at offset " << args.d.offset << ": " << error.message;
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

void add_call_tests(Suite& suite) {
  suite.add("Call", "WrongCallsAreNamed", Needs::gemm, wrong_calls);
  suite.add("Call", "WeightsOfAnotherShapeAreRefused", Needs::gemm, weights_of_another_shape);
  suite.add("Call", "MisalignedSpansAreRefused", Needs::gemm, misaligned_spans);
  suite.add("Call", "WrongTransfersAreRefused", Needs::memory, wrong_transfers);
}

}  // namespace ironcl::conformance

// SPDX-License-Identifier: Apache-2.0
// Group Argument: what breaks a rule of plugin.h is INVALID_ARGUMENT with a text that names the operand. Descriptions
// here; calls in groups_calls.cpp.
#include <fmt/format.h>

#include <limits>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

struct Wrong {
  const char* what;
  const char* word;  ///< The text must have it.
  void (*change)(ironcl_gemm_desc&);
};

constexpr Wrong kWrongPlans[] = {
    {"a negative m", "m", [](ironcl_gemm_desc& d) { d.m = -1; }},
    {"n of 0", "n", [](ironcl_gemm_desc& d) { d.n = 0; }},
    {"a negative n", "n", [](ironcl_gemm_desc& d) { d.n = -5; }},
    {"k of 0", "k", [](ironcl_gemm_desc& d) { d.k = 0; }},
    {"a negative k", "k", [](ironcl_gemm_desc& d) { d.k = std::numeric_limits<int64_t>::min(); }},
    {"an m of 2^31", "m", [](ironcl_gemm_desc& d) { d.m = int64_t{1} << 31; }},
    {"an m of 2^31 - 1 with a k of 2^40", "k",
     [](ironcl_gemm_desc& d) { d.m = (int64_t{1} << 31) - 1, d.k = int64_t{1} << 40; }},
    {"an lda under k", "lda", [](ironcl_gemm_desc& d) { d.lda = d.k - 1; }},
    {"a negative lda", "lda", [](ironcl_gemm_desc& d) { d.lda = -d.k; }},
    {"an ldd under n", "ldd", [](ironcl_gemm_desc& d) { d.ldd = d.n - 1; }},
    {"an lda with which A ends beyond 2^63", "A",
     [](ironcl_gemm_desc& d) { d.m = 1 << 20, d.lda = std::numeric_limits<int64_t>::max() / 2; }},
    {"no b_dtype", "b_dtype", [](ironcl_gemm_desc& d) { d.b_dtype = IRONCL_DTYPE_NONE; }},
    {"no d_dtype", "d_dtype", [](ironcl_gemm_desc& d) { d.d_dtype = IRONCL_DTYPE_NONE; }},
    {"an a_source_dtype of fp8", "a_source_dtype",
     [](ironcl_gemm_desc& d) { d.a_source_dtype = IRONCL_F8_E4M3FN, d.a_scale.ld = 0; }},
    {"scales of i8", "a_scale", [](ironcl_gemm_desc& d) { d.a_scale.dtype = IRONCL_I8; }},
    {"a scale ld that is too short", "a_scale", [](ironcl_gemm_desc& d) { d.a_scale.ld = 1; }},
    {"an ld of b_scale, which is the weights'", "b_scale", [](ironcl_gemm_desc& d) { d.b_scale.ld = 100; }},
    {"a negative amax_floor", "amax_floor", [](ironcl_gemm_desc& d) { d.a_quantizer.amax_floor = -1; }},
    {"a NaN amax_floor", "amax_floor",
     [](ironcl_gemm_desc& d) { d.a_quantizer.amax_floor = std::numeric_limits<float>::quiet_NaN(); }},
    {"a matrices without grouping", "matrices", [](ironcl_gemm_desc& d) { d.matrices = 3; }},
};

/// True where `text` has `word` as a word of its own (m, k) or as part of a path (gemm_desc.k, a_scale.ld).
bool names(const std::string& text, const std::string& word) {
  const auto is_letter = [](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) != 0 || ch == '_'; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !is_letter(text[at - 1]);
    const std::size_t end = at + word.size();
    if (starts && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

void wrong_plans(Context& c) {
  make_plan(c, base_problem().desc());
  for (const auto& wrong : kWrongPlans) {
    ironcl_gemm_desc desc = base_problem().desc();
    wrong.change(desc);
    ironcl_support support{};
    support.struct_size = sizeof support;
    ironcl_op plan = nullptr;
    Error asked, made;
    EXPECT_EQ(status_name(c.table.supports(c.device, &desc, &support, &asked)), "INVALID_ARGUMENT")
        << "supports: " << wrong.what << ": " << asked.message << support.text;
    const ironcl_status status = c.table.op_create(c.device, &desc, &plan, &made);
    const Gemm owner(c.table, status == IRONCL_OK ? plan : nullptr);
    EXPECT_EQ(status_name(status), "INVALID_ARGUMENT") << "op_create: " << wrong.what << ": " << made.message;
    if (status == IRONCL_INVALID_ARGUMENT) {
      EXPECT_TRUE(names(made.message, wrong.word))
          << wrong.what << ": the message does not name " << wrong.word << ": " << made.message;
    }
  }
}

void null_handles(Context& c) {
  const ironcl_gemm_desc desc = base_problem().desc();
  ironcl_support support{};
  support.struct_size = sizeof support;
  ironcl_op plan = nullptr;
  Error e;
  const auto expect_invalid = [&](ironcl_status status, const char* what) {
    EXPECT_EQ(status_name(status), "INVALID_ARGUMENT") << what << ": " << e.message;
    EXPECT_NE(std::string(e.message), "") << what;
  };
  expect_invalid(c.table.supports(nullptr, &desc, &support, &e), "supports without a device");
  expect_invalid(c.table.supports(c.device, nullptr, &support, &e), "supports without a description");
  expect_invalid(c.table.supports(c.device, &desc, nullptr, &e), "supports without an answer");
  expect_invalid(c.table.op_create(nullptr, &desc, &plan, &e), "op_create without a device");
  expect_invalid(c.table.op_create(c.device, nullptr, &plan, &e), "op_create without a description");
  expect_invalid(c.table.op_create(c.device, &desc, nullptr, &e), "op_create without out_gemm");
  ironcl_op_info info{};
  info.struct_size = sizeof info;
  expect_invalid(c.table.op_info(nullptr, &info, &e), "op_info without a plan");
  ironcl_weights weights = nullptr;
  expect_invalid(c.table.weights_prepare(c.device, nullptr, &weights, &e), "weights_prepare without a description");
  ironcl_weights_info weights_info{};
  weights_info.struct_size = sizeof weights_info;
  expect_invalid(c.table.weights_info(nullptr, &weights_info, &e), "weights_info without weights");
}

void null_memory(Context& c) {
  Error e;
  const auto expect_invalid = [&](ironcl_status status, const char* what) {
    EXPECT_EQ(status_name(status), "INVALID_ARGUMENT") << what << ": " << e.message;
    EXPECT_NE(std::string(e.message), "") << what;
  };
  ironcl_queue queue = nullptr;
  ironcl_buffer buffer = nullptr;
  expect_invalid(c.table.queue_create(nullptr, 0, &queue, &e), "queue_create without a device");
  expect_invalid(c.table.queue_create(c.device, 0, nullptr, &e), "queue_create without out_queue");
  expect_invalid(c.table.queue_finish(nullptr, &e), "queue_finish without a queue");
  expect_invalid(c.table.buffer_create(c.device, nullptr, &buffer, &e), "buffer_create without a description");
  expect_invalid(c.table.event_wait(nullptr, 0, &e), "event_wait without an event");
  const Queue owner = make_queue(c);
  expect_invalid(c.table.queue_wait(owner.get(), nullptr, &e), "queue_wait without an event");
}

struct WrongWeights {
  const char* what;
  const char* word;
  void (*change)(ironcl_weights_desc&);
};

constexpr WrongWeights kWrongWeights[] = {
    {"no data", "data", [](ironcl_weights_desc& d) { d.data = nullptr; }},
    {"a byte too little data", "data_bytes", [](ironcl_weights_desc& d) { d.data_bytes -= 1; }},
    {"no scales", "scales", [](ironcl_weights_desc& d) { d.scales = nullptr; }},
    {"a byte too little of scales", "scale_bytes", [](ironcl_weights_desc& d) { d.scale_bytes -= 1; }},
    {"an ld under k", "ld", [](ironcl_weights_desc& d) { d.ld = d.k - 1; }},
    {"n of 0", "n", [](ironcl_weights_desc& d) { d.n = 0; }},
    {"a negative k", "k", [](ironcl_weights_desc& d) { d.k = -1; }},
    {"an n that the data do not have", "data_bytes", [](ironcl_weights_desc& d) { d.n = (int64_t{1} << 31) - 1; }},
};

void wrong_weights(Context& c) {
  const std::vector<std::byte> data(130 * 140), scales(4 * 2 * 2);
  for (const auto& wrong : kWrongWeights) {
    ironcl_weights_desc desc{};
    desc.struct_size = sizeof desc;
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
      EXPECT_TRUE(names(error.message, wrong.word))
          << wrong.what << ": the message does not name " << wrong.word << ": " << error.message;
    }
  }
}

void weights_of_another_plan(Context& c) {
  Problem p = base_problem();
  const Gemm plan = make_plan(c, p.desc());
  p.n += 1;
  Operands operands = make_operands(p);
  Random random(c.seed);
  fill_exact(p, random, operands);
  EXPECT_THROW(make_weights(c, p, operands, plan.get()), Failed) << "weights of another n were prepared for a plan";
}

}  // namespace

void add_argument_tests(Suite& suite) {
  suite.add("Argument", "WrongDescriptionsAreNamed", Needs::gemm, wrong_plans);
  suite.add("Argument", "NullIsRefused", Needs::gemm, null_handles);
  suite.add("Argument", "NullQueuesAndBuffersAreRefused", Needs::memory, null_memory);
  suite.add("Argument", "WrongWeightsAreNamed", Needs::gemm, wrong_weights);
  suite.add("Argument", "WeightsOfAnotherShapeThanThePlans", Needs::gemm, weights_of_another_plan);
  add_call_tests(suite);
}

}  // namespace ironcl::conformance

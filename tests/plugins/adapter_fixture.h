// SPDX-License-Identifier: Apache-2.0
// The C table over the fake backend, loaded, with one of each object and a good description of each call.
// Next door: fake_backend.h.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/c_api.h"
#include "tests/plugins/fake_backend.h"

extern "C" const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor);

namespace ironcl::fake {

inline constexpr ironcl_status kInvalid = IRONCL_INVALID_ARGUMENT, kUnimplemented = IRONCL_UNIMPLEMENTED;

/// What a refusal says, and what makes a description or the arguments of a call wrong.
template <class T>
struct Wrong {
  std::vector<std::string> parts;
  std::function<void(T&)> change;
  ironcl_status status = kInvalid;
};

/// A change that leaves them right.
template <class T>
struct Taken {
  const char* name;
  std::function<void(T&)> change;
};

/// Spans of a call's arguments by name.
template <class Args>
using Spans = std::vector<std::pair<std::string, ironcl_span Args::*>>;

class AdapterTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kM = 4, kN = 6, kK = 8;

  void SetUp() override {
    reset_script();
    table = ironcl_plugin_query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
    error = sized<ironcl_error>();
  }
  void TearDown() override {
    destroy_all();
    script().before.clear();
  }

  /// Every object, and the plugin.
  void destroy_all() const {
    for (ironcl_event event : events) table->event_destroy(event);
    table->weights_destroy(weights);
    for (ironcl_op op : {gemm, quantize, route, activate, combine}) table->op_destroy(op);
    table->buffer_destroy(buffer);
    table->queue_destroy(queue);
    table->unload();
  }

  void load() {
    ASSERT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_OK) << error.message;
    uint32_t count = 0;
    ASSERT_EQ(table->enumerate(devices.data(), 2, &count, &error), IRONCL_OK) << error.message;
    ASSERT_EQ(count, 2u);
  }

  /// A device, a queue, a buffer of 4096 bytes, a plan that quantises A, and its weights.
  void make_all() {
    load();
    ASSERT_EQ(table->queue_create(devices[0], 0, &queue, &error), IRONCL_OK) << error.message;
    const auto desc = buffer_desc();
    ASSERT_EQ(table->buffer_create(devices[0], &desc, &buffer, &error), IRONCL_OK) << error.message;
    replace(gemm, gemm_desc());
    const auto matrix = weights_desc();
    ASSERT_EQ(table->weights_prepare(devices[0], &matrix, &weights, &error), IRONCL_OK) << error.message;
  }

  /// A quantiser and the three steps of a layer of experts.
  void make_steps() {
    replace(quantize, quantize_desc());
    replace(route, route_desc());
    replace(activate, activate_desc());
    replace(combine, combine_desc());
  }

  template <class Desc>
  void replace(ironcl_op& op, const Desc& desc) {
    table->op_destroy(std::exchange(op, nullptr));
    error = sized<ironcl_error>();
    ASSERT_EQ(table->op_create(devices[0], &desc, &op, &error), IRONCL_OK) << error.message;
  }

  /// The status of making an operation, weights or a buffer that is dropped again.
  template <class Desc>
  ironcl_status create(const Desc& desc) {
    const auto made_by = [&]<class Handle>(auto make, void (*destroy)(Handle)) {
      Handle out = nullptr;
      error = sized<ironcl_error>();
      const ironcl_status status = make(devices[0], &desc, &out, &error);
      EXPECT_EQ(status == IRONCL_OK, out != nullptr);
      destroy(out);
      return status;
    };
    if constexpr (std::is_same_v<Desc, ironcl_weights_desc>) {
      return made_by(table->weights_prepare, table->weights_destroy);
    } else if constexpr (std::is_same_v<Desc, ironcl_buffer_desc>) {
      return made_by(table->buffer_create, table->buffer_destroy);
    } else {
      return made_by(table->op_create, table->op_destroy);
    }
  }

  /// What comes of a description, by supports() where it is of an operation, too; or of a call.
  template <class T>
  void expect_status(const T& t, ironcl_status status) {
    if constexpr (requires { t.wait_count; }) {
      EXPECT_EQ(enqueue(t), status) << error.message;
    } else {
      if constexpr (detail::kKind<T> != 0) {
        EXPECT_EQ(ask(t), status) << error.message;
      }
      EXPECT_EQ(create(t), status) << error.message;
    }
  }

  /// No written span of a good call may lie on any other, or begin within it, though both have the bytes they need.
  /// How often that was tried.
  template <class Args>
  int expect_no_overlap(const Args& good, const std::string& prefix, const Spans<Args>& written,
                        const Spans<Args>& read) {
    auto all = written;
    all.insert(all.end(), read.begin(), read.end());
    int tried = 0;
    for (const auto& [name, span] : written) {
      for (const auto& [other_name, other] : all) {
        if (name == other_name) continue;
        for (const uint64_t into : {uint64_t{0}, uint64_t{16}}) {
          SCOPED_TRACE(name + " over " + other_name);
          Args args = good;
          (args.*span).offset = (good.*other).offset + into;
          (args.*other).size = std::max<uint64_t>((args.*other).size, 32);
          expect_invalid(args, {"overlaps", prefix + name, prefix + other_name});
          ++tried;
        }
      }
    }
    return tried;
  }

  /// Each change of a good one is refused, and the backend is not asked.
  template <class T, std::size_t N>
  void expect_refused(const T& good, const Wrong<T> (&all)[N]) {
    expect_status(good, IRONCL_OK);
    script().calls.clear();
    for (const auto& wrong : all) {
      SCOPED_TRACE(wrong.parts[0]);
      T changed = good;
      wrong.change(changed);
      expect_status(changed, wrong.status);
      for (const auto& part : wrong.parts) EXPECT_TRUE(says({part}));
    }
    EXPECT_TRUE(script().calls.empty()) << "the backend was asked all the same: " << script().calls.begin()->first;
  }

  template <class T, std::size_t N>
  void expect_taken(const T& good, const Taken<T> (&all)[N]) {
    for (const auto& taken : all) {
      SCOPED_TRACE(taken.name);
      T changed = good;
      taken.change(changed);
      expect_status(changed, IRONCL_OK);
    }
  }

  ironcl_buffer_desc buffer_desc() const {
    auto desc = sized<ironcl_buffer_desc>();
    desc.size = 4096;
    return desc;
  }

  /// bf16 A quantised in the plan to e4m3 in token groups of 4; B e4m3 in blocks of 4x4; D f32.
  ironcl_gemm_desc gemm_desc() const {
    auto desc = sized<ironcl_gemm_desc>();
    desc.m = kM;
    desc.n = kN;
    desc.k = kK;
    desc.a_source_dtype = IRONCL_BF16;
    desc.a_dtype = desc.b_dtype = IRONCL_F8_E4M3FN;
    desc.d_dtype = IRONCL_F32;
    desc.a_scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0};
    desc.b_scale = {IRONCL_F32, 4, 4, 0, 0, 0, 0};
    return desc;
  }

  /// bf16 to e4m3 in groups of 1x4; kM rows of kK.
  ironcl_quantize_desc quantize_desc() const {
    auto desc = sized<ironcl_quantize_desc>();
    desc.rows = kM;
    desc.cols = kK;
    desc.x_dtype = IRONCL_BF16;
    desc.code_dtype = IRONCL_F8_E4M3FN;
    desc.scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0};
    return desc;
  }

  ironcl_quantize_args quantize_args() const {
    auto args = sized<ironcl_quantize_args>();
    args.rows = kM;
    args.x = {buffer, 0, kM * kK * 2};
    args.codes = {buffer, 1024, kM * kK};
    args.scales = {buffer, 2048, kM * 2 * 4};
    return args;
  }

  /// kM tokens to 2 of 6 experts by a softmax over f32 logits.
  ironcl_route_desc route_desc() const {
    auto desc = sized<ironcl_route_desc>();
    desc.flags = IRONCL_ROUTE_NORMALIZE;
    desc.tokens = kM;
    desc.experts = 6;
    desc.top_k = 2;
    desc.score = IRONCL_SCORE_SOFTMAX;
    desc.logits_dtype = IRONCL_F32;
    return desc;
  }

  ironcl_route_args route_args() const {
    auto args = sized<ironcl_route_args>();
    args.tokens = kM;
    args.logits = {buffer, 0, kM * 6 * 4};
    args.ids = {buffer, 128, kM * 2 * 4};
    args.weights = {buffer, 256, kM * 2 * 4};
    args.matrix_rows = {buffer, 384, 6 * 4};
    args.a_index = {buffer, 512, kM * 2 * 4};
    args.rows = {buffer, 640, kM * 2 * 4};
    return args;
  }

  /// bf16 to e4m3 in groups of 1x4; kM rows of kK, sorted by 3 matrices.
  ironcl_activate_desc activate_desc() const {
    auto desc = sized<ironcl_activate_desc>();
    desc.rows = kM;
    desc.cols = kK;
    desc.x_dtype = IRONCL_BF16;
    desc.y_dtype = IRONCL_F8_E4M3FN;
    desc.activation = IRONCL_ACTIVATION_SILU;
    desc.grouping = IRONCL_GROUPING_CONTIGUOUS;
    desc.matrices = 3;
    desc.scale = {IRONCL_F32, 1, 4, 0, 0, 0, 0};
    return desc;
  }

  ironcl_activate_args activate_args() const {
    auto args = sized<ironcl_activate_args>();
    args.rows = kM;
    args.gate = {buffer, 0, kM * kK * 2};
    args.up = {buffer, 128, kM * kK * 2};
    args.y = {buffer, 256, kM * kK};
    args.scales = {buffer, 384, kM * 2 * 4};
    args.matrix_rows = {buffer, 512, 3 * 4};
    return args;
  }

  /// kM tokens of 2 rows each out of 8, bf16, with something bf16 added, to f32.
  ironcl_combine_desc combine_desc() const {
    auto desc = sized<ironcl_combine_desc>();
    desc.tokens = kM;
    desc.cols = kK;
    desc.rows = 8;
    desc.top_k = 2;
    desc.x_dtype = desc.add_dtype = IRONCL_BF16;
    desc.y_dtype = IRONCL_F32;
    return desc;
  }

  ironcl_combine_args combine_args() const {
    auto args = sized<ironcl_combine_args>();
    args.tokens = kM;
    args.x = {buffer, 0, 8 * kK * 2};
    args.rows = {buffer, 256, kM * 2 * 4};
    args.weights = {buffer, 384, kM * 2 * 4};
    args.add = {buffer, 512, kM * kK * 2};
    args.add_weights = {buffer, 640, kM * 4};
    args.y = {buffer, 768, kM * kK * 4};
    return args;
  }

  ironcl_weights_desc weights_desc() const {
    static const std::array<std::byte, 4096> bytes{};
    auto desc = sized<ironcl_weights_desc>();
    desc.dtype = IRONCL_F8_E4M3FN;
    desc.n = kN;
    desc.k = kK;
    desc.scale = {IRONCL_F32, 4, 4, 0, 0, 0, 0};
    desc.data = bytes.data();
    desc.scales = bytes.data();
    desc.data_bytes = kN * kK;
    desc.scale_bytes = 2 * 2 * sizeof(float);
    return desc;
  }

  ironcl_gemm_args gemm_args() const {
    auto args = sized<ironcl_gemm_args>();
    args.m = kM;
    args.weights = weights;
    args.a = {buffer, 0, kM * kK * 2};
    args.d = {buffer, 1024, kM * kN * 4};
    return args;
  }

  /// The status of a call of the operation that the arguments are for.
  template <class Args>
  ironcl_status enqueue(const Args& args) {
    ironcl_op const ops[] = {nullptr, gemm, quantize, route, activate, combine};
    ironcl_event event = nullptr;
    error = sized<ironcl_error>();
    const ironcl_status status = table->op_enqueue(ops[detail::kKind<Args>], queue, &args, &event, &error);
    EXPECT_EQ(status == IRONCL_OK, event != nullptr) << "an event where it ran, and none where not";
    if (event != nullptr) events.push_back(event);
    return status;
  }

  /// A call that is refused before the backend hears of it.
  template <class Args>
  void expect_invalid(const Args& args, std::initializer_list<std::string> parts) {
    script().calls.clear();
    EXPECT_EQ(enqueue(args), kInvalid);
    EXPECT_TRUE(says(parts));
    EXPECT_TRUE(script().calls.empty()) << "the backend was asked all the same: " << script().calls.begin()->first;
  }

  /// The status of supports() for a description; its text is in `error`.
  template <class Desc>
  ironcl_status ask(const Desc& desc) {
    auto support = sized<ironcl_support>();
    error = sized<ironcl_error>();
    return table->supports(devices[0], &desc, &support, &error);
  }

  /// The message names all of `parts`.
  ::testing::AssertionResult says(std::initializer_list<std::string> parts) const {
    for (const std::string& part : parts) {
      if (std::string(error.message).find(part) == std::string::npos) {
        return ::testing::AssertionFailure() << "no \"" << part << "\" in \"" << error.message << "\"";
      }
    }
    return ::testing::AssertionSuccess();
  }

  const ironcl_plugin* table = nullptr;
  ironcl_error error{};
  std::array<ironcl_device, 2> devices{};
  ironcl_queue queue = nullptr;
  ironcl_buffer buffer = nullptr;
  ironcl_op gemm = nullptr;
  ironcl_op quantize = nullptr, route = nullptr, activate = nullptr, combine = nullptr;  ///< Of tests about them.
  ironcl_weights weights = nullptr;
  std::vector<ironcl_event> events;
};

}  // namespace ironcl::fake

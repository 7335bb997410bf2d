// SPDX-License-Identifier: Apache-2.0
// Route, activate and combine on the model's device, and with two grouped products the layer that they make.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/ironwood/quantize_tile.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/experts.h"
#include "tests/ironwood/grouped_harness.h"

namespace ironcl::ironwood::testing {
namespace {

using backend::Grouping;
using backend::Span;

constexpr std::int64_t kTokens = 11, kExperts = 6, kTopK = 3, kHidden = 256, kIntermediate = 192;

/// Buffers of one queue.
struct Rig {
  std::shared_ptr<backend::Queue> queue = device().create_queue();

  Span empty(std::size_t bytes, std::byte fill = kCanary) {
    const std::vector<std::byte> data(bytes, fill);
    return filled(data.data(), bytes);
  }
  Span filled(const void* data, std::size_t bytes) {
    Span span{.buffer = device().create_buffer(bytes), .offset = 0, .size = bytes};
    queue->write(span, data, backend::HostSemantics::copied_before_return);
    return span;
  }
  template <class T>
  std::vector<T> read(const Span& span) {
    std::vector<T> values(span.size / sizeof(T));
    queue->read(span, values.data());
    return values;
  }
};

void finish(const std::shared_ptr<backend::Event>& event) {
  EXPECT_EQ(event->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
  EXPECT_GT(event->profile().end_ns, event->profile().start_ns);  // modelled, launch included
}

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// y of a whole layer, rows laid out as `grouping` says.
std::vector<std::uint8_t> layer(Grouping grouping) {
  const bool masked = grouping == Grouping::masked;
  const std::int64_t capacity = kTokens, rows = masked ? kExperts * capacity : kTokens * kTopK;
  Rig rig;
  backend::RouteDesc route;
  route.tokens = kTokens, route.experts = kExperts, route.local_experts = kExperts, route.top_k = kTopK;
  route.capacity = masked ? capacity : 0;
  route.score = backend::Score::softmax, route.normalize = true;
  route.logits = DType::f32, route.logits_ld = kExperts;
  const auto logits = random_values(kTokens * kExperts, 5);
  backend::RouteArgs routing;
  routing.tokens = kTokens;
  routing.logits = rig.filled(logits.data(), logits.size() * 4);
  routing.ids = rig.empty(kTokens * kTopK * 4), routing.weights = rig.empty(kTokens * kTopK * 4);
  routing.matrix_rows = rig.empty(kExperts * 4), routing.rows = rig.empty(kTokens * kTopK * 4);
  routing.a_index = rig.empty(static_cast<std::size_t>(rows) * 4, std::byte{0xff});
  finish(device().create_route(route)->enqueue(rig.queue, routing));

  GroupedCase gate_up{.one = {.m = masked ? capacity : rows,
                              .n = 2 * kIntermediate,
                              .k = kHidden,
                              .x = DType::bf16,
                              .quantize = true},
                      .grouping = grouping,
                      .counts = std::vector<std::int32_t>(kExperts),
                      .a_index = {0},
                      .x_rows = kTokens};
  GroupedCase down{.one = {.m = gate_up.one.m, .n = kHidden, .k = kIntermediate, .d = DType::bf16, .seed = 2},
                   .grouping = grouping,
                   .counts = std::vector<std::int32_t>(kExperts)};
  const Data x = make_data(gate_up), w2 = make_data(down);
  const auto multiply = [&](const GroupedCase& c, const Data& data, backend::GemmArgs args) {
    const auto gemm = device().create_gemm(desc_of(c));
    backend::WeightsDesc weights;
    weights.dtype = c.one.w, weights.n = c.one.n, weights.k = c.one.k, weights.ld = c.one.k;
    weights.matrices = kExperts;
    weights.scale = desc_of(c).b_scale;
    weights.data = data.w.data(), weights.scales = data.w_scales.data();
    args.m = c.one.m;
    args.weights = device().prepare_weights(weights);
    args.matrix_rows = routing.matrix_rows;
    gemm->enqueue(rig.queue, args)->wait(std::chrono::nanoseconds::max());
  };
  backend::GemmArgs first;
  first.a = rig.filled(x.x.data(), x.x.size());
  first.a_rows = kTokens, first.a_index = routing.a_index;
  first.d = rig.empty(static_cast<std::size_t>(rows * 2 * kIntermediate) * 4);
  multiply(gate_up, x, first);

  backend::ActivateDesc activation;
  activation.rows = masked ? capacity : rows, activation.cols = kIntermediate;
  activation.gate_ld = activation.up_ld = 2 * kIntermediate, activation.y_ld = kIntermediate;
  activation.x = DType::f32, activation.y = DType::e4m3fn;
  activation.grouping = grouping, activation.matrices = kExperts;
  activation.scale = {.dtype = DType::f32, .grid = {1, 128}, .ld = 2};
  backend::ActivateArgs acting;
  acting.rows = activation.rows;
  acting.gate = first.d, acting.up = first.d;
  acting.up.offset = kIntermediate * 4, acting.up.size -= kIntermediate * 4;
  acting.y = rig.empty(static_cast<std::size_t>(rows * kIntermediate));
  acting.scales = rig.empty(static_cast<std::size_t>(rows) * 8);
  acting.matrix_rows = routing.matrix_rows;
  finish(device().create_activate(activation)->enqueue(rig.queue, acting));

  backend::GemmArgs second;
  second.a = acting.y, second.a_scale = acting.scales;
  second.d = rig.empty(static_cast<std::size_t>(rows * kHidden) * 2, std::byte{0xff});  // NaN where nobody writes
  multiply(down, w2, second);

  backend::CombineDesc combination;
  combination.tokens = kTokens, combination.cols = kHidden, combination.rows = rows, combination.top_k = kTopK;
  combination.x_ld = combination.y_ld = kHidden;
  combination.x = DType::bf16, combination.y = DType::bf16;
  backend::CombineArgs summing;
  summing.tokens = kTokens;
  summing.x = second.d, summing.rows = routing.rows, summing.weights = routing.weights;
  summing.y = rig.empty(kTokens * kHidden * 2);
  finish(device().create_combine(combination)->enqueue(rig.queue, summing));

  // The router's choice is the rule's, and the sums are those of the rows that came out.
  const auto ids = rig.read<std::int32_t>(routing.ids);
  const auto weights = rig.read<float>(routing.weights);
  for (std::size_t t = 0; t < kTokens; ++t) {
    std::vector<float> scores(kExperts), want_weights(kTopK);
    std::vector<std::int32_t> want_ids(kTopK);
    numerics::scores(numerics::Score::softmax, std::span(logits).subspan(t * kExperts, kExperts), scores);
    numerics::choose({.experts = kExperts, .top_k = kTopK, .normalize = true}, scores, {}, want_ids, want_weights);
    for (std::size_t j = 0; j < kTopK; ++j) {
      EXPECT_EQ(ids[t * kTopK + j], want_ids[j]);
      EXPECT_EQ(weights[t * kTopK + j], want_weights[j]);
    }
  }
  return rig.read<std::uint8_t>(summing.y);
}

TEST(IronwoodExpertSteps, ALayerIsTheSameWithContiguousAndMaskedRows) {
  const auto contiguous = layer(Grouping::contiguous);
  EXPECT_EQ(contiguous, layer(Grouping::masked));
  std::vector<float> y(kTokens * kHidden);
  numerics::decode(DType::bf16, contiguous.data(), std::span<float>(y));
  for (const float value : y) ASSERT_TRUE(std::isfinite(value));  // rows that no expert has never come in
}

TEST(IronwoodExpertSteps, NoTokensGiveNoRows) {
  Rig rig;
  backend::RouteDesc route;
  route.tokens = 4, route.experts = 3, route.local_experts = 3, route.top_k = 1;
  route.score = backend::Score::sigmoid, route.logits = DType::bf16, route.logits_ld = 3;
  backend::RouteArgs args;
  args.matrix_rows = rig.empty(12);
  device().create_route(route)->enqueue(rig.queue, args)->wait(std::chrono::nanoseconds::max());
  EXPECT_EQ(rig.read<std::int32_t>(args.matrix_rows), (std::vector<std::int32_t>{0, 0, 0}));
}

// --- The quantiser of a tile in VMEM, against numerics::quantize.

TEST(IronwoodQuantiser, AgreesWithTheReferenceOnEveryPatternClass) {
  std::mt19937_64 random(7);
  std::vector<float> x;
  for (int i = 0; i < 400'000; ++i) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  // Around every code, tie and limit.
  for (std::uint32_t bits = 0x3a000000; bits < 0x44000000; bits += 0x8000) {
    for (const std::uint32_t nudge : {bits - 1, bits, bits + 1}) {
      x.push_back(std::bit_cast<float>(nudge));
      x.push_back(-std::bit_cast<float>(nudge));
    }
  }
  std::vector<std::uint8_t> codes(x.size());
  for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    for (const float scale : {1.0f, 0.3f, 1e-30f, 1e-42f, 1e30f, std::numeric_limits<float>::quiet_NaN()}) {
      quantize_run(type, x, scale, codes.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint8_t want = numerics::quantize_one(x[i], scale, type);
        const bool both_nan = type == DType::e4m3fn && (codes[i] & 0x7f) == 0x7f && (want & 0x7f) == 0x7f;
        ASSERT_TRUE(codes[i] == want || both_nan)
            << numerics::name_of(type) << " of x " << std::hexfloat << x[i] << " scale " << scale << ": "
            << int{codes[i]} << ", want " << int{want};
      }
    }
  }
}

TEST(IronwoodQuantiser, MakesTheScalesOfEveryGrid) {
  std::mt19937_64 random(8);
  std::normal_distribution<float> normal;
  const std::int64_t rows = 131, cols = 300;
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  for (float& value : x) value = normal(random);
  std::fill(x.begin(), x.begin() + 128, 0.0f);
  x[5 * 300 + 299] = std::numeric_limits<float>::infinity();
  for (const numerics::ScaleGrid grid :
       {numerics::ScaleGrid{1, 128}, {128, 128}, {1, 0}, {0, 0}, {256, 256}, {1, 32}, {64, 64}}) {
    for (const auto rounding : {numerics::ScaleRounding::exact, numerics::ScaleRounding::power_of_two}) {
      const numerics::Quantizer quantizer{.rounding = rounding};
      for (const DType type : {DType::e4m3fn, DType::e5m2, DType::i8}) {
        std::vector<std::uint8_t> q(x.size());
        const std::int64_t scale_cols = grid.scale_cols(cols);
        std::vector<float> want(static_cast<std::size_t>(grid.scale_rows(rows) * scale_cols)), got(want.size());
        numerics::quantize(DType::f32, x.data(), rows, cols, cols, type, grid, quantizer, q, want);
        make_scales(DType::f32, x.data(), rows, cols, cols, type, grid, quantizer, got.data(), scale_cols, 1);
        for (std::size_t i = 0; i < want.size(); ++i) {
          ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ironcl::ironwood::testing

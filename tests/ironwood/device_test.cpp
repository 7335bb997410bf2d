// SPDX-License-Identifier: Apache-2.0
// The device behind the interface: what it says of itself, what it refuses and how, events, weights, ragged calls.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstring>

#include "backends/numerics/quantize.h"
#include "tests/errors.h"
#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {
namespace {

using backend::Error;
using backend::Reason;
using backend::Status;

TEST(IronwoodDevice, IsAModelThatSaysSo) {
  const auto props = device().props();
  EXPECT_EQ(props.type, backend::DeviceType::model);
  EXPECT_NE(props.name.find("modelled"), std::string::npos);
  EXPECT_TRUE(props.bitwise_repeatable);
  EXPECT_TRUE(boost::json::parse(device().query("features", nullptr)).is_object());
  EXPECT_TRUE(boost::json::parse(device().query("options", nullptr)).is_array());
}

TEST(IronwoodDevice, RefusesWithAReasonAndWhatItWouldTake) {
  struct Row {
    const char* what;
    void (*change)(backend::GemmDesc&);
    Reason reason;
    const char* says;
  };
  const Row rows[] = {
      {"48x48 weights",
       [](auto& d) {
         d.b_scale.grid = {48, 48};
       },
       Reason::scale_layout, "a multiple of 32"},
      {"1x48 activations",
       [](auto& d) {
         d.a_scale.grid = {1, 48};
       },
       Reason::scale_layout, "a multiple of 32"},
      {"blocks of weights that no VMEM holds",
       [](auto& d) {
         d.b_scale.grid = {std::int64_t{1} << 31, std::int64_t{1} << 31};
       },
       Reason::scale_layout, "0 spans a dimension"},
      {"groups of K without a common multiple, of experts",
       [](auto& d) {
         d.m = 1, d.k = std::int64_t{1} << 33, d.n = 1, d.lda = 0, d.matrices = 2;
         d.grouping = backend::Grouping::contiguous;
         d.b_scale.grid = {4294967264, 4294967264};
         d.a_scale.grid = {1, 4294967200};
       },
       Reason::scale_layout, "0 spans a dimension"},
      {"absurd weights", [](auto& d) { d.n = d.k = std::int64_t{1} << 60; }, Reason::shape, "2^40"},
      {"absurd m", [](auto& d) { d.lda = std::int64_t{1} << 60; }, Reason::shape, "2^40"},
      {"beyond HBM", [](auto& d) { d.m = 1 << 24, d.lda = d.k = 1 << 15; }, Reason::device_memory, "HBM"},
      {"odd block",
       [](auto& d) {
         d.options = {{"kernel_blocks", "128,200,128"}};
       },
       Reason::option, "128 and 256"},
      {"too much VMEM",
       [](auto& d) {
         d.options = {{"kernel_blocks", "4096,4096,4096"}};
       },
       Reason::device_memory, "67108864"},
      {"aligned, and not",
       [](auto& d) {
         d.options = {{"kernel_blocks", "256,256,256"}, {"mode", "aligned"}};
       },
       Reason::option, "B = O = I = Q"},
  };
  for (const Row& row : rows) {
    auto desc = Case{.m = 8, .n = 1024, .k = 1024}.desc();
    row.change(desc);
    SCOPED_TRACE(row.what);
    const auto support = device().supports(desc);
    EXPECT_EQ(support.reason, row.reason) << support.text;
    EXPECT_NE(support.text.find(row.says), std::string::npos) << support.text;
    EXPECT_LT(support.text.size(), 224u);
    expect_error<Error>(Status::unsupported, support.text, [&] { device().create_gemm(desc); });
  }
}

TEST(IronwoodDevice, UnknownOptionsAndValuesAreInvalidAndTheTextListsTheKnown) {
  for (const auto& [key, value, says] :
       {std::array{"kernel_block", "1,1,1", "kernel_blocks"}, std::array{"kernel_blocks", "128,128", "B,O,I"},
        std::array{"kernel_blocks", "128,128,-1", "B,O,I"}, std::array{"buffers", "0", "1 to 8"},
        std::array{"tpu", "v99", "table"}, std::array{"mxu_efficiency", "2", "at most 1"}}) {
    auto desc = Case{.m = 8, .n = 128, .k = 128}.desc();
    desc.options = {{key, value}};
    SCOPED_TRACE(std::string(key) + "=" + value);
    expect_error<Error>(Status::invalid_argument, says, [&] { device().supports(desc); });
  }
}

TEST(IronwoodDevice, WeightsComeBackBitForBit) {
  const Case c{.m = 1, .n = 300, .k = 500, .b_scale = DType::bf16};
  const Data data = make_data(c);
  // With a leading dimension of its own.
  std::vector<std::byte> padded(300 * 512, std::byte{0x55});
  for (std::size_t row = 0; row < 300; ++row) std::memcpy(&padded[row * 512], &data.b[row * 500], 500);
  backend::WeightsDesc desc = weights_desc(c, data);
  desc.ld = 512;
  desc.data = padded.data();
  const auto weights = device().prepare_weights(desc);
  std::vector<std::uint8_t> out(weights->data_bytes()), scales(weights->scale_bytes());
  weights->export_to(reinterpret_cast<std::byte*>(out.data()), reinterpret_cast<std::byte*>(scales.data()));
  EXPECT_EQ(out, data.b);
  EXPECT_EQ(scales, data.b_scales);
}

/// Also those of four bits, which are held in another type, with a global scale that is not theirs to give back.
TEST(IronwoodDevice, WeightsOfFourBitsComeBackBitForBit) {
  std::vector<std::byte> codes(8 * 16), scales(8 * 2);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 7);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(0x30 + i);
  const float global = 0.3f;
  backend::WeightsDesc desc;
  desc.dtype = DType::e2m1;
  desc.n = 8, desc.k = desc.ld = 32;
  desc.scale = {DType::e4m3fn, {1, 16}, 2, true};
  desc.data = codes.data(), desc.scales = scales.data(), desc.global_scales = &global;
  const auto weights = device().prepare_weights(desc);
  std::vector<std::byte> out(weights->data_bytes()), out_scales(weights->scale_bytes());
  weights->export_to(out.data(), out_scales.data());
  EXPECT_EQ(out, codes);
  EXPECT_EQ(out_scales, scales);
}

/// 0 spans a dimension, and so does its size: the scales are the same ones.
TEST(IronwoodDevice, WeightsWhoseGroupsAreTheSameInOtherWordsAreTaken) {
  const std::pair<ScaleGrid, ScaleGrid> spellings[] = {
      {{1, 0}, {1, 256}}, {{1, 256}, {1, 0}}, {{0, 0}, {96, 256}}, {{96, 256}, {0, 0}}, {{0, 128}, {96, 128}}};
  for (const auto& [planned, prepared] : spellings) {
    const Case c{.m = 4, .n = 96, .k = 256, .b_grid = planned};
    Ready ready(device(), c);
    std::vector<float> d(4 * 96);
    ready.args.d = lend(d);
    backend::WeightsDesc weights = weights_desc(c, ready.data);
    weights.scale = {.dtype = c.b_scale, .grid = prepared};
    ready.args.weights = device().prepare_weights(weights);
    ASSERT_EQ(ready.plan->enqueue(ready.queue, ready.args)->wait(std::chrono::nanoseconds(0)), Status::ok);
    EXPECT_EQ(std::vector<double>(d.begin(), d.end()), run(device(), c, ready.data).d)
        << planned.group_rows << "x" << planned.group_cols;
  }
}

/// A call with fewer rows than the plan, strided A and D, and D between canaries.
TEST(IronwoodDevice, WritesNothingOutsideOfD) {
  const Case c{.m = 37, .n = 130, .k = 200, .a_source = DType::f32};
  const Data data = make_data(c);
  const std::int64_t lda = 211, ldd = 140, rows = 20;
  auto desc = c.desc();
  desc.lda = lda, desc.ldd = ldd;
  const auto gemm = device().create_gemm(desc);
  const auto queue = device().create_queue();
  std::vector<float> a(37 * 211, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < 37; ++i) std::memcpy(&a[i * 211], data.a.data() + i * 800, 800);
  std::vector<float> d(20 * 140 + 16, 7.0f);
  std::vector<std::byte> codes(20 * 200);
  std::vector<float> scales(20 * 2);
  backend::GemmArgs args;
  args.m = rows;
  args.weights = device().prepare_weights(weights_desc(c, data));
  args.a = lend(a);
  args.d = lend(d);
  args.d.offset = 32;
  args.d.size -= 32;
  args.a_quantized = lend(codes);
  args.a_quantized_scale = lend(scales);
  const auto event = gemm->enqueue(queue, args);
  ASSERT_EQ(event->wait(std::chrono::nanoseconds(0)), Status::ok);
  const std::vector<double> expected = run(device(), c, data, rows).d;
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::size_t at = i - 8;
    const bool inside = i >= 8 && at / 140 < 20 && at % 140 < 130;
    ASSERT_EQ(d[i], inside ? static_cast<float>(expected[at / 140 * 130 + at % 140]) : 7.0f) << i;
  }
  std::vector<std::uint8_t> want_codes(codes.size());
  std::vector<float> want_scales(scales.size());
  numerics::quantize(DType::f32, a.data(), rows, c.k, lda, DType::e4m3fn, c.a_grid, {}, want_codes, want_scales);
  EXPECT_EQ(std::memcmp(codes.data(), want_codes.data(), codes.size()), 0);
  EXPECT_EQ(scales, want_scales);
  const auto profile = event->profile();
  EXPECT_EQ(profile.kind, backend::TimeKind::modelled);
  EXPECT_GT(profile.end_ns, profile.start_ns);
}

/// A quantised D has the bytes of the quantiser on the D in f32 of the same plan, bias included, between canaries.
TEST(IronwoodDevice, AQuantisedDIsTheQuantiserOnItsF32) {
  const Case c{.m = 37, .n = 130, .k = 200, .bias = DType::f32};
  const Data data = make_data(c);
  const std::vector<double> exact = run(device(), c, data).d;
  const std::vector<float> whole(exact.begin(), exact.end());
  constexpr std::int64_t kLd = 140, kScaleLd = 6;
  for (const ScaleGrid grid : {ScaleGrid{1, 32}, ScaleGrid{1, 0}, ScaleGrid{32, 128}}) {
    for (const DType stored : {DType::f32, DType::e8m0}) {
      for (const bool given : {false, true}) {
        auto desc = c.desc();
        desc.d = DType::e5m2, desc.ldd = kLd;
        desc.d_scale = {stored, grid, kScaleLd};
        desc.d_quantizer.given = given;
        const auto gemm = device().create_gemm(desc);
        std::vector<std::byte> d(37 * kLd, std::byte{0x55}), want = d;
        std::vector<std::byte> scales(37 * kScaleLd * 4, std::byte{0x3c}), want_scales = scales;  // Of e8m0: 2^-67.
        std::vector<std::uint8_t> a = data.a, a_scales = data.a_scales, bias = data.bias;
        backend::GemmArgs args;
        args.m = c.m;
        args.weights = device().prepare_weights(weights_desc(c, data));
        args.a = lend(a), args.a_scale = lend(a_scales), args.bias = lend(bias);
        args.d = lend(d), args.d_scale = lend(scales);
        ASSERT_EQ(gemm->enqueue(device().create_queue(), args)->wait(std::chrono::nanoseconds(0)), Status::ok);
        numerics::quantize(DType::f32, whole.data(), c.m, c.n, c.n, grid, desc.d_quantizer,
                           {DType::e5m2, want.data(), kLd, stored, want_scales.data(), kScaleLd});
        EXPECT_EQ(d, want) << grid.group_rows << "x" << grid.group_cols << " given " << given;
        EXPECT_EQ(scales, want_scales) << grid.group_rows << "x" << grid.group_cols << " given " << given;
      }
    }
  }
}

/// A call of the product, without rows.
backend::Recorded<backend::GemmArgs> call_without_rows(const Case& c) {
  const Data data = make_data(c);
  backend::GemmArgs args;
  args.weights = device().prepare_weights(weights_desc(c, data));
  return {device().create_gemm(c.desc()), args};
}

TEST(IronwoodDevice, NoRowsIsNoWork) {
  const Case c{.m = 4, .n = 130, .k = 200};
  const auto call = call_without_rows(c);
  const auto event = call.operation->enqueue(device().create_queue(), call.args);
  EXPECT_EQ(event->wait(std::chrono::nanoseconds::max()), Status::ok);
  EXPECT_EQ(event->profile().end_ns, event->profile().start_ns);
  auto none = c.desc();
  none.m = 0;
  EXPECT_EQ(device().supports(none).reason, Reason::none);
}

/// An event that failed elsewhere.
class FailedEvent final : public backend::Event {
 public:
  Status wait(std::chrono::nanoseconds) override { throw Error(Status::device_lost, "elsewhere"); }
  backend::Profile profile() override { throw Error(Status::device_lost, "elsewhere"); }
};

TEST(IronwoodDevice, ACommandThatWaitsForAFailedEventFailsWithItsStatus) {
  const auto queue = device().create_queue();
  queue->wait_for(std::make_shared<FailedEvent>());
  const auto buffer = device().create_buffer(4);
  const int value = 0;
  const auto event = queue->write({buffer, 0, 4}, &value, backend::HostSemantics::copied_before_return);
  expect_error<Error>(Status::device_lost, "", [&] { event->wait(std::chrono::nanoseconds::max()); });
}

/// Calls of a sequence have no events but the last: it does not go on to that one.
TEST(IronwoodDevice, ASequenceWhoseFirstCallFailsFails) {
  const auto call = call_without_rows({.m = 4, .n = 130, .k = 200});
  const auto sequence = device().create_sequence({call, call});
  const auto run = [&](backend::SequenceArgs all) {
    return sequence->enqueue(device().create_queue(), all)->wait(std::chrono::nanoseconds::max());
  };
  expect_error<Error>(Status::device_lost, "", [&] { run({{{std::make_shared<FailedEvent>()}}}); });
  EXPECT_EQ(run({}), Status::ok);
}

}  // namespace
}  // namespace ironcl::ironwood::testing

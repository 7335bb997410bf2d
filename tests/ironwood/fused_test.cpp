// SPDX-License-Identifier: Apache-2.0
// The schedule of a layer of experts in one kernel: what it reads, what it multiplies, what it refuses.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "tests/errors.h"
#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {
namespace {

namespace json = boost::json;

struct Layer {
  std::int64_t tokens = 8, experts = 4, top_k = 2, hidden = 512, intermediate = 256;
  std::string ids = {};
  ScaleGrid grid{1, 0};
  backend::Options options = {};
};

backend::GemmDesc desc_of(const Layer& layer) {
  Case one{.m = layer.tokens * layer.top_k,
           .n = 2 * layer.intermediate,
           .k = layer.hidden,
           .a = DType::bf16,
           .d = DType::bf16,
           .b_grid = layer.grid,
           .options = layer.options};
  backend::GemmDesc desc = one.desc();
  desc.grouping = backend::Grouping::contiguous;
  desc.matrices = layer.experts;
  desc.a_rows = layer.tokens;
  if (!layer.ids.empty()) desc.options.emplace_back("ids", layer.ids);
  return desc;
}

json::object fused(const Layer& layer, const char* key = "fused") {
  const auto desc = desc_of(layer);
  return json::parse(device().query(key, &desc)).as_object();
}

double number(const json::object& report, const char* path) {
  return json::value(report).at_pointer(path).to_number<double>();
}

/// Of one expert: codes and a scale for every column.
double expert_bytes(const Layer& layer) {
  const auto size = static_cast<double>(layer.hidden * layer.intermediate);
  return 3 * size + 4 * static_cast<double>(2 * layer.intermediate + layer.hidden);
}

TEST(IronwoodFused, ReadsEveryExpertsWeightsForEveryTileOfTokensWhoeverHasRows) {
  // One token, two experts of four: all four are read, as the kernel's loop over experts has no way round.
  const Layer one{.tokens = 1, .ids = "0,3"};
  const auto report = fused(one);
  EXPECT_EQ(number(report, "/experts_visited"), 4);
  EXPECT_EQ(number(report, "/experts_with_rows"), 2);
  EXPECT_GE(number(report, "/weight_bytes"),
            4 * expert_bytes(one) - 4 * 4 * 512);  // scales of w2 come once a tile of I
  // A VMEM for fewer tokens makes more tiles of them, and each reads everything again.
  Layer many{.tokens = 512, .experts = 4, .top_k = 2, .hidden = 2048, .intermediate = 768};
  const auto whole = fused(many);
  many.options = {{"vmem_limit_mib", "9"}};
  const auto cut = fused(many);
  EXPECT_GT(number(cut, "/token_tiles"), number(whole, "/token_tiles"));
  EXPECT_EQ(number(cut, "/weight_bytes") / number(cut, "/token_tiles"),
            number(whole, "/weight_bytes") / number(whole, "/token_tiles"));
  EXPECT_EQ(number(cut, "/rows"), number(whole, "/rows"));
}

TEST(IronwoodFused, CountsRowsStepsBarriersAndCopies) {
  const Layer layer{.tokens = 3, .ids = "0,1,0,2,0,1"};
  const auto report = fused(layer);
  EXPECT_EQ(number(report, "/rows"), 6);
  EXPECT_EQ(number(report, "/rows_multiplied"), 9);  // dots of three rows each, for three experts
  EXPECT_EQ(number(report, "/blocks/btc"), 3);
  EXPECT_EQ(number(report, "/copies_issued"), 2 * 3 * 2 * 4 + 3 * 2);
  EXPECT_EQ(number(report, "/barriers"), 1 + 1 + 4 + 2);
  EXPECT_EQ(number(report, "/hbm_bytes"),
            number(report, "/weight_bytes") + (6 + 6 + 6 + 3) * 512 * 2 + /* logits */ 3 * 128 * 2);
}

TEST(IronwoodFused, AnIdThatIsNobodysHasNoRows) {
  EXPECT_EQ(number(fused({.tokens = 2, .ids = "0,9,1,2"}), "/rows"), 3);
}

TEST(IronwoodFused, AnExpertsFirstWeightsAreWaitedFor) {
  // Few rows: transfers decide, and nothing is in flight while an expert's first tile is asked for.
  const Layer layer{
      .tokens = 8, .experts = 16, .hidden = 2048, .intermediate = 1024, .options = {{"dma_latency_ns", "500"}}};
  const auto report = fused(layer);
  EXPECT_GT(number(report, "/time_us"), 1.6 + number(report, "/busy_us/hbm") + 16 * 0.5);
}

TEST(IronwoodFused, TheTraceHasEveryExpert) {
  const std::string trace = json::serialize(fused({.tokens = 2, .ids = "0,3,3,1"}, "fused_trace"));
  for (const char* what : {"expert 0: 1 rows by w1", "expert 3: 2 rows by w2", "route", "combine", "DMA in tokens"}) {
    EXPECT_NE(trace.find(what), std::string::npos) << what;
  }
  EXPECT_EQ(trace.find("expert 2:"), std::string::npos);
}

TEST(IronwoodFused, RefusesWhatIsNoLayer) {
  const auto refused = [](const backend::GemmDesc& desc, const char* text) {
    expect_error<backend::Error>(backend::Status::unsupported, text, [&] { device().query("fused", &desc); });
  };
  auto dense = desc_of(Layer{});
  dense.grouping = backend::Grouping::none, dense.matrices = 0;
  refused(dense, "n = 2 I");
  refused(desc_of(Layer{.hidden = 576}), "multiples of 128");
  refused(desc_of(Layer{.ids = "1,2,3"}), "3 of 8 tokens");
  auto quantised = desc_of(Layer{});
  quantised.a_source = DType::bf16, quantised.a = DType::e4m3fn;
  quantised.a_scale = {.dtype = DType::f32, .grid = {1, 0}, .ld = 1};
  refused(quantised, "bf16");
  refused(desc_of(Layer{.hidden = 8192, .intermediate = 2048, .options = {{"vmem_limit_mib", "1"}}}), "VMEM");
}

TEST(IronwoodFused, SaysThatBlocksOf128AreNotItsScales) {
  EXPECT_TRUE(fused({}).at("notes").as_array().empty());
  EXPECT_EQ(fused({.grid = {128, 128}}).at("notes").as_array().size(), 1u);
}

}  // namespace
}  // namespace ironcl::ironwood::testing

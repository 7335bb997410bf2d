// SPDX-License-Identifier: Apache-2.0
// Which tensors are quantised, what the result calls them, and what cannot be combined.
#include "host/quantize/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "tests/checkpoint/support.h"
#include "tests/errors.h"

namespace ironcl::quantize {
namespace {

using checkpoint::ErrorKind;
using checkpoint::Model;
using checkpoint::OwnTensor;

OwnTensor matrix(const std::string& name, std::vector<std::int64_t> shape = {32, 64}) {
  return {name, DType::bf16, std::move(shape), 0x3c};
}

Plan plan_of(const Model& model, const FormatTexts& texts, const std::vector<std::string>& keep = {},
             const InputClips& clips = {}) {
  static std::vector<std::unique_ptr<checkpoint::Checkpoint>> opened;  // plans view them
  opened.push_back(std::make_unique<checkpoint::Checkpoint>(model.open()));
  return make_plan(*opened.back(), make_format(texts), keep, clips);
}

std::map<std::string, std::string> kept(const Plan& plan) {
  std::map<std::string, std::string> result;
  for (const Kept& one : plan.kept) result[one.name] = one.why;
  return result;
}

std::set<std::string> outputs(const Plan& plan) {
  std::set<std::string> names;
  for (const Shard& shard : plan.shards)
    for (const Item& item : shard.items)
      for (const auto& spec : item.specs()) {
        std::string text = spec.name + " " + std::string(spec.dtype_name);
        for (const std::int64_t dim : spec.shape) text += " " + std::to_string(dim);
        names.insert(text);
      }
  return names;
}

TEST(QuantizePlan, EmbeddingsNormsRoutersAndHeadsStayAndAreNamed) {
  OwnTensor table = matrix("model.table.weight", {32, 4 * 64});
  table.tensor.dtype = DType::none;
  table.tensor.dtype_name = "F64";
  table.tensor.shape = {32, 64};
  const Model model(
      {matrix("model.embed_tokens.weight"), matrix("lm_head.weight"), matrix("model.layers.0.mlp.gate.weight"),
       matrix("model.layers.0.input_layernorm.weight", {64}), matrix("model.layers.0.mlp.gate_proj.weight"),
       matrix("model.layers.0.mlp.shared_expert_gate.weight", {1, 64}), matrix("model.visual.proj.weight"),
       matrix("model.layers.0.mlp.experts.3.up_proj.weight"), matrix("model.conv.weight", {4, 1, 3}), table},
      "{}");
  const Plan plan = plan_of(model, {.scheme = "block"});
  EXPECT_EQ(plan.items(), 2u);
  EXPECT_EQ(kept(plan), (std::map<std::string, std::string>{{"model.embed_tokens", "an embedding"},
                                                            {"lm_head", "a head"},
                                                            {"model.layers.0.mlp.gate", "a router"},
                                                            {"model.layers.0.mlp.shared_expert_gate", "a router"},
                                                            {"model.visual.proj", "of a part for images or sound"},
                                                            {"model.conv", "not a linear module's matrix"},
                                                            {"model.table", "of type F64"}}));
  EXPECT_EQ(plan.shards[0].copies.size(), 8u);
  EXPECT_EQ(plan.ignored.size(), 7u);
  EXPECT_EQ(
      kept(plan_of(model, {.scheme = "block"}, {"model.layers.0.mlp.gate_proj"})).at("model.layers.0.mlp.gate_proj"),
      "--keep model.layers.0.mlp.gate_proj");
  EXPECT_EQ(plan_of(model, {.scheme = "block"}, {"*experts*", "gate_porj", "conv"}).unmatched,
            std::vector<std::string>{"gate_porj"});
}

TEST(QuantizePlan, NamesTensorsAsEachDialectDoes) {
  const Model model({matrix("a.weight", {130, 64})}, "{}");
  using Names = std::set<std::string>;
  EXPECT_EQ(outputs(plan_of(model, {.scheme = "block"})),
            (Names{"a.weight F8_E4M3 130 64", "a.weight_scale_inv F32 2 1"}));
  EXPECT_EQ(outputs(plan_of(model, {.scheme = "block", .dialect = "compressed-tensors", .scale_type = "bf16"})),
            (Names{"a.weight F8_E4M3 130 64", "a.weight_scale BF16 2 1"}));
  EXPECT_EQ(outputs(plan_of(model, {.scheme = "block", .dialect = "modelopt"})),
            (Names{"a.weight F8_E4M3 130 64", "a.weight_scale F32 2 1 1 1"}));
  EXPECT_EQ(outputs(plan_of(model, {.scheme = "channel", .type = "int8"})),
            (Names{"a.weight I8 130 64", "a.weight_scale F32 130 1"}));
  EXPECT_EQ(outputs(plan_of(model, {.scheme = "mxfp4"})),
            (Names{"a.weight_packed U8 130 32", "a.weight_scale U8 130 2"}));
  EXPECT_EQ(outputs(plan_of(model, {.scheme = "nvfp4"})),
            (Names{"a.weight_packed U8 130 32", "a.weight_scale F8_E4M3 130 4", "a.weight_global_scale F32 1"}));
  EXPECT_EQ(
      outputs(plan_of(model, {.scheme = "nvfp4", .dialect = "modelopt"}, {}, {{"a", {3, 64}}})),
      (Names{"a.weight U8 130 32", "a.weight_scale F8_E4M3 130 4", "a.weight_scale_2 F32", "a.input_scale F32"}));
}

TEST(QuantizePlan, StackedExpertsBecomeTheNamesThatAllEnginesReadWhereTheirSizesTellTheOrder) {
  const std::string base = "model.layers.0.mlp.experts.";
  const Model model({matrix(base + "gate_up_proj", {2, 96, 64}), matrix(base + "down_proj", {2, 64, 48})}, "{}");
  const auto names = outputs(plan_of(model, {.scheme = "block", .block = ScaleGrid{32, 32}}));
  EXPECT_EQ(names.size(), 12u);
  for (const std::string expert : {"0.", "1."})
    for (const char* text : {"gate_proj.weight F8_E4M3 48 64", "up_proj.weight F8_E4M3 48 64",
                             "up_proj.weight_scale_inv F32 2 2", "down_proj.weight F8_E4M3 64 48"})
      EXPECT_TRUE(names.contains(base + expert + text)) << expert << text;
  const Model turned(
      {matrix(base + "gate_up_proj", {3, 64, 96}), matrix(base + "down_proj", {3, 48, 64}), matrix("a.weight")},
      "{}");
  EXPECT_EQ(kept(plan_of(turned, {.scheme = "channel"})).size(), 2u);
}

TEST(QuantizePlan, AKThatGroupsDoNotDivideStays) {
  const Model model({matrix("a.weight", {32, 40}), matrix("b.weight")}, "{}");
  EXPECT_EQ(kept(plan_of(model, {.scheme = "mxfp8"})).at("a"), "K = 40 is not a multiple of 32");
  EXPECT_EQ(plan_of(model, {.scheme = "block"}).items(), 2u);
}

TEST(QuantizePlan, RefusesWhereThereIsNothingToDo) {
  const Model model({matrix("lm_head.weight")}, "{}");
  checkpoint::expect_throw([&] { plan_of(model, {.scheme = "block"}); }, ErrorKind::config, model.dir.path(), "",
                           {"no matrix to quantise", "inspect"});
  checkpoint::expect_throw([&] { plan_of(model, {.scheme = "none"}); }, ErrorKind::config, model.dir.path(), "",
                           {"no quantised layer"});
}

TEST(QuantizePlan, EveryQuantisedLayerNeedsItsClipAndNoOther) {
  const Model model({matrix("a.weight"), matrix("b.weight")}, "{}");
  const FormatTexts tensor{.scheme = "tensor"};
  checkpoint::expect_throw(
      [&] {
        plan_of(model, tensor, {}, {{"a", {1, 64}}});
      },
      ErrorKind::not_found, model.dir.path(), "b", {"--calibration", "--keep b"});
  checkpoint::expect_throw(
      [&] {
        plan_of(model, tensor, {}, {{"a", {1, 64}}, {"b", {1, 64}}, {"c", {1, 64}}});
      },
      ErrorKind::not_found, model.dir.path(), "c", {"no layer of that name"});
  checkpoint::expect_throw(
      [&] {
        plan_of(model, tensor, {}, {{"a", {1, 64}}, {"b", {1, 32}}});
      },
      ErrorKind::shape, model.dir.path(), "b", {"inputs of 64", "have 32"});
  EXPECT_EQ(plan_of(model, tensor, {"b"}, {{"a", {1, 64}}}).items(), 1u);
}

TEST(QuantizePlan, SaysWhatCannotBeCombined) {
  const auto refused = [](const FormatTexts& texts) {
    return error_of<std::invalid_argument>([&] { make_format(texts); });
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused({.scheme = "blocks"}), "block, channel, tensor");
  has(refused({.scheme = "channel", .dialect = "fp8"}), "scheme channel has compressed-tensors, modelopt");
  has(refused({.scheme = "mxfp8", .type = "e5m2"}), "scheme mxfp8 has e4m3fn");
  has(refused({.scheme = "mxfp8", .scale_type = "f32"}), "scheme mxfp8 has e8m0");
  has(refused({.scheme = "channel", .block = ScaleGrid{64, 64}}), "only scheme block");
  for (const ScaleGrid grid : {ScaleGrid{0, 0}, {1, 0}, {0, 128}})
    has(refused({.scheme = "block", .block = grid}), "one scale for each row is --scheme channel");
  has(refused({.scheme = "block", .dialect = "compressed-tensors", .type = "int8"}), "blockwise_int8");
  has(refused({.scheme = "block", .dialect = "modelopt", .type = "e5m2"}), "e4m3 alone");
  has(refused({.scheme = "none", .scale_type = "f32"}), "no scales");
  EXPECT_THROW(make_format({.scheme = "block"}).check_inputs(true), std::invalid_argument);
  EXPECT_THROW(make_format({.scheme = "tensor", .dialect = "modelopt"}).check_inputs(false), std::invalid_argument);
}

}  // namespace
}  // namespace ironcl::quantize

// SPDX-License-Identifier: Apache-2.0
// Names: order for readers, short lists, and the patterns of configs.
#include "host/checkpoint/names.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ironcl::checkpoint {
namespace {

TEST(Names, SortDigitsAsNumbers) {
  std::vector<std::string> names = {"layers.10.a", "layers.2.b", "layers.2.a", "layers.02.a", "embed", "layers"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names,
            (std::vector<std::string>{"embed", "layers", "layers.02.a", "layers.2.a", "layers.2.b", "layers.10.a"}));
  EXPECT_FALSE(natural_less("a1", "a1"));
}

TEST(Names, ListsAreCutWithACount) {
  EXPECT_EQ(list_names({}), "none");
  EXPECT_EQ(list_names({"a", "b", "c"}, 2), "a, b and 1 more");
  EXPECT_EQ(list_names({"a", "b"}, 2), "a, b");
}

TEST(ModuleNames, MatchWholePartsBetweenDots) {
  const ModuleNames names({"lm_head", "mlp.gate"});
  EXPECT_NE(names.find("lm_head"), nullptr);
  EXPECT_NE(names.find("model.layers.3.mlp.gate"), nullptr);
  EXPECT_EQ(names.find("model.layers.3.mlp.gate_proj"), nullptr);
  EXPECT_EQ(names.find("old_lm_head"), nullptr);
  EXPECT_EQ(*names.find("model.lm_head.0"), "lm_head");
}

TEST(ModuleNames, ExpressionsMatchFromTheStart) {
  const ModuleNames names({"re:.*self_attn.*", "re:visual"});
  EXPECT_NE(names.find("model.layers.0.self_attn.q_proj"), nullptr);
  EXPECT_NE(names.find("visual.blocks.0"), nullptr);
  EXPECT_EQ(names.find("model.visual"), nullptr);
  EXPECT_THROW(ModuleNames({"re:("}), std::runtime_error);
}

TEST(ModuleNames, LongNamesAndCostlyExpressionsEnd) {
  EXPECT_EQ(ModuleNames({"re:(a|b)*c"}).find(std::string(1'000'000, 'a')), nullptr);
  EXPECT_EQ(ModuleNames({"re:(a*)*(a*)*b"}).find(std::string(2000, 'a')), nullptr);
  // The longer the expression, the later Boost's own limit; and every name of a million may be as costly.
  std::string expression = "re:";
  for (int i = 0; i < 40; ++i) expression += "(a*,?)*";
  const ModuleNames names({expression + "b", "c"});
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(names.find(std::string(200, 'a') + std::to_string(i)), nullptr);
  EXPECT_NE(names.find("c"), nullptr);
}

}  // namespace
}  // namespace ironcl::checkpoint

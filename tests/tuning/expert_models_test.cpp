// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/expert_models.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ironcl::tuning {
namespace {

struct Published {
  const char* name;
  std::int64_t experts, top_k, hidden, width;
};
constexpr Published kPublished[] = {
    {"deepseek-v3", 256, 8, 7168, 2048},        {"qwen3-30b-a3b", 128, 8, 2048, 768},
    {"qwen3-235b-a22b", 128, 8, 4096, 1536},    {"qwen3-next-80b-a3b", 512, 10, 2048, 512},
    {"minimax-m2", 256, 8, 3072, 1536},         {"mixtral-8x7b", 8, 2, 4096, 14336},
    {"qwen3.8-flash-next", 512, 10, 2560, 640}, {"gpt-oss-120b", 128, 4, 2880, 2880},
    {"gpt-oss-20b", 32, 4, 2880, 2880},
};

TEST(ModelsOfExperts, HaveTheirPublishedSizes) {
  for (const Published& model : kPublished) {
    const layer::ExpertsForm form = experts_of(model.name, 1, 0);
    EXPECT_EQ(form.routing.experts, model.experts) << model.name;
    EXPECT_EQ(form.routing.top_k, model.top_k) << model.name;
    EXPECT_EQ(form.hidden, model.hidden) << model.name;
    EXPECT_EQ(form.experts.width, model.width) << model.name;
  }
  EXPECT_EQ(models_of_experts().size(), std::size(kPublished));
}

TEST(ModelsOfExperts, AreSplitByTheirWidth) {
  EXPECT_EQ(experts_of("qwen3-30b-a3b", 8, 0).experts.width, 96);
  EXPECT_EQ(experts_of("gpt-oss-120b", 8, 16).experts.width, 360);
  EXPECT_EQ(experts_of("gpt-oss-120b", 8, 16).routing.experts, 16);
  EXPECT_THROW(experts_of("gpt-oss-120b", 7, 0), std::invalid_argument);
  EXPECT_THROW(experts_of("qwen3-next-80b-a3b", 1, 9), std::invalid_argument);  // Ten of nine.
}

}  // namespace
}  // namespace ironcl::tuning

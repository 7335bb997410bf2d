// SPDX-License-Identifier: Apache-2.0
// Plans: VMEM figures of the published formula, what the engine allocates against what the plan says, block rules.
#include <gtest/gtest.h>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/program.h"
#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {
namespace {

Plan plan_of(const Case& c) {
  Problem problem;
  Plan plan;
  auto refusal = read_problem(desc_of(c), &problem);
  if (!refusal) refusal = make_plan(problem, read_options(c.options), &plan);
  EXPECT_FALSE(refusal) << refusal->text;
  return plan;
}

TEST(IronwoodPlan, FormulaGivesThePublishedBytes) {
  // bf16 x and out, quantised in the kernel by Q x Q blocks; several steps in every dimension.
  const auto formula = [](std::int64_t q, std::int64_t block) {
    const std::string blocks = std::to_string(block);
    return vmem_of(plan_of({.m = 8192,
                            .n = 8192,
                            .k = 8192,
                            .x = DType::bf16,
                            .quantize = true,
                            .x_grid = {q, q},
                            .w_grid = {q, q},
                            .d = DType::bf16,
                            .options = {{"kernel_blocks", blocks + "," + blocks + "," + blocks},
                                        {"vmem_limit_mib", "256"}}}))
        .formula_bytes;
  };
  EXPECT_EQ(formula(128, 128), 376'856);
  EXPECT_EQ(formula(256, 256), 1'507'352);
  EXPECT_EQ(formula(512, 512), 6'029'336);
  EXPECT_NEAR(static_cast<double>(formula(256, 1024)), 23.0 * kMiB, 0.01 * kMiB);
  EXPECT_EQ(formula(512, 2048), 96'469'376);
}

TEST(IronwoodPlan, FootprintIsWhatTheEngineAllocates) {
  for (const Case& c :
       {Case{.m = 300, .n = 600, .k = 850, .options = {{"kernel_blocks", "128,128,128"}}},
        Case{.m = 300,
        .n = 600,
        .k = 850,
        .x = DType::bf16,
        .quantize = true,
        .bias = DType::f32,
        .options = {{"kernel_blocks", "128,256,896"}}},
        Case{.m = 30, .n = 100, .k = 100, .x = DType::f32},
        Case{.m = 30,
        .n = 1000,
        .k = 3000,
        .x_grid = {1, 0},
        .w_grid = {1, 0},
        .options = {{"kernel_blocks", "32,256,512"}, {"buffers", "3"}}},
        Case{.m = 300, .n = 600, .k = 850, .bias = DType::f32, .options = {{"program", "manual_dma"}}},
        Case{.m = 1000, .n = 600, .k = 850, .x_grid = {128, 128}, .options = {{"buffers", "1"}}}}) {
    const Plan plan = plan_of(c);
    const auto totals = run_program(plan, c.m, describe_operands(plan, c.m), nullptr, nullptr);
    EXPECT_EQ(totals.core.vmem_bytes, vmem_of(plan).footprint_bytes) << print(c);
  }
}

TEST(IronwoodPlan, DefaultBlocksFitInTheirLimitAndStayLegal) {
  for (const char* limit : {"1", "4", "16", "32", "64"}) {
    const Plan plan = plan_of({.m = 5000,
                               .n = 7168,
                               .k = 16384,
                               .x = DType::f32,
                               .quantize = true,
                               .w_grid = {128, 128},
                               .options = {{"vmem_limit_mib", limit}}});
    EXPECT_LE(vmem_of(plan).footprint_bytes, std::stoll(limit) * kMiB);
    EXPECT_EQ(plan.blocks.o % 128, 0);
    EXPECT_EQ(plan.blocks.i % 128, 0);
  }
}

}  // namespace
}  // namespace ironcl::ironwood::testing

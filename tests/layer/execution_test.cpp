// SPDX-License-Identifier: Apache-2.0
// Problems on the devices of the toy plugin: one that is right, some that are wrong in one way each.
#include "host/layer/execution.h"

#include <gtest/gtest.h>

#include "backends/numerics/casts.h"
#include "host/layer/judge.h"
#include "host/layer/synthetic.h"
#include "tests/cli/scratch.h"
#include "tests/layer/devices.h"

namespace {

using namespace ironcl;
using namespace ironcl::cli_test;
using numerics::DType;

class ExecutionTest : public ::testing::Test {
 protected:
  const Registry registry = toys();
  const Device right = registry.device("toy:0");
};

/// One problem line for each way in which operands may come.
constexpr const char* kProblems[] = {
    "--src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 5x256:256x40",
    "--src=f32 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 --scale-dt=f32:bf16 33x300:300x40",
    "--dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 5x256:256x40",
    "--dt=e4m3fn:e4m3fn:f32 --scale=allxall:1xall 5x256:256x40",
    "--src=bf16 --dt=i8:i8:f32 --scale=1xall:1xall --bias=f32 5x256:256x40",
    "--dt=bf16:e4m3fn:f32 --scale=none:128x128 --bias=bf16 5x256:256x40",
    "--src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 0x256:256x40",
    "--src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=allxall:128x128 --quantizer=given 5x256:256x40",
};

TEST_F(ExecutionTest, AgreesWithTheOracleHoweverOperandsCome) {
  for (const char* line : kProblems) {
    const report::Problem problem = report::parse_problem(line);
    const layer::MadeOperands operands = layer::make_operands(problem, 3);
    layer::Execution execution(right, problem, operands);
    const layer::Check check = execution.check(layer::expect(problem, operands, 8));
    EXPECT_TRUE(check.pass) << line << ": " << check.why;
    EXPECT_EQ(check.unwritten, 0) << line;
    EXPECT_EQ(check.rows_checked, std::min<std::int64_t>(problem.m, 8)) << line;
    EXPECT_EQ(execution.run().device_ns, 2500) << line;
  }
}

TEST_F(ExecutionTest, TheFirstRowsOfMoreOperandsAreOperands) {
  for (const char* line : kProblems) {
    const report::Problem problem = report::parse_problem(line);
    report::Problem more = problem;
    more.m += 130;
    const layer::MadeOperands operands = layer::make_operands(more, 3);
    const layer::Operands first = layer::of_first_rows(problem, operands);
    EXPECT_EQ(first.a.size(), layer::make_operands(problem, 3).a.size()) << line;
    EXPECT_EQ(first.a_scale.size(), layer::make_operands(problem, 3).a_scale.size()) << line;
    const layer::Check check = layer::Execution(right, problem, first).check(layer::expect(problem, first, 8));
    EXPECT_TRUE(check.pass) << line << ": " << check.why;
  }
}

TEST_F(ExecutionTest, SeesABiasThatIsNotThere) {
  report::Problem problem = report::parse_problem(kProblems[4]);
  const layer::MadeOperands operands = layer::make_operands(problem, 3);
  const layer::Expected with_bias = layer::expect(problem, operands, 8);
  problem.bias = numerics::DType::none;
  const layer::Check check = layer::Execution(right, problem, operands).check(with_bias);
  EXPECT_FALSE(check.pass);
}

TEST_F(ExecutionTest, CountsWhatADeviceDidNotWrite) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    report::Problem problem = report::parse_problem(kProblems[0]);
    problem.d = type;
    const layer::MadeOperands operands = layer::make_operands(problem, 3);
    const layer::Check check =
        layer::Execution(registry.device("toy:5"), problem, operands).check(layer::expect(problem, operands, 8));
    EXPECT_FALSE(check.pass);
    EXPECT_EQ(check.unwritten, 5 * 40) << numerics::name_of(type);
    EXPECT_NE(check.why.find("200 elements of D were never written"), std::string::npos) << check.why;
  }
}

TEST_F(ExecutionTest, ShowsThePlansOwnQuantisationWhereAsked) {
  const report::Problem problem = report::parse_problem(kProblems[0]);
  const layer::MadeOperands operands = layer::make_operands(problem, 3);
  layer::Execution execution(right, problem, operands);
  EXPECT_FALSE(execution.compute().shows_quantized);
  const layer::Output output = execution.compute(true);
  ASSERT_TRUE(output.shows_quantized);
  const layer::QuantizedA must = layer::quantize_a(problem, operands);
  EXPECT_EQ(output.quantized.codes, must.codes);
  EXPECT_EQ(output.quantized.scales, must.scales);
}

TEST_F(ExecutionTest, SharesPreparedWeightsOfALayout) {
  const report::Problem problem = report::parse_problem(kProblems[0]);
  const layer::MadeOperands operands = layer::make_operands(problem, 3);
  layer::WeightsPool pool;
  const layer::Execution first(right, problem, operands, {.rotate_bytes = 3 * operands.b.size(), .pool = &pool});
  const layer::Execution second(right, problem, operands, {.rotate_bytes = 3 * operands.b.size(), .pool = &pool});
  EXPECT_EQ(first.copies(), 3u);
  EXPECT_GT(first.prepare_ns(), 0);
  EXPECT_EQ(second.prepare_ns(), 0) << "nothing was left to prepare";
}

TEST_F(ExecutionTest, ThrowsWhatTheDeviceAnswers) {
  const report::Problem problem = report::parse_problem(kProblems[0]);
  const layer::MadeOperands operands = layer::make_operands(problem, 3);
  EXPECT_THROW(layer::Execution(registry.device("toy:4"), problem, operands), Error);
  EXPECT_THROW(layer::Execution(registry.device("toy:3"), problem, operands).run(), Error);
}

TEST_F(ExecutionTest, AJudgeReportsEveryDeviceAsItIsDone) {
  const Scratch scratch;
  write_layer(scratch.path("layer.safetensors"), {1, 2, 3, 4});
  const auto checkpoint = checkpoint::Checkpoint::open(scratch.path("layer.safetensors"), {{{128, 128}}});
  const checkpoint::LinearLayer& layer = checkpoint.layer("weight");
  std::vector<std::string> seen;
  layer::JudgeSettings settings;
  settings.progress = [&seen](const layer::DeviceReport& report) { seen.push_back(report.uri); };
  const layer::CaseReport report =
      layer::judge(layer, layer::load_activations({}, layer), {right, registry.device("toy:1")}, settings);
  EXPECT_EQ(seen, (std::vector<std::string>{"toy:0", "toy:1"}));
  EXPECT_EQ(report.devices[0].verdict, layer::Verdict::pass) << report.devices[0].reason;
  EXPECT_EQ(report.devices[1].verdict, layer::Verdict::fail) << "it doubles a scale";
  EXPECT_TRUE(report.wrong());
}

TEST(SampledRows, HaveBothEnds) {
  EXPECT_EQ(layer::sample_rows(3, 8), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(layer::sample_rows(1000, 3), (std::vector<std::int64_t>{0, 499, 999}));
  EXPECT_TRUE(layer::sample_rows(0, 8).empty());
}

/// A D in codes is judged under its scales, and a scale that is another one shows.
TEST(QuantisedDOfARealDevice, IsRightUnderItsOwnScalesOnly) {
  const Device device = real_plugins().device("ironwood:0");
  for (const char* line : {"--src=bf16 --dt=e4m3fn:e4m3fn:e4m3fn --scale=1x128:128x128:1xall 21x256:256x300",
                           "--src=bf16 --dt=e4m3fn:e4m3fn:e5m2 --scale=1x128:128x128:1x32 --scale-dt=f32:f32:e8m0 "
                           "21x256:256x300"}) {
    const report::Problem problem = report::parse_problem(line);
    const layer::MadeOperands operands = layer::make_operands(problem, 3);
    layer::Execution execution(device, problem, operands);
    const layer::Expected expected = layer::expect(problem, operands, 8);
    const layer::Check check = execution.check(expected);
    EXPECT_TRUE(check.pass) << line << ": " << check.why;
    EXPECT_EQ(check.unwritten, 0) << line;
    layer::Output output = execution.compute();
    output.d_scales[0] ^= std::byte{1};
    output.d_scales[2] ^= std::byte{0x10};
    EXPECT_FALSE(layer::check(expected, output.d, 0, {}, output.d_scales).pass) << line;
  }
  const report::Problem blocks =
      report::parse_problem("--src=bf16 --dt=e4m3fn:e4m3fn:e4m3fn --scale=1x128:128x128:128x128 21x256:256x300");
  EXPECT_THROW(layer::Execution(device, blocks, layer::make_operands(blocks, 3)), Error);
}

}  // namespace

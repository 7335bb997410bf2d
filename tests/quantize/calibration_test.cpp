// SPDX-License-Identifier: Apache-2.0
// Static scales from recorded activations.
#include "host/quantize/calibration.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/checkpoint/support.h"

namespace ironcl::quantize {
namespace {

using checkpoint::ErrorKind;
using checkpoint::OwnTensor;

/// 10000 values of 1 to 2 and one of 100.
std::vector<float> with_outlier() {
  std::vector<float> x(10001, 1.0f);
  for (std::size_t i = 0; i < 10000; ++i) x[i] += static_cast<float>(i % 128) / 128;
  x[77] = -100;
  return x;
}

float clip(const std::vector<float>& x, const char* rule, DType code = DType::e4m3fn) {
  Magnitudes magnitudes;
  magnitudes.add(x);
  return magnitudes.clip(parse_clip_rule(rule), code);
}

TEST(Calibration, AmaxIsTheLargestMagnitude) { EXPECT_EQ(clip(with_outlier(), "amax"), 100); }

TEST(Calibration, APercentileLeavesOutWhatLiesAbove) {
  EXPECT_LT(clip(with_outlier(), "percentile"), 2);  // 99.9
  EXPECT_EQ(clip(with_outlier(), "percentile:100"), 100);
  EXPECT_NEAR(clip(with_outlier(), "percentile:50"), 1.5, 0.02);
}

TEST(Calibration, MseCutsOffAnOutlierWhereThatCostsLess) {
  // int8 has 127 equal steps; e4m3 holds small values beside large ones.
  std::vector<float> x = with_outlier();
  EXPECT_EQ(clip(x, "mse"), 100);
  for (int more = 0; more < 10; ++more) x.insert(x.end(), x.begin(), x.begin() + 70);
  x[77] = -8;
  const float cut = clip(x, "mse", DType::i8);
  EXPECT_LT(cut, 8);
  EXPECT_GT(cut, 1.9);
}

TEST(Calibration, CountsAllTensorsOfAModuleTogether) {
  const TempDir dir;
  checkpoint::save(dir / "a.safetensors",
                   {OwnTensor("m.q_proj", {2, 2}, {1, 2, 3, -4}), OwnTensor("m.up_proj.input", {1, 1}, {7})});
  checkpoint::save(dir / "b.safetensors", {OwnTensor("m.q_proj.input.1", {1, 2}, {5, 0})});
  const InputClips clips = calibrate(dir.path(), {}, DType::e4m3fn);
  EXPECT_EQ(clips, (InputClips{{"m.q_proj", {5, 2}}, {"m.up_proj", {7, 1}}}));
}

TEST(Calibration, RefusesWhatNoScaleFollowsFrom) {
  const TempDir dir;
  const auto file =
      checkpoint::save(dir / "nan.safetensors", {OwnTensor("m", {1, 1}, {std::numeric_limits<float>::infinity()})});
  checkpoint::expect_throw([&] { calibrate(file, {}, DType::e4m3fn); }, ErrorKind::value, file, "m", {"infinity"});
  const auto zero = checkpoint::save(dir / "zero.safetensors", {OwnTensor("m", {1, 1}, {0})});
  checkpoint::expect_throw([&] { calibrate(zero, {}, DType::e4m3fn); }, ErrorKind::value, zero, "m", {"all zeros"});
  const auto ints = checkpoint::save(dir / "int.safetensors", {OwnTensor("m", DType::i8, {1, 1})});
  checkpoint::expect_throw([&] { calibrate(ints, {}, DType::e4m3fn); }, ErrorKind::dtype, ints, "m", {"I8"});
  for (const char* rule : {"percentile:0", "percentile:101", "largest", "percentile:x"})
    EXPECT_THROW(parse_clip_rule(rule), std::invalid_argument) << rule;
}

}  // namespace
}  // namespace ironcl::quantize

// SPDX-License-Identifier: Apache-2.0
// Scale tensors: the shape each grid asks for, the block a shape implies, and values that cannot be scales.
#include <limits>

#include "host/checkpoint/block.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

const std::filesystem::path kFile = "f.safetensors";

Tensor shaped(const std::string& name, std::vector<std::int64_t> shape, DType dtype = DType::f32) {
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.dtype_name = file_dtype_of(dtype)->name;
  tensor.shape = std::move(shape);
  return tensor;
}

ScaleGrid implied(std::vector<std::int64_t> scale, std::int64_t n, std::int64_t k) {
  return grid_from_shape(shaped("s", std::move(scale)), kFile, shaped("w", {n, k}, DType::e4m3fn));
}

TEST(ScaleShape, IsCeilDividedInBothDimensions) {
  EXPECT_NO_THROW(check_scale_shape(shaped("s", {5, 16}), kFile, "w", 576, 2048, {128, 128}));
  expect_throw(
      [] {
        check_scale_shape(shaped("s", {4, 16}), kFile, "w", 576, 2048, {128, 128});
      },
      ErrorKind::shape, kFile, "s", {"is [4, 16], expected [5, 16]", "'w' [576, 2048]", "scales 128x128"});
  expect_throw(
      [] {
        check_scale_shape(shaped("s", {16, 5}), kFile, "w", 576, 2048, {128, 128});
      },
      ErrorKind::shape, kFile, "s", {"is [16, 5], expected [5, 16]"});
}

TEST(ScaleShape, OfAChannelOrATensorMayLackDimensions) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{576}, {576, 1}})
    EXPECT_NO_THROW(check_scale_shape(shaped("s", shape), kFile, "w", 576, 2048, {1, 0}));
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {1, 1}})
    EXPECT_NO_THROW(check_scale_shape(shaped("s", shape), kFile, "w", 576, 2048, {0, 0}));
  expect_throw(
      [] {
        check_scale_shape(shaped("s", {575}), kFile, "w", 576, 2048, {1, 0});
      },
      ErrorKind::shape, kFile, "s", {"is [575], expected [576, 1]", "per channel"});
  expect_throw(
      [] {
        check_scale_shape(shaped("s", {2}), kFile, "w", 576, 2048, {0, 0});
      },
      ErrorKind::shape, kFile, "s", {"is [2], expected [1, 1]", "per tensor"});
}

TEST(ScaleShape, ImpliesTheOnlyBlockThatFits) {
  for (const std::int64_t block : {32, 64, 128, 256, 512})
    EXPECT_EQ(implied({numerics::ceil_div(1536, block), numerics::ceil_div(7168, block)}, 1536, 7168),
              (ScaleGrid{block, block}));
  EXPECT_EQ(implied({5, 16}, 576, 2048), (ScaleGrid{128, 128}));
  EXPECT_EQ(implied({576, 64}, 576, 2048), (ScaleGrid{1, 32})) << "groups along K only";
  EXPECT_EQ(implied({576}, 576, 2048), (ScaleGrid{1, 0}));
  EXPECT_EQ(implied({576, 1}, 576, 2048), (ScaleGrid{1, 0}));
  EXPECT_EQ(implied({}, 576, 2048), (ScaleGrid{0, 0}));
  EXPECT_EQ(implied({1}, 576, 2048), (ScaleGrid{0, 0}));
  EXPECT_EQ(implied({1, 1}, 576, 2048), (ScaleGrid{0, 0})) << "no block of at most 512 covers the weight";
}

TEST(ScaleShape, OfOneElementIsPerTensor) {
  EXPECT_EQ(implied({1, 1}, 100, 120), (ScaleGrid{0, 0})) << "any block that covers the weight means the same";
  EXPECT_EQ(implied({1, 1}, 16, 500), (ScaleGrid{0, 0}));
  EXPECT_EQ(implied({1, 1, 1, 1}, 16, 500), (ScaleGrid{0, 0}));
}

TEST(ScaleShape, ThatNoBlockFitsSaysWhatItShouldBe) {
  expect_throw(
      [] {
        implied({5, 17}, 576, 2048);
      },
      ErrorKind::shape, kFile, "s",
      {"is [5, 17]", "'w' [576, 2048]", "[5, 16] for 128x128", "[3, 8] for 256x256", "[2, 4] for 512x512",
       "--block"});
}

TEST(ScaleType, IsF32F16Bf16OrE8m0) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e8m0})
    EXPECT_NO_THROW(check_scale_dtype(shaped("s", {}, dtype), kFile));
  for (const DType dtype : {DType::f64, DType::e4m3fn, DType::i8, DType::s32})
    expect_throw([&] { check_scale_dtype(shaped("s", {}, dtype), kFile); }, ErrorKind::dtype, kFile, "s",
                 {std::string(file_dtype_of(dtype)->name), "expected scales of F32, F16, BF16 or F8_E8M0"});
}

TEST(ScaleValues, MustBeFiniteAndNotNegative) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_NO_THROW(check_scale_values(OwnTensor("s", {2, 2}, {0.f, 1e-38f, 1, 3e38f}).view(), kFile));
  const std::vector<std::pair<float, std::string>> bad = {{NAN, "nan"}, {kInf, "inf"}, {-kInf, "-inf"}, {-1, "-1"}};
  for (const auto& [value, text] : bad)
    expect_throw(
        [&, v = value] {
          check_scale_values(OwnTensor("s", {2, 3}, {1, 1, 1, 1, 1, v}).view(), kFile);
        },
        ErrorKind::value, kFile, "s", {"scale [1, 2] is ", text});
}

TEST(ScaleValues, AreCheckedInEveryScaleType) {
  for (const auto& [dtype, fill] : {std::pair{DType::f16, 0xff}, {DType::bf16, 0xff}, {DType::e8m0, 0xff}})
    expect_throw(
        [&, d = dtype, f = fill] {
          check_scale_values(OwnTensor("s", d, {2}, static_cast<unsigned char>(f)).view(), kFile);
        },
        ErrorKind::value, kFile, "s", {"scale [0, 0] is", "nan"});
}

}  // namespace
}  // namespace ironcl::checkpoint

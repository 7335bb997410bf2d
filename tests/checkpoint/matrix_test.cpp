// SPDX-License-Identifier: Apache-2.0
// Inputs that a command line names.
#include "host/checkpoint/matrix.h"

#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

TEST(TensorRef, SplitsAtTheLastColonAndAtCommas) {
  const TensorRef one = parse_tensor_ref("dir/a:b.safetensors:y,z", 1);
  EXPECT_EQ(one.file, "dir/a:b.safetensors");
  EXPECT_EQ(one.tensors, std::vector<std::string>{"y,z"}) << "a comma belongs to a lone name";
  const TensorRef two = parse_tensor_ref("f:x_q,x_scale", 2);
  EXPECT_EQ(two.tensors, (std::vector<std::string>{"x_q", "x_scale"}));
}

TEST(TensorRef, RefusesOtherForms) {
  for (const std::string_view text : {"f", ":x", "", "f:"})
    expect_throw([&] { parse_tensor_ref(text, 1); }, ErrorKind::config, "", "",
                 {"'" + std::string(text) + "'", "expected FILE:TENSOR"});
  for (const std::string_view text : {"f:x", "f:x,", "f:x,y,z", "f:,x"})
    expect_throw([&] { parse_tensor_ref(text, 2); }, ErrorKind::config, "", "", {"expected FILE:VALUES,SCALES"});
}

TEST(Matrix, LoadsValuesOfEveryType) {
  const TempDir dir;
  const auto path =
      save(dir / "f", {OwnTensor("a", {2, 2}, {1, -2, 0.5f, 4}), OwnTensor("q", DType::e4m3fn, {1, 3}, 0x38),
                       OwnTensor("d", DType::f64, {1, 1})});
  const Matrix a = load_matrix(path, "a");
  EXPECT_EQ(a.rows, 2);
  EXPECT_EQ(a.cols, 2);
  EXPECT_EQ(a.to_f32(), (std::vector<float>{1, -2, 0.5f, 4}));
  EXPECT_EQ(load_matrix(path, "q").to_f64(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(load_matrix(path, "d").to_f32(), std::vector<float>{0});
}

TEST(Matrix, RefusesMissingTensorsOtherShapesAndOtherTypes) {
  const TempDir dir;
  const auto path = save(dir / "f", {OwnTensor("v", {2}, {1, 2}), OwnTensor("i", DType::s32, {1, 1})});
  expect_throw([&] { load_matrix(path, "x"); }, ErrorKind::not_found, path, "x", {"it has i, v"});
  expect_throw([&] { load_matrix(path, "v"); }, ErrorKind::shape, path, "v", {"is [2]", "two dimensions"});
  expect_throw([&] { load_matrix(path, "i"); }, ErrorKind::dtype, path, "i", {"is I32", "F8_E4M3"});
}

TEST(Scales, AreLoadedOnTheGridOfTheirOperand) {
  const TempDir dir;
  const auto path = save(dir / "f", {OwnTensor("s", {2, 3}, {1, 2, 3, 4, 5, 6}), OwnTensor("t", {2}, {1, 2}),
                                     OwnTensor("n", {2, 3}, {1, 2, 3, 4, NAN, 6})});
  const Matrix s = load_scales(path, "s", 2, 300, {1, 128});
  EXPECT_EQ(s.rows, 2);
  EXPECT_EQ(s.cols, 3);
  EXPECT_EQ(load_scales(path, "t", 2, 300, {1, 0}).cols, 1);
  expect_throw(
      [&] {
        load_scales(path, "s", 2, 300, {1, 64});
      },
      ErrorKind::shape, path, "s", {"is [2, 3], expected [2, 5]", "[2, 300]", "1x64"});
  expect_throw(
      [&] {
        load_scales(path, "n", 2, 300, {1, 128});
      },
      ErrorKind::value, path, "n", {"scale [1, 1] is nan"});
}

}  // namespace
}  // namespace ironcl::checkpoint

// SPDX-License-Identifier: Apache-2.0
// Activations that PyTorch quantised (amax / 448, floor 1e-10): codes and scales must come out bit for bit; and the
// f64 products of those layers against the oracle.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iostream>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "tests/numerics/fourteen_bits.h"
#include "tests/numerics/safetensors_file.h"

namespace {

using namespace ironcl::numerics;
using ironcl::test::SafetensorsFile;

struct Layer {
  const char* file;
  ScaleGrid activations, weights;
  bool in_repository;
};

void PrintTo(const Layer& layer, std::ostream* out) { *out << layer.file; }

class GoldenLayer : public testing::TestWithParam<Layer> {
 protected:
  void SetUp() override {
    path_ = GetParam().in_repository ? ironcl::test::repository_data(GetParam().file)
                                     : ironcl::test::external_data(GetParam().file);
    if (path_.empty()) GTEST_SKIP() << "set IRONCL_TEST_DATA to the folder that has " << GetParam().file;
  }
  std::filesystem::path path_;
};

TEST_P(GoldenLayer, ActivationsAreQuantisedBitForBit) {
  const SafetensorsFile file(path_);
  const auto& x = file["x"];
  const std::int64_t rows = x.shape.at(0), cols = x.shape.at(1);
  const auto want_codes = file["x_q"].as<std::uint8_t>();
  const auto want_scales = file["x_scale"].as<float>();
  std::vector<std::uint8_t> codes(want_codes.size());
  std::vector<float> scales(want_scales.size());
  quantize(ironcl::test::dtype_of(x), x.bytes.data(), rows, cols, cols, DType::e4m3fn, GetParam().activations, {},
           codes, scales);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(scales[i]), std::bit_cast<std::uint32_t>(want_scales[i])) << "scale " << i;
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    ASSERT_EQ(int{codes[i]}, int{want_codes[i]})
        << "row " << i / static_cast<std::size_t>(cols) << " column " << i % static_cast<std::size_t>(cols);
  }
}

OracleResult oracle_of(const SafetensorsFile& file, const Layer& layer) {
  return oracle(ironcl::test::operand_of(file["x_q"], &file["x_scale"], layer.activations),
                ironcl::test::operand_of(file["weight"], &file["weight_scale_inv"], layer.weights), DType::none,
                nullptr, AccuracyClass::tensor14);
}

TEST_P(GoldenLayer, OracleAgreesWithAnIndependentF64Product) {
  const SafetensorsFile file(path_);
  const OracleResult got = oracle_of(file, GetParam());
  const auto want = file["y_f64"].as<double>();
  ASSERT_EQ(got.value.size(), want.size());
  const auto k = static_cast<double>(file["x"].shape.at(1));
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_LE(std::fabs(got.value[i] - want[i]), 2 * k * 0x1p-53 * got.magnitude[i]) << "element " << i;
  }
}

// Layers that come with DeepGEMM's bf16 output.
class GoldenTensorCore : public GoldenLayer {};

TEST_P(GoldenTensorCore, IsInItsClassAndNotInTheStrongerOne) {
  const SafetensorsFile file(path_);
  const OracleResult want = oracle_of(file, GetParam());
  const auto& y = file["y_deepgemm"];
  std::vector<double> got(want.value.size());
  decode(ironcl::test::dtype_of(y), y.bytes.data(), std::span<double>(got));
  BoundTerms terms{.out = DType::bf16,
                   .accuracy = AccuracyClass::tensor14,
                   .k = file["x"].shape.at(1),
                   .accumulation_length = 128};
  const Comparison weak = compare(got, want, terms);
  EXPECT_TRUE(weak.pass) << weak.out_of_bounds << " elements, worst " << weak.max_error_over_bound;
  terms.accuracy = AccuracyClass::f32;
  const Comparison strong = compare(got, want, terms);
  EXPECT_FALSE(strong.pass) << "about 14 bits of accumulation should not look like 24";
  std::cout << GetParam().file << ": error over bound " << weak.max_error_over_bound << " as tensor14, "
            << strong.max_error_over_bound << " as f32 (" << strong.out_of_bounds << " of " << got.size()
            << " elements out), nmse " << weak.nmse << "\n";
}

TEST_P(GoldenTensorCore, IsTheEmulatedOneBitForBit) {
  // Another author's kernel on the same hardware: what tests/numerics/fourteen_bits.h says is not ours alone.
  const SafetensorsFile file(path_);
  const Operand a = ironcl::test::operand_of(file["x_q"], &file["x_scale"], GetParam().activations);
  const Operand b = ironcl::test::operand_of(file["weight"], &file["weight_scale_inv"], GetParam().weights);
  const auto y = file["y_deepgemm"].as<std::uint16_t>();
  const auto* a_codes = static_cast<const std::uint8_t*>(a.data);
  const auto* b_codes = static_cast<const std::uint8_t*>(b.data);
  const auto scale = [](const Operand& of, std::int64_t row, std::int64_t k) {
    return static_cast<float>(
        load_as_f64(of.scale_dtype, of.scales, of.grid.row_of(row) * of.scale_ld + of.grid.col_of(k)));
  };
  std::size_t different = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t col = 0; col < b.rows; ++col) {
      float total = 0;
      for (std::int64_t first = 0; first < a.cols; first += 128) {
        std::vector<ironcl::testing::Fp8Product> products;
        for (std::int64_t k = first; k < std::min(a.cols, first + 128); ++k)
          products.push_back(
              ironcl::testing::Fp8Product::of(a.dtype, a_codes[row * a.ld + k], b.dtype, b_codes[col * b.ld + k]));
        total = std::fma(scale(a, row, first) * scale(b, col, first),
                         static_cast<float>(ironcl::testing::sum_in_fourteen_bits(products)), total);
      }
      different += encode_bf16(total) != y[static_cast<std::size_t>(row * b.rows + col)] ? 1 : 0;
    }
  }
  EXPECT_EQ(different, 0u) << "of " << y.size();
}

const Layer kInRepository[] = {{"block128-bf16scale-m16-n448-k1152.safetensors", {1, 128}, {128, 128}, true}};
const Layer kWithTensorCore[] = {{"block128-m7-n576-k2048.safetensors", {1, 128}, {128, 128}, false},
                                 {"block128-m83-n1536-k1024.safetensors", {1, 128}, {128, 128}, false}};
const Layer kLargerBlocks[] = {{"block256-m33-n512-k1024.safetensors", {1, 256}, {256, 256}, false},
                               {"block512-2d-m512-n1024-k1024.safetensors", {512, 512}, {512, 512}, false}};
INSTANTIATE_TEST_SUITE_P(Repository, GoldenLayer, testing::ValuesIn(kInRepository));
INSTANTIATE_TEST_SUITE_P(External, GoldenLayer, testing::ValuesIn(kWithTensorCore));
INSTANTIATE_TEST_SUITE_P(ExternalLarger, GoldenLayer, testing::ValuesIn(kLargerBlocks));
INSTANTIATE_TEST_SUITE_P(Repository, GoldenTensorCore, testing::ValuesIn(kInRepository));
INSTANTIATE_TEST_SUITE_P(External, GoldenTensorCore, testing::ValuesIn(kWithTensorCore));

}  // namespace

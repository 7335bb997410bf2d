// SPDX-License-Identifier: Apache-2.0
// Activations that PyTorch quantised (amax / 448, floor 1e-10): codes and scales must come out bit for bit; and the
// f64 products of those layers against the oracle.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "host/checkpoint/safetensors.h"
#include "tests/numerics/fourteen_bits.h"

namespace {

using namespace ironcl::numerics;
using ironcl::checkpoint::SafetensorsFile;
using ironcl::checkpoint::Tensor;

/// The elements, copied.
template <class T>
std::vector<T> as(const Tensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(T));
  return values;
}

/// A matrix as an operand, with the scales on `grid`.
Operand operand_of(const Tensor& tensor, const Tensor& scales, ScaleGrid grid) {
  const std::int64_t rows = tensor.shape.at(0), cols = tensor.shape.at(1);
  return {tensor.dtype, tensor.data.data(), rows, cols, cols, scales.dtype, scales.data.data(),
          grid,         scales.shape.at(1)};
}

struct Layer {
  const char* file;
  ScaleGrid activations, weights;
  bool in_repository;
};

void PrintTo(const Layer& layer, std::ostream* out) { *out << layer.file; }

class GoldenLayer : public testing::TestWithParam<Layer> {
 protected:
  void SetUp() override {
    const char* const folder = GetParam().in_repository ? IRONCL_TESTS_DATA_DIR : std::getenv("IRONCL_TEST_DATA");
    if (folder == nullptr || *folder == '\0')
      GTEST_SKIP() << "set IRONCL_TEST_DATA to the folder that has " << GetParam().file;
    path_ = std::filesystem::path(folder) / GetParam().file;
  }
  std::filesystem::path path_;
};

TEST_P(GoldenLayer, ActivationsAreQuantisedBitForBit) {
  const SafetensorsFile file = SafetensorsFile::open(path_);
  const auto& x = file.at("x");
  const std::int64_t rows = x.shape.at(0), cols = x.shape.at(1);
  const auto want_codes = as<std::uint8_t>(file.at("x_q"));
  const auto want_scales = as<float>(file.at("x_scale"));
  std::vector<std::uint8_t> codes(want_codes.size());
  std::vector<float> scales(want_scales.size());
  quantize(x.dtype, x.data.data(), rows, cols, cols, DType::e4m3fn, GetParam().activations, {}, codes, scales);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(scales[i]), std::bit_cast<std::uint32_t>(want_scales[i])) << "scale " << i;
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    ASSERT_EQ(int{codes[i]}, int{want_codes[i]})
        << "row " << i / static_cast<std::size_t>(cols) << " column " << i % static_cast<std::size_t>(cols);
  }
}

OracleResult oracle_of(const SafetensorsFile& file, const Layer& layer) {
  return oracle(operand_of(file.at("x_q"), file.at("x_scale"), layer.activations),
                operand_of(file.at("weight"), file.at("weight_scale_inv"), layer.weights), DType::none, nullptr,
                AccuracyClass::tensor14);
}

TEST_P(GoldenLayer, OracleAgreesWithAnIndependentF64Product) {
  const SafetensorsFile file = SafetensorsFile::open(path_);
  const OracleResult got = oracle_of(file, GetParam());
  const auto want = as<double>(file.at("y_f64"));
  ASSERT_EQ(got.value.size(), want.size());
  const auto k = static_cast<double>(file.at("x").shape.at(1));
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_LE(std::fabs(got.value[i] - want[i]), 2 * k * 0x1p-53 * got.magnitude[i]) << "element " << i;
  }
}

// Layers that come with DeepGEMM's bf16 output.
class GoldenTensorCore : public GoldenLayer {};

TEST_P(GoldenTensorCore, IsInItsClassAndNotInTheStrongerOne) {
  const SafetensorsFile file = SafetensorsFile::open(path_);
  const OracleResult want = oracle_of(file, GetParam());
  const auto& y = file.at("y_deepgemm");
  std::vector<double> got(want.value.size());
  decode(y.dtype, y.data.data(), std::span<double>(got));
  BoundTerms terms{.out = DType::bf16,
                   .accuracy = AccuracyClass::tensor14,
                   .k = file.at("x").shape.at(1),
                   .accumulation_length = 128};
  const Comparison weak = compare(got, bounded(want, terms));
  EXPECT_TRUE(weak.pass) << weak.out_of_bounds << " elements, worst " << weak.max_error_over_bound;
  terms.accuracy = AccuracyClass::f32;
  const Comparison strong = compare(got, bounded(want, terms));
  EXPECT_FALSE(strong.pass) << "about 14 bits of accumulation should not look like 24";
  std::cout << GetParam().file << ": error over bound " << weak.max_error_over_bound << " as tensor14, "
            << strong.max_error_over_bound << " as f32 (" << strong.out_of_bounds << " of " << got.size()
            << " elements out), nmse " << weak.nmse << "\n";
}

TEST_P(GoldenTensorCore, IsTheEmulatedOneBitForBit) {
  // Another author's kernel on the same hardware: what tests/numerics/fourteen_bits.h says is not ours alone.
  const SafetensorsFile file = SafetensorsFile::open(path_);
  const Operand a = operand_of(file.at("x_q"), file.at("x_scale"), GetParam().activations);
  const Operand b = operand_of(file.at("weight"), file.at("weight_scale_inv"), GetParam().weights);
  const auto y = as<std::uint16_t>(file.at("y_deepgemm"));
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

// --- Every entry of tests/data/casts.safetensors: what ml_dtypes 0.6.0 makes of all bf16 and f16 bit patterns and of
// hard f32 values. Its casts do not saturate, and any NaN code stands for NaN.

const SafetensorsFile& golden() {
  static const SafetensorsFile file =
      SafetensorsFile::open(std::filesystem::path(IRONCL_TESTS_DATA_DIR) / "casts.safetensors");
  return file;
}

bool same_code(std::uint8_t got, std::uint8_t want, float (*decode)(std::uint8_t)) {
  return got == want || (std::isnan(decode(got)) && std::isnan(decode(want)));
}

// Casts each source value and compares with the golden byte; reports the first difference and the number of them.
template <class Source>
void expect_golden(const std::string& table, const std::vector<Source>& source, float (*to_f32)(Source),
                   std::uint8_t (*encode)(float, Overflow), float (*decode)(std::uint8_t)) {
  const auto want = as<std::uint8_t>(golden().at(table));
  ASSERT_EQ(want.size(), source.size());
  int wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const float value = to_f32(source[i]);
    const std::uint8_t got = encode(value, Overflow::plain);
    if (!same_code(got, want[i], decode) && wrong++ == 0) {
      ADD_FAILURE() << table << " entry " << i << ": " << value << " gives " << int{got} << ", expected "
                    << int{want[i]};
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << want.size() << " entries of " << table;
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}
float same(float value) { return value; }

TEST(CastsGolden, Bf16ToE4m3fnForAllPatterns) {
  expect_golden<std::uint16_t>("bf16_e4m3fn", all_patterns(), decode_bf16, encode_e4m3fn, decode_e4m3fn);
}
TEST(CastsGolden, Bf16ToE5m2ForAllPatterns) {
  expect_golden<std::uint16_t>("bf16_e5m2", all_patterns(), decode_bf16, encode_e5m2, decode_e5m2);
}
TEST(CastsGolden, F16ToE4m3fnForAllPatterns) {
  expect_golden<std::uint16_t>("f16_e4m3fn", all_patterns(), decode_f16, encode_e4m3fn, decode_e4m3fn);
}
TEST(CastsGolden, F16ToE5m2ForAllPatterns) {
  expect_golden<std::uint16_t>("f16_e5m2", all_patterns(), decode_f16, encode_e5m2, decode_e5m2);
}
TEST(CastsGolden, HardF32ValuesToE4m3fn) {
  expect_golden<float>("f32_e4m3fn", as<float>(golden().at("f32")), same, encode_e4m3fn, decode_e4m3fn);
}
TEST(CastsGolden, HardF32ValuesToE5m2) {
  expect_golden<float>("f32_e5m2", as<float>(golden().at("f32")), same, encode_e5m2, decode_e5m2);
}

void expect_decoding(const std::string& table, float (*decode)(std::uint8_t)) {
  const auto want = as<float>(golden().at(table));
  ASSERT_EQ(want.size(), 256u);
  for (int code = 0; code < 256; ++code) {
    const float got = decode(static_cast<std::uint8_t>(code));
    const float expected = want[static_cast<std::size_t>(code)];
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << table << " code " << code << " gives " << got;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected))
          << table << " code " << code;
    }
  }
}

TEST(CastsGolden, DecodesEveryE4m3fnCode) { expect_decoding("decode_e4m3fn", decode_e4m3fn); }
TEST(CastsGolden, DecodesEveryE5m2Code) { expect_decoding("decode_e5m2", decode_e5m2); }
TEST(CastsGolden, DecodesEveryE8m0Code) { expect_decoding("decode_e8m0", decode_e8m0); }

}  // namespace

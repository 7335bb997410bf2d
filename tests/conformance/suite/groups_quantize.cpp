// SPDX-License-Identifier: Apache-2.0
// Group Quantize: op_create and op_enqueue. Codes and scales are those of numerics::quantize
// bit for bit, whatever the grid, the leading dimensions and the types, and nothing else is written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/conformance/suite/groups.h"
#include "tests/conformance/suite/parts.h"

namespace ironcl::conformance {
namespace {

/// A matrix to quantise.
struct Matrix {
  std::int64_t rows = 37, cols = 300;
  std::int64_t called = -1;  ///< Rows of the call; -1: rows.
  std::int64_t x_pad = 0, code_pad = 0, scale_pad = 0;
  DType x = DType::f32, code = DType::e4m3fn;
  numerics::ScaleGrid grid{1, 128};
  numerics::Quantizer quantizer{};

  std::int64_t call_rows() const { return called < 0 ? rows : called; }
  std::int64_t scale_ld() const { return grid.scale_cols(cols) + scale_pad; }
  ironcl_quantize_desc desc() const {
    auto d = sized<ironcl_quantize_desc>();
    d.rows = rows, d.cols = cols;
    d.x_ld = x_pad == 0 ? 0 : cols + x_pad;
    d.code_ld = code_pad == 0 ? 0 : cols + code_pad;
    d.x_dtype = static_cast<ironcl_dtype>(x);
    d.code_dtype = static_cast<ironcl_dtype>(code);
    d.scale.dtype = IRONCL_F32;
    d.scale.group_rows = static_cast<std::uint32_t>(grid.group_rows);
    d.scale.group_cols = static_cast<std::uint32_t>(grid.group_cols);
    d.scale.ld = scale_pad == 0 ? 0 : scale_ld();
    d.quantizer = {static_cast<std::uint32_t>(quantizer.rounding), quantizer.amax_floor, 0, 0};
    return d;
  }
  std::string line() const {
    return fmt::format("rows={} of {} cols={} {} to {} in {}x{}, ld +{} +{} +{}", call_rows(), rows, cols,
                       numerics::name_of(x), numerics::name_of(code), grid.group_rows, grid.group_cols, x_pad,
                       code_pad, scale_pad);
  }
};

/// The bytes of X with hard values, NaN between its rows.
std::vector<std::byte> hard_values(Context& c, const Matrix& m) {
  Problem p;
  p.m = m.call_rows(), p.n = 1, p.k = m.cols;
  p.a_source = m.x;
  p.a_scale = {DType::f32, m.grid.group_rows, m.grid.group_cols, 0};
  Operands operands = make_operands(p);
  Random random(c.seed);
  fill_hard_activations(p, random, operands);
  return operands.a;
}

/// X, codes and scales of one call, made ready.
struct Bench {
  Queue queue;
  std::vector<std::byte> values;
  Part x, codes, scales;

  Bench(Context& c, const Matrix& m) : queue(make_queue(c)), values(hard_values(c, m)) {
    const std::int64_t rows = m.call_rows();
    x = part(c, queue.get(), extent(rows, m.cols + m.x_pad, m.cols, numerics::size_of(m.x)));
    upload_values(c, m);
    codes = part(c, queue.get(), extent(rows, m.cols + m.code_pad, m.cols, 1));
    scales = part(c, queue.get(), extent(m.grid.scale_rows(rows), m.scale_ld(), m.grid.scale_cols(m.cols), 4));
  }
  void upload_values(Context& c, const Matrix& m) const {
    if (m.call_rows() == 0) return;
    upload(c, queue.get(), x.buffer.get(), x.offset, spread(m.x, values, m.call_rows(), m.cols, m.cols + m.x_pad, 0));
  }
  ironcl_quantize_args args(const Matrix& m) const {
    auto a = sized<ironcl_quantize_args>();
    a.rows = m.call_rows();
    a.x = x.span(), a.codes = codes.span(), a.scales = scales.span();
    return a;
  }
};

void expect_right(Context& c, const Matrix& m, const Bench& bench) {
  const std::int64_t rows = m.call_rows(), scale_rows = m.grid.scale_rows(rows),
                     scale_cols = m.grid.scale_cols(m.cols);
  std::vector<std::uint8_t> want(static_cast<std::size_t>(rows * m.cols));
  std::vector<float> want_scales(static_cast<std::size_t>(scale_rows * scale_cols));
  numerics::quantize(m.x, bench.values.data(), rows, m.cols, m.cols, m.code, m.grid, m.quantizer, want, want_scales);
  const auto codes = collect(c, bench.queue.get(), bench.codes, rows, m.cols, m.cols + m.code_pad, 1, "codes");
  const auto scales = collect(c, bench.queue.get(), bench.scales, scale_rows, scale_cols, m.scale_ld(), 4, "scales");
  for (std::size_t i = 0; i < want_scales.size(); ++i) {
    float got = 0;
    std::memcpy(&got, scales.data() + i * 4, 4);
    if (std::isnan(got) && std::isnan(want_scales[i])) continue;
    ASSERT_EQ(std::memcmp(&got, &want_scales[i], 4), 0)
        << fmt::format("scales[{}, {}] = {:a}, expected {:a}   [{}]", i / static_cast<std::size_t>(scale_cols),
                       i % static_cast<std::size_t>(scale_cols), got, want_scales[i], m.line());
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(static_cast<unsigned>(codes[i]), unsigned{want[i]}) << fmt::format(
        "codes[{}, {}]   [{}]", i / static_cast<std::size_t>(m.cols), i % static_cast<std::size_t>(m.cols), m.line());
  }
}

void waits_for_its_list(Context& c) {
  const Matrix m{.rows = 64, .cols = 640};
  Bench bench(c, m);
  run_after_product(c, m, bench, m.rows, m.cols, bench.values, &ironcl_quantize_args::x);
}

constexpr Wrong<ironcl_quantize_desc> kWrongQuantizers[] = {
    {"rows", kInvalid, [](auto& d) { d.rows = -1; }},
    {"rows", kInvalid, [](auto& d) { d.rows = int64_t{1} << 31; }},
    {"cols", kInvalid, [](auto& d) { d.cols = 0; }},
    {"x_ld", kInvalid, [](auto& d) { d.x_ld = d.cols - 1; }},
    {"code_ld", kInvalid, [](auto& d) { d.code_ld = -d.cols; }},
    {"x", kInvalid, [](auto& d) { d.x_ld = std::numeric_limits<int64_t>::max() / 2; }},
    {"x_dtype", kInvalid, [](auto& d) { d.x_dtype = IRONCL_F8_E4M3FN; }},
    {"code_dtype", kInvalid, [](auto& d) { d.code_dtype = IRONCL_F32; }},
    {"scale.dtype", kInvalid, [](auto& d) { d.scale.dtype = IRONCL_BF16; }},
    {"scale.ld", kInvalid, [](auto& d) { d.scale.ld = 1; }},
    {"amax_floor", kInvalid, [](auto& d) { d.quantizer.amax_floor = -1; }},
    {"flags", kUnknown, [](auto& d) { d.flags = 1u << 20; }},
    {"scale_rounding", kUnknown, [](auto& d) { d.quantizer.scale_rounding = 77; }},
    {"code_dtype", kUnknown, [](auto& d) { d.code_dtype = 77; }},
};

void wrong_quantizers(Context& c) { expect_wrong(c, Matrix{}.desc(), kWrongQuantizers); }

constexpr Wrong<ironcl_quantize_args> kWrongQuantizeCalls[] = {
    {"rows", kInvalid, [](auto& a) { a.rows += 1; }},
    {"rows", kInvalid, [](auto& a) { a.rows = -1; }},
    {"x", kInvalid, [](auto& a) { a.x = {}; }},
    {"codes", kInvalid, [](auto& a) { a.codes.size -= 1; }},
    {"scales", kInvalid, [](auto& a) { a.scales.size -= 1; }},
    {"scales", kInvalid, [](auto& a) { a.scales.offset |= 1; }},
    {"codes", kInvalid, [](auto& a) { a.codes.offset += 1 << 20; }},
    {"codes", kInvalid, [](auto& a) { a.codes.buffer = a.x.buffer, a.codes.offset = a.x.offset; }},
    {"wait", kInvalid, [](auto& a) { a.wait_count = 1; }},
};

void wrong_quantize_calls(Context& c) { expect_wrong_steps<Bench>(c, Matrix{}, kWrongQuantizeCalls); }

}  // namespace

void add_quantize_tests(Suite& suite) {
  const auto add = [&suite](const std::string& name, const Matrix& m, bool floor = false, bool heavy = false) {
    suite.add(
        "Quantize", name, Needs::quantize, [m](Context& c) { run_twice<Bench>(c, m); }, floor, heavy);
  };
  for (const auto x : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto code : {DType::e4m3fn, DType::e5m2, DType::i8}) {
      const std::string types = fmt::format("{}To{}", numerics::name_of(x), numerics::name_of(code));
      const bool floor = code == DType::e4m3fn, heavy = !floor && x != DType::bf16;
      add("Groups1x128From" + types, {.x = x, .code = code}, floor, heavy);
      add("Blocks128From" + types, {.rows = 200, .x = x, .code = code, .grid = {128, 128}}, floor, heavy);
    }
  }
  struct Named {
    const char* name;
    numerics::ScaleGrid grid;
  };
  for (const Named& g :
       {Named{"1x32", {1, 32}}, Named{"1x64", {1, 64}}, Named{"1x256", {1, 256}}, Named{"PerToken", {1, 0}},
        Named{"PerTensor", {0, 0}}, Named{"64x64", {64, 64}}, Named{"256x256", {256, 256}}, Named{"3x7", {3, 7}},
        Named{"1x1", {1, 1}}, Named{"128x1", {128, 1}}}) {
    add(fmt::format("Grid{}", g.name), {.rows = 131, .cols = 531, .x = DType::bf16, .grid = g.grid});
  }
  for (const std::int64_t cols : {1, 15, 16, 17, 127, 128, 129, 143}) {
    add(fmt::format("Cols{}", cols), {.rows = 9, .cols = cols}, true);
  }
  add("GapsBetweenRows", {.x_pad = 5, .code_pad = 3, .scale_pad = 2, .x = DType::bf16}, true);
  add("GapsBetweenRowsOfBlocks",
      {.rows = 150, .x_pad = 8, .code_pad = 20, .scale_pad = 1, .x = DType::f16, .grid = {128, 128}}, true);
  add("FewerRowsThanDescribed", {.rows = 300, .called = 129, .grid = {128, 128}}, true);
  add("OneRow", {.rows = 1, .cols = 4096}, true);
  add("OneElement", {.rows = 1, .cols = 1});
  add("NoRowsWriteNothing", {.rows = 16, .called = 0}, true);
  Matrix m;
  m.quantizer.rounding = numerics::ScaleRounding::power_of_two;
  add("PowerOfTwoScales", m, true);
  m.quantizer = {.amax_floor = 1e-4f};
  add("AFloorOfOneTenThousandth", m, true);
  m.quantizer = {.amax_floor = 1e-38f};  // scales of 2e-41: subnormal
  add("SubnormalScales", m);
  suite.add("Quantize", "WaitsForItsWaitList", Needs::quantize, waits_for_its_list);
  suite.add("Quantize", "WrongDescriptionsAreNamed", Needs::quantize, wrong_quantizers);
  suite.add("Quantize", "WrongCallsAreNamed", Needs::quantize, wrong_quantize_calls);
}

}  // namespace ironcl::conformance

// SPDX-License-Identifier: Apache-2.0
// Group Activate: activation(gate, up), quantised or not, within the bound of f64; and only of rows that a matrix
// has.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/experts_oracle.h"
#include "tests/activated.h"
#include "tests/conformance/suite/groups.h"
#include "tests/conformance/suite/parts.h"
#include "tests/quantized_output.h"

namespace ironcl::conformance {
namespace {

/// An activation and its call.
struct Activated {
  std::int64_t rows = 37, cols = 200;
  std::int64_t called = -1;  ///< Rows of the call; -1: rows.
  std::int64_t gate_pad = 0, up_pad = 0, y_pad = 0, scale_pad = 0;
  bool halves = false;  ///< gate and up are the halves of the rows of one matrix.
  DType x = DType::bf16, y = DType::f32;
  numerics::Activation activation = numerics::Activation::silu;
  float limit = 0;
  std::uint32_t grouping = IRONCL_GROUPING_NONE;
  std::vector<std::int32_t> counts{};
  std::int64_t group_cols = 128;
  numerics::Quantizer quantizer{};
  bool hard = false;  ///< Values at the ends of the range, NaN and infinity among them.

  bool masked() const { return grouping == IRONCL_GROUPING_MASKED; }
  std::int64_t call_rows() const { return called < 0 ? rows : called; }
  std::int64_t all_rows() const { return (masked() ? std::ssize(counts) : 1) * call_rows(); }
  bool quantised() const { return numerics::is_quantized(y); }
  numerics::ScaleGrid grid() const { return {1, group_cols}; }
  std::int64_t gate_ld() const { return halves ? 2 * cols : cols + gate_pad; }
  std::int64_t up_ld() const { return halves ? 2 * cols : cols + up_pad; }
  std::int64_t scale_ld() const { return grid().scale_cols(cols) + scale_pad; }
  ironcl_activate_desc desc() const;
  std::string line() const;
};

ironcl_activate_desc Activated::desc() const {
  auto d = sized<ironcl_activate_desc>();
  d.rows = rows, d.cols = cols;
  d.gate_ld = gate_ld() == cols ? 0 : gate_ld();
  d.up_ld = up_ld() == cols ? 0 : up_ld();
  d.y_ld = y_pad == 0 ? 0 : cols + y_pad;
  d.x_dtype = static_cast<ironcl_dtype>(x), d.y_dtype = static_cast<ironcl_dtype>(y);
  d.activation = static_cast<std::uint32_t>(activation), d.limit = limit;
  d.grouping = grouping, d.matrices = static_cast<std::uint32_t>(counts.size());
  if (quantised()) {
    d.scale.dtype = IRONCL_F32;
    d.scale.group_rows = 1, d.scale.group_cols = static_cast<std::uint32_t>(group_cols);
    d.scale.ld = scale_pad == 0 ? 0 : scale_ld();
    d.quantizer = {static_cast<std::uint32_t>(quantizer.rounding), quantizer.amax_floor, 0, 0};
  }
  return d;
}

std::string Activated::line() const {
  return fmt::format("rows={} of {} cols={} {} to {} groups of {}, limit {}, grouping {} of {}", call_rows(), rows,
                     cols, numerics::name_of(x), numerics::name_of(y), group_cols, limit, grouping, counts.size());
}

/// Which rows a matrix has.
std::vector<bool> rows_in_use(const Activated& a) {
  std::vector<bool> used(at(a.all_rows()), a.grouping == IRONCL_GROUPING_NONE);
  if (a.grouping == IRONCL_GROUPING_NONE) return used;
  std::vector<std::int64_t> begin(a.counts.size()), count(a.counts.size());
  numerics::clamp_counts(a.counts, a.call_rows(), a.masked(), begin, count);
  for (std::size_t g = 0; g < begin.size(); ++g) std::fill_n(used.begin() + begin[g], count[g], true);
  return used;
}

/// Values [all rows, cols], tight; rows that nobody has are NaN.
std::vector<std::byte> make_values(const Activated& a, Random& random) {
  const std::vector<bool> used = rows_in_use(a);
  std::vector<std::byte> out(at(a.all_rows() * a.cols) * numerics::size_of(a.x));
  for (std::int64_t i = 0; i < a.all_rows() * a.cols; ++i) {
    double value = random.normal() * std::exp2(2 * random.normal());
    if (a.hard) {
      const double u = random.uniform(), ends[] = {10 * u - 90, 20 * u + 80, -1e4 * u, 1e4 * u, 0, -0.0};
      if (const std::size_t kind = at(random.between(0, 11)); kind < std::size(ends)) value = ends[kind];
      if (i / a.cols % 9 == 4 && i % a.cols == 3) value = std::numeric_limits<double>::quiet_NaN();
    }
    if (!used[at(i / a.cols)]) value = std::numeric_limits<double>::quiet_NaN();
    store(a.x, out, i, value);
  }
  return out;
}

/// The spans of one call, made ready.
struct Bench {
  Queue queue;
  std::vector<std::byte> gates, ups;
  Part gate, up, y, scales, counts;
  std::uint64_t up_from = 0;

  Bench(Context& c, const Activated& a) : queue(make_queue(c)) {
    Random random(c.seed);
    gates = make_values(a, random), ups = make_values(a, random);
    const ironcl_queue q = queue.get();
    const std::int64_t rows = a.all_rows();
    const std::size_t element = numerics::size_of(a.x);
    if (a.halves) {
      std::vector<std::byte> both(gates.size() * 2);
      const std::size_t bytes = at(a.cols) * element;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto from = static_cast<std::ptrdiff_t>(at(row) * bytes);
        std::copy_n(gates.begin() + from, bytes, both.begin() + 2 * from);
        std::copy_n(ups.begin() + from, bytes, both.begin() + 2 * from + static_cast<std::ptrdiff_t>(bytes));
      }
      gate = part(c, q, both);
      up_from = bytes;
    } else {
      gate = part(c, q, spread(a.x, gates, rows, a.cols, a.gate_ld(), 0));
      up = part(c, q, spread(a.x, ups, rows, a.cols, a.up_ld(), 0));
    }
    y = part(c, q, extent(rows, a.cols + a.y_pad, a.cols, numerics::size_of(a.y)));
    if (a.quantised()) scales = part(c, q, extent(rows, a.scale_ld(), a.grid().scale_cols(a.cols), 4));
    if (a.grouping != IRONCL_GROUPING_NONE) counts = part(c, q, bytes_of(a.counts));
  }
  ironcl_activate_args args(const Activated& a) const {
    auto out = sized<ironcl_activate_args>();
    out.rows = a.call_rows();
    out.gate = gate.span(), out.up = up.span(), out.y = y.span();
    if (a.halves) out.up = {gate.buffer.get(), gate.offset + up_from, gate.size - up_from};
    out.scales = scales.span(), out.matrix_rows = counts.span();
    return out;
  }
};

/// The oracle of the rows in use, one after another.
numerics::Bounded expected(const Activated& a, const Bench& bench, const std::vector<bool>& used) {
  numerics::Bounded out{0, a.cols, {}, {}, a.quantised() ? DType::f32 : a.y};
  for (std::int64_t row = 0; row < a.all_rows(); ++row) {
    if (!used[at(row)]) continue;
    ++out.rows;
    for (std::int64_t i = row * a.cols; i < (row + 1) * a.cols; ++i) {
      testing::append(out, numerics::activation_oracle(
                               a.activation, numerics::load_as_f64(a.x, bench.gates.data(), i),
                               numerics::load_as_f64(a.x, bench.ups.data(), i), static_cast<double>(a.limit)));
    }
  }
  return out;
}

/// Rows in use of a tight matrix; the others must be as they were.
std::vector<std::byte> only_used(const std::vector<std::byte>& tight, const std::vector<bool>& used,
                                 const char* name) {
  std::vector<std::byte> out;
  const std::size_t bytes = used.empty() ? 0 : tight.size() / used.size();
  for (std::size_t row = 0; row < used.size(); ++row) {
    const auto begin = tight.begin() + static_cast<std::ptrdiff_t>(row * bytes);
    const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
    if (used[row]) {
      out.insert(out.end(), begin, end);
    } else {
      EXPECT_TRUE(std::all_of(begin, end, [](std::byte b) { return b == kPattern; }))
          << "row " << row << " of " << name << " is no matrix's and was written";
    }
  }
  return out;
}

/// Y's bytes of the rows in use, and its scales.
struct Result {
  std::vector<std::byte> y;
  std::vector<float> scales;
};

Result result(Context& c, const Activated& a, const Bench& bench) {
  const std::vector<bool> used = rows_in_use(a);
  const std::int64_t rows = a.all_rows(), width = a.grid().scale_cols(a.cols);
  Result out;
  out.y = only_used(
      collect(c, bench.queue.get(), bench.y, rows, a.cols, a.cols + a.y_pad, numerics::size_of(a.y), "Y"), used, "Y");
  if (a.quantised()) {
    out.scales = values_of<float>(only_used(
        collect(c, bench.queue.get(), bench.scales, rows, width, a.scale_ld(), 4, "scales"), used, "scales"));
  }
  return out;
}

void expect_right(Context& c, const Activated& a, const Bench& bench) {
  const Result got = result(c, a, bench);
  const numerics::Bounded want = expected(a, bench, rows_in_use(a));
  std::vector<double> values(want.value.size());
  ASSERT_EQ(got.y.size(), values.size() * numerics::size_of(a.y));
  if (values.empty()) return;
  numerics::decode(a.y, got.y.data(), std::span<double>(values));
  const numerics::Comparison verdict =
      a.quantised() ? compare_quantized(values, a.y, got.scales, a.grid(), a.quantizer, want) : compare(values, want);
  EXPECT_TRUE(verdict.pass) << fmt::format(
      "{} of {} elements are out of bounds, the worst in row {} of those in use, column {}: {:.9g}, expected {:.9g}, "
      "{:.3g} times the bound   [{}]",
      verdict.out_of_bounds, values.size(), verdict.worst_row, verdict.worst_col, verdict.worst_got,
      verdict.worst_want, verdict.max_error_over_bound, a.line());
}

/// Codes and scales are what the quantiser makes of the device's own f32 values.
void codes_are_of_its_f32_values(Context& c) {
  for (const DType code : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    Activated a{.rows = 20, .cols = 300};
    Activated coded = a;
    coded.y = code;
    const Op plain = make_op(c, a), quantising = make_op(c, coded);
    const Bench one(c, a), two(c, coded);
    call(c, a, plain, one);
    call(c, coded, quantising, two);
    const auto values = values_of<float>(result(c, a, one).y);
    const Result got = result(c, coded, two);
    std::vector<std::uint8_t> codes(values.size());
    std::vector<float> scales(got.scales.size());
    numerics::quantize(DType::f32, values.data(), a.rows, a.cols, a.cols, code, coded.grid(), coded.quantizer, codes,
                       scales);
    EXPECT_EQ(got.scales, scales) << numerics::name_of(code);
    EXPECT_EQ(values_of<std::uint8_t>(got.y), codes) << numerics::name_of(code);
  }
}

void waits_for_its_list(Context& c) {
  Activated a{.rows = 64, .cols = 640, .x = DType::f32};
  Bench bench(c, a);
  run_after_product(c, a, bench, a.rows, a.cols, bench.gates, &ironcl_activate_args::gate);
}

constexpr Wrong<ironcl_activate_desc> kWrongActivations[] = {
    {"rows", kInvalid, [](auto& d) { d.rows = -1; }},
    {"cols", kInvalid, [](auto& d) { d.cols = 0; }},
    {"gate_ld", kInvalid, [](auto& d) { d.gate_ld = d.cols - 1; }},
    {"up_ld", kInvalid, [](auto& d) { d.up_ld = d.cols - 1; }},
    {"y_ld", kInvalid, [](auto& d) { d.y_ld = -d.cols; }},
    {"x_dtype", kInvalid, [](auto& d) { d.x_dtype = IRONCL_F8_E4M3FN; }},
    {"y_dtype", kInvalid, [](auto& d) { d.y_dtype = IRONCL_S32; }},
    {"scale.dtype", kInvalid, [](auto& d) { d.scale = {}; }},
    {"scale.dtype", kInvalid, [](auto& d) { d.y_dtype = IRONCL_BF16; }},
    {"scale.group_rows", kInvalid, [](auto& d) { d.scale.group_rows = 128; }},
    {"activation", kInvalid, [](auto& d) { d.activation = 0; }},
    {"limit", kInvalid, [](auto& d) { d.limit = -1; }},
    {"matrices", kInvalid, [](auto& d) { d.matrices = 4; }},
    {"matrices", kInvalid, [](auto& d) { d.grouping = IRONCL_GROUPING_MASKED; }},
    {"flags", kUnknown, [](auto& d) { d.flags = 1u << 20; }},
    {"activation", kUnknown, [](auto& d) { d.activation = 77; }},
    {"grouping", kUnknown, [](auto& d) { d.grouping = 77; }},
};

void wrong_activations(Context& c) { expect_wrong(c, Activated{.y = DType::e4m3fn}.desc(), kWrongActivations); }

constexpr Wrong<ironcl_activate_args> kWrongActivateCalls[] = {
    {"rows", kInvalid, [](auto& x) { x.rows += 1; }},
    {"gate", kInvalid, [](auto& x) { x.gate = {}; }},
    {"up", kInvalid, [](auto& x) { x.up.size -= 1; }},
    {"y", kInvalid, [](auto& x) { x.y = {}; }},
    {"scales", kInvalid, [](auto& x) { x.scales.size -= 1; }},
    {"matrix_rows", kInvalid, [](auto& x) { x.matrix_rows = {}; }},
    {"y", kInvalid, [](auto& x) { x.y.buffer = x.gate.buffer, x.y.offset = x.gate.offset; }},
    {"wait", kInvalid, [](auto& x) { x.wait_count = 1; }},
};

void wrong_activate_calls(Context& c) {
  const Activated a{.y = DType::e4m3fn, .grouping = IRONCL_GROUPING_CONTIGUOUS, .counts = {7, 0, 20}};
  expect_wrong_steps<Bench>(c, a, kWrongActivateCalls);
}

}  // namespace

void add_activate_tests(Suite& suite) {
  const auto add = [&suite](const std::string& name, const Activated& a, bool floor = true, bool heavy = false) {
    suite.add(
        "Activate", name, Needs::experts, [a](Context& c) { run_twice<Bench>(c, a); }, floor, heavy);
  };
  // A pair of types makes some devices compile a kernel: in the normal run each type meets bf16 or f32.
  for (const DType x : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType y : {DType::f32, DType::f16, DType::bf16, DType::e4m3fn, DType::e5m2, DType::i8}) {
      add(fmt::format("{}To{}", numerics::name_of(x), numerics::name_of(y)), {.x = x, .y = y},
          x == DType::bf16 && y != DType::i8 && y != DType::e5m2, x != DType::bf16 && y != DType::f32);
    }
    add(fmt::format("HardValuesOf{}", numerics::name_of(x)), {.x = x, .hard = true});
    add(fmt::format("HardValuesOf{}QuantisedToE4m3", numerics::name_of(x)),
        {.x = x, .y = DType::e4m3fn, .hard = true}, true, x != DType::bf16);
  }
  const auto oai = numerics::Activation::swiglu_oai;
  add("SwigluOfGptOss", {.activation = oai, .limit = 7, .hard = true});
  add("SwigluOfGptOssQuantised", {.y = DType::e4m3fn, .activation = oai, .limit = 7});
  add("SwigluWithoutALimit", {.activation = oai});
  add("SiluWithALimit", {.y = DType::bf16, .limit = 10, .hard = true});
  for (const std::int64_t cols : {1, 15, 96, 127, 128, 129, 640, 1536}) {
    add(fmt::format("Cols{}", cols), {.rows = 9, .cols = cols, .y = DType::e4m3fn});
  }
  add("PerToken", {.y = DType::e4m3fn, .group_cols = 0});
  add("Groups32", {.y = DType::e4m3fn, .group_cols = 32});
  add("Groups64", {.y = DType::e4m3fn, .group_cols = 64});
  Activated a{.y = DType::e4m3fn};
  a.quantizer.rounding = numerics::ScaleRounding::power_of_two;
  add("PowerOfTwoScales", a);
  add("GapsBetweenRows", {.gate_pad = 8, .up_pad = 16, .y_pad = 3, .scale_pad = 1, .y = DType::e4m3fn});
  add("HalvesOfRows", {.cols = 256, .halves = true, .y = DType::e4m3fn});
  add("HalvesOfRowsInF32", {.cols = 256, .halves = true, .x = DType::f32});
  add("FewerRowsThanDescribed", {.rows = 64, .called = 11, .y = DType::e4m3fn});
  add("NoRowsWriteNothing", {.rows = 16, .called = 0});
  constexpr std::int32_t kMost = 0x7fffffff;
  const std::pair<const char*, std::vector<std::int32_t>> all[] = {
      {"RowsLeftOver", {7, 0, 12, 1}},
      {"AllEmpty", {0, 0, 0}},
      {"AllRows", {30, 7}},
      {"NegativeCounts", {5, -9, 4, -kMost - 1}},
      {"EnormousCounts", {3, kMost, kMost}},
      {"AHundredMatrices", std::vector<std::int32_t>(100, 1)},
  };
  for (const auto& [name, counts] : all) {
    for (const DType y : {DType::bf16, DType::e4m3fn}) {
      Activated grouped{.rows = 37, .y = y, .grouping = IRONCL_GROUPING_CONTIGUOUS, .counts = counts};
      add(fmt::format("Contiguous{}To{}", name, numerics::name_of(y)), grouped);
      if (counts.size() > 10) continue;
      grouped.grouping = IRONCL_GROUPING_MASKED, grouped.rows = 13;
      add(fmt::format("Masked{}To{}", name, numerics::name_of(y)), grouped);
    }
  }
  suite.add("Activate", "CodesAreThoseOfItsF32Values", Needs::experts, codes_are_of_its_f32_values);
  suite.add("Activate", "WaitsForItsWaitList", Needs::experts, waits_for_its_list);
  suite.add("Activate", "WrongDescriptionsAreNamed", Needs::experts, wrong_activations);
  suite.add("Activate", "WrongCallsAreNamed", Needs::experts, wrong_activate_calls);
}

}  // namespace ironcl::conformance

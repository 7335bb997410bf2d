// SPDX-License-Identifier: Apache-2.0
// Group Combine: the weighted sum of each token's rows, bit for bit: in the order of slots, every product and every
// sum rounded, rows that nobody chose neither read nor multiplied by 0.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/experts.h"
#include "tests/conformance/suite/groups.h"
#include "tests/conformance/suite/parts.h"

namespace ironcl::conformance {
namespace {

/// A combination and its call.
struct Combined {
  std::int64_t tokens = 29, cols = 200, rows = 70, top_k = 4;
  std::int64_t called = -1;  ///< Tokens of the call; -1: tokens.
  std::int64_t x_pad = 0, add_pad = 0, y_pad = 0;
  DType x = DType::bf16, add = DType::none, y = DType::f32;
  bool add_weights = false;
  bool poisoned = true;  ///< Slots without a row, and NaN in rows that nobody has.

  std::int64_t call_tokens() const { return called < 0 ? tokens : called; }
  std::int64_t slots() const { return call_tokens() * top_k; }
  ironcl_combine_desc desc() const;
  std::string line() const {
    return fmt::format("tokens={} of {} cols={} rows={} k={} {} + {} to {}", call_tokens(), tokens, cols, rows, top_k,
                       numerics::name_of(x), numerics::name_of(add), numerics::name_of(y));
  }
};

ironcl_combine_desc Combined::desc() const {
  auto d = sized<ironcl_combine_desc>();
  d.tokens = tokens, d.cols = cols, d.rows = rows, d.top_k = static_cast<std::uint32_t>(top_k);
  d.x_ld = x_pad == 0 ? 0 : cols + x_pad;
  d.add_ld = add_pad == 0 ? 0 : cols + add_pad;
  d.y_ld = y_pad == 0 ? 0 : cols + y_pad;
  d.x_dtype = static_cast<ironcl_dtype>(x), d.add_dtype = static_cast<ironcl_dtype>(add);
  d.y_dtype = static_cast<ironcl_dtype>(y);
  return d;
}

std::vector<std::byte> random_values(DType type, std::int64_t count, Random& random) {
  std::vector<std::byte> out(at(count) * numerics::size_of(type));
  for (std::int64_t i = 0; i < count; ++i) store(type, out, i, random.normal() * std::exp2(random.normal()));
  return out;
}

/// The spans of one call, made ready, with the values behind them.
struct Bench {
  Queue queue;
  std::vector<std::byte> x_values, add_values;
  std::vector<std::int32_t> rows_of;
  std::vector<float> weights_of, add_weights_of;
  Part x, rows, weights, add, add_weights, y;

  Bench(Context& c, const Combined& m) : queue(make_queue(c)) {
    Random random(c.seed);
    const ironcl_queue q = queue.get();
    make_rows(m, random);
    x_values = random_values(m.x, m.rows * m.cols, random);
    if (m.poisoned) poison(m);
    x = part(c, q, spread(m.x, x_values, m.rows, m.cols, m.cols + m.x_pad, 0));
    rows = part(c, q, bytes_of(rows_of));
    weights = part(c, q, bytes_of(weights_of));
    if (m.add != DType::none) {
      add_values = random_values(m.add, m.call_tokens() * m.cols, random);
      add = part(c, q, spread(m.add, add_values, m.call_tokens(), m.cols, m.cols + m.add_pad, 0));
    }
    if (m.add_weights) {
      for (std::int64_t t = 0; t < m.call_tokens(); ++t) {
        add_weights_of.push_back(static_cast<float>(random.uniform()));
      }
      add_weights = part(c, q, bytes_of(add_weights_of));
    }
    y = part(c, q, extent(m.call_tokens(), m.cols + m.y_pad, m.cols, numerics::size_of(m.y)));
  }

  void make_rows(const Combined& m, Random& random) {
    constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
    for (std::int64_t slot = 0; slot < m.slots(); ++slot) {
      auto row = static_cast<std::int32_t>(random.between(0, m.rows - 1));
      if (m.poisoned) {
        row += 2 - row % 3;  // so that two rows of three are nobody's, the first among them
        if (slot % 7 == 2) row = -1;
        if (slot % 19 == 4) row = static_cast<std::int32_t>(m.rows);
        if (slot % 23 == 6) row = slot % 2 == 0 ? kLeast : 0x7fffffff;
        if (slot / m.top_k == 5) row = -1;  // a token without any expert
      }
      rows_of.push_back(row);
      weights_of.push_back(static_cast<float>(random.uniform()));
      if (m.poisoned && (row < 0 || row >= m.rows)) weights_of.back() = std::numeric_limits<float>::quiet_NaN();
    }
  }
  void poison(const Combined& m) {
    for (std::int64_t row = 0; row < m.rows; ++row) {
      if (row % 3 == 2) continue;
      for (std::int64_t i = row * m.cols; i < (row + 1) * m.cols; ++i) {
        store(m.x, x_values, i, std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  ironcl_combine_args args(const Combined& m) const {
    auto a = sized<ironcl_combine_args>();
    a.tokens = m.call_tokens();
    a.x = x.span(), a.rows = rows.span(), a.weights = weights.span(), a.add = add.span();
    a.add_weights = add_weights.span(), a.y = y.span();
    return a;
  }
};

void expect_right(Context& c, const Combined& m, const Bench& bench) {
  const std::size_t element = numerics::size_of(m.y), k = at(m.top_k), cols = at(m.cols);
  const std::vector<std::byte> got =
      collect(c, bench.queue.get(), bench.y, m.call_tokens(), m.cols, m.cols + m.y_pad, element, "Y");
  std::vector<float> sum(cols), added(cols);
  std::vector<std::byte> want(cols * element);
  for (std::size_t token = 0; token < at(m.call_tokens()); ++token) {
    numerics::combine_token(std::span(bench.rows_of).subspan(token * k, k),
                            std::span(bench.weights_of).subspan(token * k, k), m.x, bench.x_values.data(), m.rows,
                            m.cols, sum);
    if (m.add != DType::none) {
      numerics::decode(m.add, bench.add_values.data() + token * cols * numerics::size_of(m.add),
                       std::span<float>(added));
      numerics::add_weighted(m.add_weights ? bench.add_weights_of[token] : 1.0f, added, sum);
    }
    numerics::encode(m.y, sum, want.data());
    for (std::size_t col = 0; col < cols; ++col) {
      const std::byte* at_got = got.data() + (token * cols + col) * element;
      ASSERT_EQ(std::memcmp(at_got, want.data() + col * element, element), 0) << fmt::format(
          "Y[{}, {}] = {:.9g}, expected {:.9g} to the bit   [{}]", token, col, numerics::load_as_f64(m.y, at_got, 0),
          numerics::load_as_f64(m.y, want.data(), static_cast<std::int64_t>(col)), m.line());
    }
  }
}

/// 2^24 + 1 - 2^24 is 0 in this order and 1 in another; and squares that only a fused sum keeps.
void order_and_rounding(Context& c) {
  const Combined m{.tokens = 3, .cols = 2, .rows = 5, .top_k = 3, .x = DType::f32, .poisoned = false};
  const float a = 1 + 0x1p-12f;
  Bench bench(c, m);
  const std::vector<float> x{0x1p24f, 0x1p24f, 1, 1, -0x1p24f, -0x1p24f, a, a, -(a * a), -(a * a)};
  bench.x_values = bytes_of(x);
  bench.rows_of = {0, 1, 2, 0, 2, 1, 4, 3, -1};
  bench.weights_of = {1, 1, 1, 1, 1, 1, 1, a, 1};
  const auto put = [&](const Part& to, const std::vector<std::byte>& bytes) {
    upload(c, bench.queue.get(), to.buffer.get(), to.offset, bytes);
  };
  put(bench.x, bench.x_values), put(bench.rows, bytes_of(bench.rows_of)),
      put(bench.weights, bytes_of(bench.weights_of));
  call(c, m, make_op(c, m), bench);
  const auto y = values_of<float>(fetch(c, bench.queue.get(), bench.y, "Y"));
  EXPECT_EQ(y, (std::vector<float>{0, 0, 1, 1, 0, 0})) << "order of slots, or a product fused with a sum";
}

void waits_for_its_list(Context& c) {
  const Combined m{.tokens = 60, .cols = 640, .rows = 64, .x = DType::f32, .poisoned = false};
  Bench bench(c, m);
  run_after_product(c, m, bench, m.rows, m.cols, bench.x_values, &ironcl_combine_args::x);
}

constexpr Wrong<ironcl_combine_desc> kWrongCombinations[] = {
    {"tokens", kInvalid, [](auto& d) { d.tokens = -1; }},
    {"tokens", kInvalid, [](auto& d) { d.tokens = 0x7fffffff; }},
    {"cols", kInvalid, [](auto& d) { d.cols = 0; }},
    {"rows", kInvalid, [](auto& d) { d.rows = 0; }},
    {"top_k", kInvalid, [](auto& d) { d.top_k = 0; }},
    {"top_k", kInvalid, [](auto& d) { d.top_k = 65; }},
    {"x_ld", kInvalid, [](auto& d) { d.x_ld = d.cols - 1; }},
    {"add_ld", kInvalid, [](auto& d) { d.add_ld = d.cols; }},
    {"y_ld", kInvalid, [](auto& d) { d.y_ld = d.cols - 1; }},
    {"x_dtype", kInvalid, [](auto& d) { d.x_dtype = IRONCL_F8_E4M3FN; }},
    {"y_dtype", kInvalid, [](auto& d) { d.y_dtype = 0; }},
    {"flags", kUnknown, [](auto& d) { d.flags = 1u << 20; }},
    {"add_dtype", kUnknown, [](auto& d) { d.add_dtype = 77; }},
};

void wrong_combinations(Context& c) { expect_wrong(c, Combined{}.desc(), kWrongCombinations); }

constexpr Wrong<ironcl_combine_args> kWrongCombineCalls[] = {
    {"tokens", kInvalid, [](auto& a) { a.tokens += 1; }},
    {"x", kInvalid, [](auto& a) { a.x.size -= 1; }},
    {"rows", kInvalid, [](auto& a) { a.rows = {}; }},
    {"weights", kInvalid, [](auto& a) { a.weights.size -= 1; }},
    {"add", kInvalid, [](auto& a) { a.add = {}; }},
    {"add_weights", kInvalid, [](auto& a) { a.add_weights.size -= 1; }},
    {"y", kInvalid, [](auto& a) { a.y = {}; }},
    {"y", kInvalid, [](auto& a) { a.y.offset |= 1; }},
    {"x", kInvalid, [](auto& a) { a.x.buffer = a.y.buffer, a.x.offset = a.y.offset; }},
    {"wait", kInvalid, [](auto& a) { a.wait_count = 1; }},
};

void wrong_combine_calls(Context& c) {
  expect_wrong_steps<Bench>(c, Combined{.add = DType::bf16, .add_weights = true}, kWrongCombineCalls);
}

}  // namespace

void add_combine_tests(Suite& suite) {
  const auto add = [&suite](const std::string& name, const Combined& m, bool floor = true) {
    suite.add(
        "Combine", name, Needs::experts, [m](Context& c) { run_twice<Bench>(c, m); }, floor);
  };
  const DType types[] = {DType::f32, DType::f16, DType::bf16};
  for (const DType x : types) {
    for (const DType y : types) {
      add(fmt::format("{}To{}", numerics::name_of(x), numerics::name_of(y)), {.x = x, .y = y});
    }
    add(fmt::format("Adding{}", numerics::name_of(x)), {.add = x, .y = DType::bf16, .add_weights = true});
  }
  add("AddingWithoutWeights", {.add = DType::bf16});
  for (const std::int64_t k : {1, 2, 8, 10, 64}) add(fmt::format("TopK{}", k), {.rows = 300, .top_k = k});
  for (const std::int64_t cols : {1, 3, 127, 1024, 7168})
    add(fmt::format("Cols{}", cols), {.tokens = 7, .cols = cols});
  add("GapsBetweenRows", {.x_pad = 8, .add_pad = 4, .y_pad = 5, .add = DType::f32});
  add("FewerTokensThanDescribed", {.tokens = 50, .called = 13});
  add("NoTokensWriteNothing", {.called = 0});
  add("ManyTokens", {.tokens = 1000, .cols = 64, .rows = 4000});
  suite.add("Combine", "KeepsOrderAndRounding", Needs::experts, order_and_rounding);
  suite.add("Combine", "WaitsForItsWaitList", Needs::experts, waits_for_its_list);
  suite.add("Combine", "WrongDescriptionsAreNamed", Needs::experts, wrong_combinations);
  suite.add("Combine", "WrongCallsAreNamed", Needs::experts, wrong_combine_calls);
}

}  // namespace ironcl::conformance

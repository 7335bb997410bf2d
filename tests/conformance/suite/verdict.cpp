// SPDX-License-Identifier: Apache-2.0
// Whether a result is right: bit for bit, or within the bound of every element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/casts.h"
#include "tests/conformance/suite/rig.h"

namespace ironcl::conformance {
namespace {

/// The oracle's value as an element of `type`: one rounding, overflow to infinity.
double rounded(DType type, double value) {
  const float narrow = static_cast<float>(value);
  if (type == DType::f32) return static_cast<double>(narrow);
  std::byte bytes[4];
  numerics::encode(type, {&narrow, 1}, bytes, numerics::Overflow::plain);
  return numerics::load_as_f64(type, bytes, 0);
}

bool same(double got, double want) { return got == want || (std::isnan(got) && std::isnan(want)); }

std::string wrong_bits(const Problem& p, std::span<const double> got, const numerics::OracleResult& want) {
  std::int64_t wrong = 0, first = -1, last = -1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (same(got[i], rounded(p.d, want.value[i]))) continue;
    if (wrong++ == 0) first = static_cast<std::int64_t>(i);
    last = static_cast<std::int64_t>(i);
  }
  if (wrong == 0) return {};
  const auto at = static_cast<std::size_t>(first);
  return fmt::format(
      "{} of {} elements are wrong; the first is D[{}, {}] = {:.9g}, expected {:.9g} (a factor of {:.6g}); the last "
      "is "
      "D[{}, {}]   [{}]",
      wrong, got.size(), first / p.n, first % p.n, got[at], rounded(p.d, want.value[at]),
      got[at] / rounded(p.d, want.value[at]), last / p.n, last % p.n, p.line());
}

}  // namespace

std::string wrong_about(const Problem& p, const numerics::BoundTerms& terms, std::span<const double> got,
                        const numerics::OracleResult& want) {
  if (got.size() != want.value.size()) throw Failed("the suite read another number of elements");
  if (p.exact) return wrong_bits(p, got, want);
  const numerics::Comparison c = compare(got, bounded(want, terms));
  if (c.pass) return {};
  return fmt::format(
      "{} of {} elements are out of bounds (class {}, accumulation length {}); the worst is D[{}, {}] = {:.9g}, "
      "expected "
      "{:.9g}, {:.3g} times the bound; the first is D[{}, {}]; nmse {:.3g}   [{}]",
      c.out_of_bounds, got.size(), numerics::name_of(terms.accuracy), terms.accumulation_length, c.worst_row,
      c.worst_col, c.worst_got, c.worst_want, c.max_error_over_bound, c.first_row, c.first_col, c.nmse, p.line());
}

void Rig::expect_right(const Output& output) {
  const std::string wrong = wrong_about(problem_, bound_terms(problem_, info_), output.values, expected().oracle);
  if (!wrong.empty()) ADD_FAILURE() << wrong;
}

std::vector<std::byte> Rig::quantized_codes() {
  return download(context_, queue_.get(), codes_.buffer.get(), codes_.offset, codes_.size);
}

std::vector<std::byte> Rig::quantized_scales() {
  return download(context_, queue_.get(), code_scales_.buffer.get(), code_scales_.offset, code_scales_.size);
}

void Rig::expect_quantized_right() {
  const Problem& p = problem_;
  check_guards(codes_, download(context_, queue_.get(), codes_.buffer.get(), 0, codes_.whole), "a_quantized");
  check_guards(code_scales_, download(context_, queue_.get(), code_scales_.buffer.get(), 0, code_scales_.whole),
               "a_quantized_scale");
  const std::vector<std::byte> scale_bytes = quantized_scales(), codes = quantized_codes();
  const Expected& want = expected();
  const std::int64_t width = std::max<std::int64_t>(1, p.a_scale.grid().scale_cols(p.k));
  for (std::size_t i = 0; i < want.a_quantized_scale.size(); ++i) {
    float got = 0;
    std::memcpy(&got, &scale_bytes[i * 4], 4);
    const float expected_scale = want.a_quantized_scale[i];
    if (std::isnan(got) && std::isnan(expected_scale)) continue;
    if (std::memcmp(&got, &expected_scale, 4) != 0) {
      ADD_FAILURE() << fmt::format("a_quantized_scale[{}, {}] = {:a}, expected {:a} ({:.9g} and {:.9g})   [{}]",
                                   static_cast<std::int64_t>(i) / width, static_cast<std::int64_t>(i) % width, got,
                                   expected_scale, got, expected_scale, p.line());
      return;
    }
  }
  const auto is_nan = [&p](std::uint8_t code) {
    return p.a == DType::e4m3fn ? (code & 0x7f) == 0x7f : p.a == DType::e5m2 && (code & 0x7f) > 0x7c;
  };
  for (std::size_t i = 0; i < want.a_quantized.size(); ++i) {
    const auto got = static_cast<std::uint8_t>(codes[i]);
    if (got == want.a_quantized[i] || (is_nan(got) && is_nan(want.a_quantized[i]))) continue;
    const auto row = static_cast<std::int64_t>(i) / p.k, col = static_cast<std::int64_t>(i) % p.k;
    ADD_FAILURE() << fmt::format(
        "a_quantized[{}, {}] = {:#04x}, expected {:#04x} for x = {:.9g}   [{}]", row, col, got, want.a_quantized[i],
        numerics::load_as_f64(p.a_source, operands_.a.data(), static_cast<std::int64_t>(i)), p.line());
    return;
  }
}

void run_problem(Context& context, const Problem& problem) {
  Rig rig(context, problem);
  rig.expect_right(rig.call());
}

void add_problem(Suite& suite, const char* group, const std::string& name, const Problem& problem, bool floor,
                 bool heavy) {
  suite.add(
      group, name, Needs::gemm, [problem](Context& context) { run_problem(context, problem); }, floor, heavy);
}

}  // namespace ironcl::conformance

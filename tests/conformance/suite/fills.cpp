// SPDX-License-Identifier: Apache-2.0
// The ways to fill operands.
#include "tests/conformance/suite/fills.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/numerics/casts.h"

namespace ironcl::conformance {
namespace {

using numerics::ceil_div;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Powers of two with exponents within +-spread, each different from its left and upper neighbour.
void fill_power_scales(const Scale& s, std::int64_t rows, std::int64_t k, int spread, int shift, Random& random,
                       std::vector<std::byte>& out) {
  if (s.dtype == DType::none || out.empty()) return;
  const std::int64_t h = s.grid().scale_rows(rows), w = s.grid().scale_cols(k);
  std::vector<std::int64_t> exponent(static_cast<std::size_t>(h * w));
  for (std::int64_t i = 0; i < h; ++i) {
    for (std::int64_t j = 0; j < w; ++j) {
      std::int64_t e = 0;
      const auto at = static_cast<std::size_t>(i * w + j);
      do {
        e = random.between(-spread, spread);
      } while ((j > 0 && e == exponent[at - 1]) || (i > 0 && e == exponent[at - static_cast<std::size_t>(w)]));
      exponent[at] = e;
      store(s.dtype, out, i * w + j, std::ldexp(1.0, static_cast<int>(e) + shift));
    }
  }
}

void fill_integers(DType type, Random& random, std::vector<std::byte>& out) {
  const auto count = elements_in(type, out);
  for (std::int64_t i = 0; i < count; ++i) store(type, out, i, static_cast<double>(random.between(-2, 2)));
}

void fill_bias(const Problem& p, Random& random, std::vector<std::byte>& out) {
  for (std::int64_t i = 0; p.bias != DType::none && i < p.n; ++i) {
    store(p.bias, out, i, static_cast<double>(random.between(-64, 64)));
  }
}

void fill_exact_with(const Problem& p, Random& random, Operands& o, int spread_a, int spread_b, int shift) {
  fill_integers(p.a_given(), random, o.a);
  fill_integers(p.b, random, o.b);
  fill_bias(p, random, o.bias);
  fill_power_scales(p.a_scale, p.call_rows(), p.k, spread_a, shift, random, o.a_scale);
  fill_power_scales(p.b_scale, p.n, p.k, spread_b, 0, random, o.b_scale);
}

void fill_constant(DType type, std::vector<std::byte>& out, double value) {
  if (type == DType::none) return;
  const auto count = elements_in(type, out);
  for (std::int64_t i = 0; i < count; ++i) store(type, out, i, value);
}

double heavy(Random& random) { return random.normal() * std::exp2(2.5 * random.normal()); }

void fill_heavy_matrix(DType type, double spread, Random& random, std::vector<std::byte>& out) {
  const auto count = elements_in(type, out);
  const double limit = type == DType::i8 ? 127 : std::min(numerics::largest(type), 1e4);
  for (std::int64_t i = 0; i < count; ++i) {
    store(type, out, i, std::clamp(spread * heavy(random), -limit, limit));
  }
}

void fill_heavy_scales(DType type, Random& random, std::vector<std::byte>& out) {
  if (type == DType::none) return;
  const auto count = elements_in(type, out);
  for (std::int64_t i = 0; i < count; ++i) store(type, out, i, std::exp2(-8 + 12 * random.uniform()));
}

void fill_codes(std::vector<std::byte>& out, std::int64_t rows, std::int64_t k,
                const std::function<std::int64_t(std::int64_t)>& place) {
  std::fill(out.begin(), out.end(), std::byte{0});
  for (std::int64_t i = 0; i < rows; ++i) {
    out[static_cast<std::size_t>(i * k + place(i))] = static_cast<std::byte>(i & 0xff);
  }
}

/// A tie or another value for which x / s and x * (1 / s) round to different codes.
double reciprocal_trap(double s, Random& random) {
  const float scale = static_cast<float>(s);
  const float reciprocal = 1.0f / scale;
  for (int attempt = 0; attempt < 400; ++attempt) {
    const auto code = static_cast<std::uint8_t>(random.between(8, 0x7d));
    const double middle = (static_cast<double>(numerics::decode_e4m3fn(code)) +
                           static_cast<double>(numerics::decode_e4m3fn(static_cast<std::uint8_t>(code + 1)))) /
                          2;
    float x = static_cast<float>(middle * s);
    for (int step = -2; step <= 2; ++step) {
      const float candidate =
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(step));
      if (numerics::encode_e4m3fn(candidate / scale, numerics::Overflow::saturate) !=
          numerics::encode_e4m3fn(candidate * reciprocal, numerics::Overflow::saturate)) {
        return static_cast<double>(candidate);
      }
    }
  }
  return s;
}

}  // namespace

void fill_exact(const Problem& p, Random& random, Operands& o) { fill_exact_with(p, random, o, 3, 3, 0); }
void fill_exact_wide_a(const Problem& p, Random& random, Operands& o) { fill_exact_with(p, random, o, 6, 1, 0); }
void fill_exact_wide_b(const Problem& p, Random& random, Operands& o) { fill_exact_with(p, random, o, 1, 6, 0); }

void fill_heavy_tailed(const Problem& p, Random& random, Operands& o) {
  fill_heavy_matrix(p.a_given(), p.a_given() == DType::i8 ? 8.0 : 4.0, random, o.a);
  fill_heavy_matrix(p.b, p.b == DType::i8 ? 8.0 : 4.0, random, o.b);
  fill_bias(p, random, o.bias);
  fill_heavy_scales(p.a_scale.dtype, random, o.a_scale);
  fill_heavy_scales(p.b_scale.dtype, random, o.b_scale);
}

void fill_all_code_pairs(const Problem& p, Random&, Operands& o) {
  const std::int64_t place = p.k * 2 / 3;
  fill_codes(o.a, p.call_rows(), p.k, [place](std::int64_t) { return place; });
  fill_codes(o.b, p.n, p.k, [place](std::int64_t) { return place; });
  fill_constant(p.a_scale.dtype, o.a_scale, 1);
  fill_constant(p.b_scale.dtype, o.b_scale, 1);
}

void fill_all_codes_of_a(const Problem& p, Random&, Operands& o) {
  fill_codes(o.a, p.call_rows(), p.k, [&p](std::int64_t i) { return (i * 37 + 5) % p.k; });
  fill_constant(p.b, o.b, 1);
  fill_constant(p.a_scale.dtype, o.a_scale, 2);
  fill_constant(p.b_scale.dtype, o.b_scale, 0.25);
}

void fill_all_codes_of_b(const Problem& p, Random&, Operands& o) {
  fill_constant(p.a_given(), o.a, 1);
  fill_codes(o.b, p.n, p.k, [&p](std::int64_t i) { return (i * 37 + 5) % p.k; });
  fill_constant(p.a_scale.dtype, o.a_scale, 2);
  fill_constant(p.b_scale.dtype, o.b_scale, 0.25);
}

void fill_overflow(const Problem& p, Random& random, Operands& o) {
  // One K group only (k at most the group): the sum is finite before it is scaled.
  fill_exact_with(p, random, o, 3, 3, 0);
  const auto count = static_cast<std::int64_t>(o.a_scale.size() / numerics::size_of(p.a_scale.dtype));
  for (std::int64_t i = 0; i < count; ++i)
    store(p.a_scale.dtype, o.a_scale, i, std::ldexp(1.0, i % 2 == 0 ? 9 : 119));
}

void fill_f16_subnormals(const Problem& p, Random& random, Operands& o) { fill_exact_with(p, random, o, 2, 2, -22); }

void fill_nan_scales(const Problem& p, Random& random, Operands& o) {
  fill_exact(p, random, o);
  const auto last = [](DType type, const std::vector<std::byte>& bytes) {
    return static_cast<std::int64_t>(bytes.size() / numerics::size_of(type)) - 1;
  };
  store(p.a_scale.dtype, o.a_scale, last(p.a_scale.dtype, o.a_scale) / 2, kNaN);
  store(p.b_scale.dtype, o.b_scale, last(p.b_scale.dtype, o.b_scale), kNaN);
}

void fill_activations(const Problem& p, Random& random, Operands& o) {
  fill_heavy_tailed(p, random, o);
  for (std::int64_t row = 0; row < p.call_rows(); ++row) {
    const double factor = std::exp2(static_cast<double>(random.between(-8, 4)));  // rows of very different size
    for (std::int64_t col = 0; col < p.k; ++col) {
      store(p.a_source, o.a, row * p.k + col, std::clamp(factor * heavy(random), -6e4, 6e4));
    }
  }
}

void fill_hard_activations(const Problem& p, Random& random, Operands& o) {
  fill_activations(p, random, o);
  const std::int64_t width = p.a_scale.cols == 0 ? p.k : p.a_scale.cols;
  for (std::int64_t row = 0; row < p.call_rows(); ++row) {
    for (std::int64_t group = 0; group < ceil_div(p.k, width); ++group) {
      const std::int64_t begin = group * width, end = std::min(p.k, begin + width);
      const auto set = [&](std::int64_t col, double value) { store(p.a_source, o.a, row * p.k + col, value); };
      switch ((row + group * 3) % 8) {
        case 0:  // all zero, one of them negative
          for (auto col = begin; col < end; ++col) set(col, col == begin ? -0.0 : 0.0);
          break;
        case 1:  // subnormals and values under the default floor
          for (auto col = begin; col < end; ++col)
            set(col, std::ldexp(random.normal(), random.between(0, 1) != 0 ? -135 : -40));
          break;
        case 2: {  // s a power of two; every second value a tie
          const double s = std::ldexp(1.0, static_cast<int>(random.between(-6, 3)));
          for (auto col = begin; col < end; ++col) {
            const auto code = static_cast<std::uint8_t>(random.between(0, 0x7d));
            const double low = static_cast<double>(numerics::decode_e4m3fn(code));
            const double high = static_cast<double>(numerics::decode_e4m3fn(static_cast<std::uint8_t>(code + 1)));
            set(col, (col % 2 == 0 ? low : (low + high) / 2) * s * (random.between(0, 1) != 0 ? 1 : -1));
          }
          set(begin, 448 * s);
          break;
        }
        case 5:
        case 6: {  // division against multiplication by the reciprocal
          const float amax = static_cast<float>(1 + random.uniform() * 300);
          const float s = numerics::scale_of(amax, p.a, p.quantizer);
          for (auto col = begin; col < end; ++col) set(col, reciprocal_trap(static_cast<double>(s), random));
          set(begin, static_cast<double>(amax));
          break;
        }
        case 3:
          if (row % 8 == 3) set(end - 1, kNaN);
          break;
        case 4:
          if (row % 8 == 4) {
            const float infinity = (group % 2 == 0 ? 1.0f : -1.0f) * std::numeric_limits<float>::infinity();
            std::byte* at = o.a.data() + static_cast<std::size_t>(row * p.k + begin) * numerics::size_of(p.a_source);
            numerics::encode(p.a_source, {&infinity, 1}, at, numerics::Overflow::plain);
          }
          break;
        default:
          break;
      }
    }
  }
}

}  // namespace ironcl::conformance

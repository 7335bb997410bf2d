// SPDX-License-Identifier: Apache-2.0
// Problem lines and descriptions, operand storage, and the oracle's answer.
#include "tests/conformance/suite/problem.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/casts.h"
#include "tests/c_api.h"

namespace ironcl::conformance {
namespace {

std::string scale_line(const Scale& scale) {
  if (scale.dtype == DType::none) return "";
  return fmt::format("[{}x{},{}{}]", scale.rows, scale.cols, numerics::name_of(scale.dtype),
                     scale.pad != 0 ? fmt::format(",ld+{}", scale.pad) : "");
}

ironcl_scale_desc scale_desc(const Scale& scale, std::int64_t ld) {
  if (scale.dtype == DType::none) return {};
  ironcl_scale_desc desc{};
  desc.dtype = static_cast<ironcl_dtype>(scale.dtype);
  desc.group_rows = static_cast<std::uint32_t>(scale.rows);
  desc.group_cols = static_cast<std::uint32_t>(scale.cols);
  desc.ld = scale.pad != 0 ? ld : 0;
  return desc;
}

std::size_t size_in_bytes(DType type, std::int64_t count) {
  return static_cast<std::size_t>(numerics::bytes_of(type, count));
}

/// Where the type has no NaN, of a code that no filling makes.
void fill_with_nan(DType type, std::byte* at, std::int64_t count) {
  const std::byte code{type == DType::i8     ? std::uint8_t{0x5a}
                       : type == DType::e2m1 ? std::uint8_t{0x77}
                                             : std::uint8_t{0xff}};
  std::fill_n(at, (count * numerics::bits_of(type) + 7) / 8, code);
}

}  // namespace

std::string Problem::line() const {
  std::string out = fmt::format("m={} n={} k={}", m, n, k);
  if (rows >= 0) out += fmt::format(" rows={}", rows);
  if (a_pad != 0) out += fmt::format(" lda=k+{}", a_pad);
  if (b_pad != 0) out += fmt::format(" ldb=k+{}", b_pad);
  if (d_pad != 0) out += fmt::format(" ldd=n+{}", d_pad);
  out += fmt::format(" a={}{}{}", dynamic() ? fmt::format("{}->", numerics::name_of(a_source)) : "",
                     numerics::name_of(a), scale_line(a_scale));
  out += fmt::format(" b={}{} d={}", numerics::name_of(b), scale_line(b_scale), numerics::name_of(d));
  if (b_global != 0) out += fmt::format(" b_global={}", b_global);
  if (bias != DType::none) out += fmt::format(" bias={}", numerics::name_of(bias));
  if (dynamic() && quantizer.rounding == numerics::ScaleRounding::power_of_two) out += " ue8m0";
  if (dynamic() && quantizer.amax_floor != numerics::Quantizer{}.amax_floor) {
    out += fmt::format(" floor={}", quantizer.amax_floor);
  }
  if ((flags & IRONCL_GEMM_REPEATABLE) != 0) out += " repeatable";
  if (offsets) out += " offsets";
  return out;
}

ironcl_gemm_desc Problem::desc() const {
  auto out = sized<ironcl_gemm_desc>();
  out.flags = flags;
  out.weakest_accuracy = weakest_accuracy;
  out.m = m, out.n = n, out.k = k;
  out.lda = a_pad != 0 ? lda() : 0;
  out.ldd = d_pad != 0 ? ldd() : 0;
  out.a_source_dtype = static_cast<ironcl_dtype>(a_source);
  out.a_dtype = static_cast<ironcl_dtype>(a);
  out.b_dtype = static_cast<ironcl_dtype>(b);
  out.d_dtype = static_cast<ironcl_dtype>(d);
  out.bias_dtype = static_cast<ironcl_dtype>(bias);
  out.a_scale = scale_desc(a_scale, a_scale_ld());
  out.b_scale = scale_desc(b_scale, 0);
  out.b_scale.ld = 0;  // a padded ld is the weights' affair
  if (b_global != 0) out.b_scale.global_dtype = IRONCL_F32;
  if (dynamic()) {
    out.a_quantizer.scale_rounding = static_cast<std::uint32_t>(quantizer.rounding);
    if (quantizer.given) out.a_quantizer.scales = IRONCL_SCALES_GIVEN;
    if (quantizer.amax_floor != numerics::Quantizer{}.amax_floor) out.a_quantizer.amax_floor = quantizer.amax_floor;
  }
  return out;
}

Operands make_operands(const Problem& p) {
  const std::int64_t rows = p.call_rows();
  Operands out;
  out.a.resize(size_in_bytes(p.a_given(), rows * p.k));
  if (!p.dynamic() || p.quantizer.given) {
    out.a_scale.resize(
        size_in_bytes(p.a_scale.dtype, p.a_scale.grid().scale_rows(rows) * p.a_scale.grid().scale_cols(p.k)));
  }
  out.b.resize(size_in_bytes(p.b, p.n * p.k));
  out.b_scale.resize(
      size_in_bytes(p.b_scale.dtype, p.b_scale.grid().scale_rows(p.n) * p.b_scale.grid().scale_cols(p.k)));
  out.bias.resize(size_in_bytes(p.bias, p.n));
  return out;
}

std::uint64_t Random::bits() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
}

double Random::uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

double Random::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

std::int64_t elements_in(DType type, const std::vector<std::byte>& data) {
  return type == DType::none ? 0 : std::ssize(data) * 8 / numerics::bits_of(type);
}

void store(DType type, std::vector<std::byte>& data, std::int64_t index, double value) {
  std::byte* at = data.data() + size_in_bytes(type, index);
  const float narrow = static_cast<float>(value);
  switch (type) {
    case DType::i8:
      *at = static_cast<std::byte>(static_cast<std::int8_t>(std::lrint(value)));
      return;
    case DType::e8m0:
      *at = static_cast<std::byte>(numerics::encode_e8m0(narrow));
      return;
    case DType::e2m1: {
      std::byte& both = data[static_cast<std::size_t>(index / 2)];
      const int shift = static_cast<int>(index % 2 * 4);
      both = (both & ~(std::byte{0xf} << shift)) | (std::byte{numerics::encode_e2m1(narrow)} << shift);
      return;
    }
    default:
      numerics::encode(type, {&narrow, 1}, at, numerics::Overflow::saturate);
  }
}

std::vector<std::byte> spread(DType type, const std::vector<std::byte>& tight, std::int64_t rows, std::int64_t cols,
                              std::int64_t ld, std::int64_t tail) {
  if (rows == 0 || type == DType::none) return {};
  const std::int64_t count = (rows - 1) * ld + cols + tail;
  std::vector<std::byte> out(size_in_bytes(type, count));
  fill_with_nan(type, out.data(), count);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(out.data() + size_in_bytes(type, row * ld), tight.data() + size_in_bytes(type, row * cols),
                size_in_bytes(type, cols));
  }
  return out;
}

Expected expect(const Problem& p, const Operands& o) {
  const std::int64_t rows = p.call_rows();
  Expected out;
  numerics::Operand a{.dtype = p.a, .data = o.a.data(), .rows = rows, .cols = p.k, .ld = p.k};
  a.grid = p.a_scale.grid();
  a.scale_dtype = p.a_scale.dtype;
  a.scale_ld = a.grid.scale_cols(p.k);
  if (p.dynamic()) {
    out.a_quantized.resize(static_cast<std::size_t>(rows * p.k));
    out.a_quantized_scale.resize(static_cast<std::size_t>(a.grid.scale_rows(rows) * a.grid.scale_cols(p.k)));
    if (p.quantizer.given) std::memcpy(out.a_quantized_scale.data(), o.a_scale.data(), o.a_scale.size());
    numerics::quantize(p.a_source, o.a.data(), rows, p.k, p.k, p.a, a.grid, p.quantizer, out.a_quantized,
                       out.a_quantized_scale);
    a.data = out.a_quantized.data();
    a.scales = out.a_quantized_scale.data();
  } else {
    a.scales = o.a_scale.data();
  }
  numerics::Operand b{.dtype = p.b, .data = o.b.data(), .rows = p.n, .cols = p.k, .ld = p.k};
  b.grid = p.b_scale.grid();
  b.scale_dtype = p.b_scale.dtype;
  b.scales = o.b_scale.data();
  b.scale_ld = b.grid.scale_cols(p.k);
  std::vector<float> whole;  // Scales with the global one, which makes them f32.
  if (p.b_global != 0) {
    whole.resize(static_cast<std::size_t>(elements_in(p.b_scale.dtype, o.b_scale)));
    numerics::decode(p.b_scale.dtype, o.b_scale.data(), std::span<float>(whole));
    for (float& scale : whole) scale *= p.b_global;
    b.scale_dtype = DType::f32;
    b.scales = whole.data();
  }
  out.oracle = numerics::oracle(a, b, p.bias, p.bias == DType::none ? nullptr : o.bias.data(),
                                static_cast<numerics::AccuracyClass>(p.weakest_accuracy));
  return out;
}

}  // namespace ironcl::conformance

// SPDX-License-Identifier: Apache-2.0
// Casts by integer arithmetic on the bit patterns: independent of the rounding mode, of flushed subnormals and of the
// processor's conversion instructions.
#include "backends/numerics/casts.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ironcl::numerics {
namespace {

constexpr std::uint32_t kF32Infinity = 0x7f800000;

// A binary format of 1 sign bit, `exponent_bits` and `mantissa_bits`, with gradual underflow.
struct Layout {
  int exponent_bits;
  int mantissa_bits;
  std::uint32_t max_code;       // Largest finite magnitude.
  std::uint32_t overflow_code;  // What overflow gives in the plain form.
  std::uint32_t nan_code;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
};
constexpr Layout kE4m3fn{4, 3, 0x7e, 0x7f, 0x7f};
constexpr Layout kE5m2{5, 2, 0x7b, 0x7c, 0x7e};
constexpr Layout kF16{5, 10, 0x7bff, 0x7c00, 0x7e00};

// value >> shift, rounded to nearest even; shift from 1 to 31.
constexpr std::uint32_t shift_to_even(std::uint32_t value, int shift) {
  const std::uint32_t odd = (value >> shift) & 1;
  return (value + (1u << (shift - 1)) - 1 + odd) >> shift;
}

template <Layout L>
std::uint32_t encode_bits(std::uint32_t bits, Overflow overflow) {
  const std::uint32_t sign = (bits >> 31) << L.sign_shift();
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kF32Infinity) return sign | L.nan_code;

  constexpr int dropped = 23 - L.mantissa_bits;
  constexpr int lowest_normal = 127 - L.bias() + 1;  // Exponent field in f32 of the smallest normal of L.
  const int exponent = static_cast<int>(magnitude >> 23);
  std::uint32_t code = 0;
  if (exponent >= lowest_normal) {
    // The carry of the rounding runs into the exponent, as it should.
    code = shift_to_even(magnitude, dropped) - (static_cast<std::uint32_t>(lowest_normal - 1) << L.mantissa_bits);
  } else if (const int shift = dropped + lowest_normal - exponent; shift <= 24) {
    code = shift_to_even((magnitude & 0x7fffff) | 0x800000, shift);
  }
  if (code > L.max_code) code = overflow == Overflow::saturate ? L.max_code : L.overflow_code;
  return sign | code;
}

// Sets the value of a finite code of L: (exponent field, mantissa) to f32, exactly.
template <Layout L>
float decode_bits(std::uint32_t code) {
  const bool negative = ((code >> L.sign_shift()) & 1) != 0;
  const std::uint32_t magnitude = code & ((1u << L.sign_shift()) - 1);
  float value = 0;
  if (magnitude > L.max_code) {
    const bool infinite = L.overflow_code != L.nan_code && magnitude == L.overflow_code;
    value = infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else {
    const auto exponent = static_cast<int>(magnitude >> L.mantissa_bits);
    const std::uint32_t fraction = magnitude & ((1u << L.mantissa_bits) - 1);
    const std::uint32_t significand = exponent == 0 ? fraction : fraction | (1u << L.mantissa_bits);
    const int scale = (exponent == 0 ? 1 : exponent) - L.bias() - L.mantissa_bits;
    value = std::ldexp(static_cast<float>(significand), scale);
  }
  return negative ? -value : value;
}

template <Layout L>
std::array<float, 256> make_table() {
  std::array<float, 256> table{};
  for (std::uint32_t code = 0; code < table.size(); ++code) table[code] = decode_bits<L>(code);
  return table;
}
const std::array<float, 256>& e4m3fn_table() noexcept {
  static const std::array<float, 256> table = make_table<kE4m3fn>();
  return table;
}
const std::array<float, 256>& e5m2_table() noexcept {
  static const std::array<float, 256> table = make_table<kE5m2>();
  return table;
}

// Files are mapped at any byte offset, hence memcpy.
template <class T>
T load(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(data) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <class T>
void store(void* data, std::size_t index, T value) {
  std::memcpy(static_cast<unsigned char*>(data) + index * sizeof(T), &value, sizeof(T));
}

template <class Raw, class T, class Convert>
void decode_each(const void* src, std::span<T> dst, Convert convert) {
  for (std::size_t i = 0; i < dst.size(); ++i) {
    dst[i] = static_cast<T>(convert(load<Raw>(src, static_cast<std::int64_t>(i))));
  }
}

template <class T>
void decode_array(DType type, const void* src, std::span<T> dst) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case DType::f32:
      return decode_each<float>(src, dst, same);
    case DType::f16:
      return decode_each<std::uint16_t>(src, dst, decode_f16);
    case DType::bf16:
      return decode_each<std::uint16_t>(src, dst, decode_bf16);
    case DType::e4m3fn: {
      const auto& table = e4m3fn_table();
      return decode_each<std::uint8_t>(src, dst, [&table](std::uint8_t code) { return table[code]; });
    }
    case DType::e5m2: {
      const auto& table = e5m2_table();
      return decode_each<std::uint8_t>(src, dst, [&table](std::uint8_t code) { return table[code]; });
    }
    case DType::e8m0:
      return decode_each<std::uint8_t>(src, dst, decode_e8m0);
    case DType::i8:
      return decode_each<std::int8_t>(src, dst, same);
    case DType::s32:
      return decode_each<std::int32_t>(src, dst, same);
    case DType::f64:
      return decode_each<double>(src, dst, same);
    case DType::none:
      break;
  }
}

}  // namespace

float decode_e4m3fn(std::uint8_t code) noexcept { return e4m3fn_table()[code]; }
float decode_e5m2(std::uint8_t code) noexcept { return e5m2_table()[code]; }

float decode_e8m0(std::uint8_t code) noexcept {
  if (code == 0xff) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;  // Subnormal in f32.
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

float decode_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 15) << 31;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | kF32Infinity | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

float decode_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint8_t encode_e4m3fn(float value, Overflow overflow) noexcept {
  return static_cast<std::uint8_t>(encode_bits<kE4m3fn>(std::bit_cast<std::uint32_t>(value), overflow));
}

std::uint8_t encode_e5m2(float value, Overflow overflow) noexcept {
  return static_cast<std::uint8_t>(encode_bits<kE5m2>(std::bit_cast<std::uint32_t>(value), overflow));
}

std::uint8_t encode_e8m0(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) == 0) return 0;
  if (bits >= kF32Infinity) return 0xff;                      // Infinity, NaN and everything negative.
  if (bits <= 0x00400000) return 0;                           // At most 2^-127.
  return static_cast<std::uint8_t>((bits + 0x7fffff) >> 23);  // Above 2^127 this is 0xff: NaN.
}

std::uint16_t encode_f16(float value, Overflow overflow) noexcept {
  return static_cast<std::uint16_t>(encode_bits<kF16>(std::bit_cast<std::uint32_t>(value), overflow));
}

std::uint16_t encode_bf16(float value, Overflow overflow) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  // Rounding a NaN whose payload is in the low bits would give infinity.
  if (magnitude > kF32Infinity) return static_cast<std::uint16_t>(sign | (magnitude >> 16) | 0x40);
  std::uint32_t code = shift_to_even(magnitude, 16);
  if (code > 0x7f7f && overflow == Overflow::saturate) code = 0x7f7f;
  return static_cast<std::uint16_t>(sign | code);
}

double load_as_f64(DType type, const void* data, std::int64_t index) noexcept {
  double value = 0;
  if (type == DType::none) return value;
  decode(type, static_cast<const unsigned char*>(data) + index * static_cast<std::int64_t>(size_of(type)),
         std::span<double>(&value, 1));
  return value;
}

void decode(DType type, const void* src, std::span<float> dst) noexcept { decode_array(type, src, dst); }
void decode(DType type, const void* src, std::span<double> dst) noexcept { decode_array(type, src, dst); }

void encode(DType type, std::span<const float> src, void* dst, Overflow overflow) noexcept {
  const auto each = [&](auto convert) {
    for (std::size_t i = 0; i < src.size(); ++i) store(dst, i, convert(src[i]));
  };
  switch (type) {
    case DType::f32:
      return each([](float value) { return value; });
    case DType::f16:
      return each([overflow](float value) { return encode_f16(value, overflow); });
    case DType::bf16:
      return each([overflow](float value) { return encode_bf16(value, overflow); });
    case DType::e4m3fn:
      return each([overflow](float value) { return encode_e4m3fn(value, overflow); });
    case DType::e5m2:
      return each([overflow](float value) { return encode_e5m2(value, overflow); });
    case DType::e8m0:
      return each([](float value) { return encode_e8m0(value); });
    case DType::f64:
      return each([](float value) { return static_cast<double>(value); });
    case DType::i8:
    case DType::s32:
    case DType::none:
      break;
  }
}

}  // namespace ironcl::numerics

// SPDX-License-Identifier: Apache-2.0
// Casts by integer arithmetic on the bit patterns: independent of the rounding mode, of flushed subnormals and of the
// processor's conversion instructions. Below them the one table of element types, whose loops they are compiled into:
// a type is one row and the functions that the row names; formats.h and casts.h ask there.
#include "backends/numerics/casts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/clones.h"

namespace ironcl::numerics {
namespace {

constexpr std::uint32_t kF32Infinity = 0x7f800000;

// A binary format of 1 sign bit, `exponent_bits` and `mantissa_bits`, with gradual underflow.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  std::uint32_t max_code;       // Largest finite magnitude.
  std::uint32_t overflow_code;  // What overflow gives in the plain form.
  std::uint32_t nan_code;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
};
constexpr FloatFormat kE4m3fn{4, 3, 0x7e, 0x7f, 0x7f};
constexpr FloatFormat kE5m2{5, 2, 0x7b, 0x7c, 0x7e};
constexpr FloatFormat kE2m1{2, 1, 0x7, 0x7, 0x7};
constexpr FloatFormat kF16{5, 10, 0x7bff, 0x7c00, 0x7e00};

// value >> shift, rounded to nearest even; shift from 1 to 31.
constexpr std::uint32_t shift_to_even(std::uint32_t value, int shift) {
  const std::uint32_t odd = (value >> shift) & 1;
  return (value + (1u << (shift - 1)) - 1 + odd) >> shift;
}

template <FloatFormat L>
auto encode_bits(float value, Overflow overflow) {
  using Code = std::conditional_t<L.sign_shift() < 8, std::uint8_t, std::uint16_t>;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 31) << L.sign_shift();
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kF32Infinity) return static_cast<Code>(sign | L.nan_code);

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
  return static_cast<Code>(sign | code);
}

// Sets the value of a finite code of L: (exponent field, mantissa) to f32, exactly.
template <FloatFormat L>
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

/// The 256 values of a type of one byte: a look-up instead of arithmetic in long loops.
template <auto Decode>
const std::array<float, 256>& values_of() noexcept {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (std::size_t code = 0; code < all.size(); ++code) all[code] = Decode(static_cast<std::uint8_t>(code));
    return all;
  }();
  return values;
}

}  // namespace

float decode_e4m3fn(std::uint8_t code) noexcept { return values_of<decode_bits<kE4m3fn>>()[code]; }
float decode_e5m2(std::uint8_t code) noexcept { return values_of<decode_bits<kE5m2>>()[code]; }

float decode_e8m0(std::uint8_t code) noexcept {
  if (code == 0xff) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;  // Subnormal in f32.
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

float decode_e2m1(std::uint8_t code) noexcept { return decode_bits<kE2m1>(code & 0xfu); }

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

std::uint8_t encode_e4m3fn(float value, Overflow overflow) noexcept { return encode_bits<kE4m3fn>(value, overflow); }
std::uint8_t encode_e5m2(float value, Overflow overflow) noexcept { return encode_bits<kE5m2>(value, overflow); }
std::uint8_t encode_e2m1(float value, Overflow) noexcept {
  return std::isnan(value) ? std::uint8_t{0} : encode_bits<kE2m1>(value, Overflow::saturate);
}
std::uint16_t encode_f16(float value, Overflow overflow) noexcept { return encode_bits<kF16>(value, overflow); }

std::uint8_t encode_e8m0(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) == 0) return 0;
  if (bits >= kF32Infinity) return 0xff;                      // Infinity, NaN and everything negative.
  if (bits <= 0x00400000) return 0;                           // At most 2^-127.
  return static_cast<std::uint8_t>((bits + 0x7fffff) >> 23);  // Above 2^127 this is 0xff: NaN.
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

namespace {

/// Elements of whole bytes, of type Raw, each through `Convert`. Files are mapped at any byte offset, hence memcpy.
template <class Raw, auto Convert, class T>
void decode_each(const void* from, std::int64_t first, std::span<T> to) {
  const auto* const bytes = static_cast<const unsigned char*>(from) + first * static_cast<std::int64_t>(sizeof(Raw));
  for (std::size_t i = 0; i < to.size(); ++i) {
    Raw raw;
    std::memcpy(&raw, bytes + i * sizeof(Raw), sizeof(Raw));
    to[i] = static_cast<T>(Convert(raw));
  }
}

IRONCL_CLONES void decode_bf16s(const void* from, std::int64_t first, std::span<float> to) {
  decode_each<std::uint16_t, decode_bf16>(from, first, to);
}

template <class Raw, auto Convert>
void encode_each(std::span<const float> from, void* to, Overflow overflow) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Raw raw = Convert(from[i], overflow);
    std::memcpy(static_cast<unsigned char*>(to) + i * sizeof(Raw), &raw, sizeof(Raw));
  }
}

template <auto Decode, class T>
void look_up_each(const void* from, std::int64_t first, std::span<T> to) {
  const auto& values = values_of<Decode>();
  const auto* const codes = static_cast<const std::uint8_t*>(from) + first;
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(values[codes[i]]);
}

/// Elements of four bits.
template <auto Decode, class T>
void look_up_halves(const void* from, std::int64_t first, std::span<T> to) {
  const auto& values = values_of<Decode>();
  const auto* const bytes = static_cast<const std::uint8_t*>(from);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t at = first + static_cast<std::int64_t>(i);
    to[i] = static_cast<T>(values[(bytes[at / 2] >> (4 * (at % 2))) & 0xf]);
  }
}

template <auto Convert>
void encode_halves(std::span<const float> from, void* to, Overflow overflow) {
  auto* const bytes = static_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < from.size(); i += 2) {
    const std::uint32_t low = Convert(from[i], overflow);
    const std::uint32_t high = i + 1 < from.size() ? Convert(from[i + 1], overflow) : 0u;
    bytes[i / 2] = static_cast<std::uint8_t>(low | high << 4);
  }
}

constexpr auto kSame = [](auto value) { return value; };
constexpr auto kF32 = [](float value, Overflow) { return value; };
constexpr auto kF64 = [](float value, Overflow) { return static_cast<double>(value); };
constexpr auto kE8m0 = [](float value, Overflow) { return encode_e8m0(value); };

/// A row of the table: what a type is called, how large it is, what it can hold, how it is decoded and encoded.
struct Element {
  std::string_view name, file_name;  ///< In this project, and in safetensors files.
  std::uint32_t bits = 0;            ///< Bits per element; those below eight share a byte, lower bits first.
  bool code = false;                 ///< Quantised operands come in it.
  bool real = false;                 ///< Unquantised operands and outputs come in it.
  bool scale = false;                ///< Scales come in it.
  bool integer = false;              ///< Codes of one kind go with their like only.
  double largest = 0;                ///< Finite.
  double unit_roundoff = 0;
  double smallest_subnormal = 0;
  double overflow_threshold = 0;
  /// Elements from number `first` on, as many as there is room for. Null for none.
  void (*to_f32)(const void* from, std::int64_t first, std::span<float> to) = nullptr;
  void (*to_f64)(const void* from, std::int64_t first, std::span<double> to) = nullptr;
  /// All of `from`; null where nothing is encoded to the type.
  void (*from_f32)(std::span<const float> from, void* to, Overflow overflow) = nullptr;
};

constexpr double kNever = std::numeric_limits<double>::infinity();
// The tie at 464 goes down, to 448, the even one: what overflows lies beyond.
constexpr double kBeyond464 = std::bit_cast<double>(std::bit_cast<std::uint64_t>(464.0) + 1);

// clang-format off
// In the order of the values of DType. name, name in files, bits, code, real, scale, integer, largest, unit roundoff,
// smallest subnormal, overflow from;
// to f32, to f64, from f32.
constexpr std::array<Element, kDTypes> kElements{{
    {"none", "", 0, false, false, false, false, 0, 0, 0, kNever, nullptr, nullptr, nullptr},
    {"f32", "F32", 32, false, true, true, false, 0x1.fffffep127, 0x1p-24, 0x1p-149, 0x1.ffffffp127,
     decode_each<float, kSame, float>, decode_each<float, kSame, double>, encode_each<float, kF32>},
    {"f16", "F16", 16, false, true, true, false, 65504, 0x1p-11, 0x1p-24, 65520,
     decode_each<std::uint16_t, decode_f16, float>, decode_each<std::uint16_t, decode_f16, double>,
     encode_each<std::uint16_t, encode_f16>},
    {"bf16", "BF16", 16, false, true, true, false, 0x1.fep127, 0x1p-8, 0x1p-133, 0x1.ffp127,
     decode_bf16s, decode_each<std::uint16_t, decode_bf16, double>,
     encode_each<std::uint16_t, encode_bf16>},
    {"e4m3fn", "F8_E4M3", 8, true, false, true, false, 448, 0x1p-4, 0x1p-9, kBeyond464,
     look_up_each<decode_bits<kE4m3fn>, float>, look_up_each<decode_bits<kE4m3fn>, double>,
     encode_each<std::uint8_t, encode_e4m3fn>},
    {"e5m2", "F8_E5M2", 8, true, false, false, false, 57344, 0x1p-3, 0x1p-16, 61440,
     look_up_each<decode_bits<kE5m2>, float>, look_up_each<decode_bits<kE5m2>, double>,
     encode_each<std::uint8_t, encode_e5m2>},
    {"e8m0", "F8_E8M0", 8, false, false, true, false, 0x1p127, 0.5, 0x1p-127, kNever,
     decode_each<std::uint8_t, decode_e8m0, float>, decode_each<std::uint8_t, decode_e8m0, double>,
     encode_each<std::uint8_t, kE8m0>},
    {"i8", "I8", 8, true, false, false, true, 127, 0, 1, kNever,
     decode_each<std::int8_t, kSame, float>, decode_each<std::int8_t, kSame, double>, nullptr},
    {"s32", "I32", 32, false, false, false, true, 2147483647, 0, 1, kNever,
     decode_each<std::int32_t, kSame, float>, decode_each<std::int32_t, kSame, double>, nullptr},
    {"f64", "F64", 64, false, false, false, false, 0x1.fffffffffffffp1023, 0x1p-53, 0x1p-1074, kNever,
     decode_each<double, kSame, float>, decode_each<double, kSame, double>, encode_each<double, kF64>},
    {"e2m1", "", 4, true, false, false, false, 6, 0.25, 0.5, 7,
     look_up_halves<decode_e2m1, float>, look_up_halves<decode_e2m1, double>, encode_halves<encode_e2m1>},
}};
// clang-format on

/// The row of a type; of none where there is no such type.
const Element& element_of(DType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return kElements[index < kElements.size() ? index : 0];
}

}  // namespace

std::uint32_t bits_of(DType type) noexcept { return element_of(type).bits; }
std::uint32_t size_of(DType type) noexcept { return (element_of(type).bits + 7) / 8; }
std::string_view name_of(DType type) noexcept { return element_of(type).name; }
std::string_view file_name_of(DType type) noexcept { return element_of(type).file_name; }
double largest(DType type) noexcept { return element_of(type).largest; }
double unit_roundoff(DType type) noexcept { return element_of(type).unit_roundoff; }
double smallest_subnormal(DType type) noexcept { return element_of(type).smallest_subnormal; }
double overflow_threshold(DType type) noexcept { return element_of(type).overflow_threshold; }
bool is_quantized(DType type) noexcept { return element_of(type).code; }
bool is_float(DType type) noexcept { return element_of(type).real; }
bool is_integer(DType type) noexcept { return element_of(type).integer; }
bool is_scale(DType type) noexcept { return element_of(type).scale; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  if (name == "e4m3") return DType::e4m3fn;
  const auto found = std::ranges::find(kElements, name, &Element::name);
  if (found == kElements.end()) return std::nullopt;
  return static_cast<DType>(found - kElements.begin());
}

double load_as_f64(DType type, const void* data, std::int64_t index) noexcept {
  double value = 0;
  decode(type, data, index, std::span(&value, 1));
  return value;
}

void decode(DType type, const void* src, std::span<float> dst) noexcept {
  if (const Element& element = element_of(type); element.to_f32 != nullptr) element.to_f32(src, 0, dst);
}

void decode(DType type, const void* src, std::span<double> dst) noexcept { decode(type, src, 0, dst); }

void decode(DType type, const void* src, std::int64_t first, std::span<double> dst) noexcept {
  if (const Element& element = element_of(type); element.to_f64 != nullptr) element.to_f64(src, first, dst);
}

void encode(DType type, std::span<const float> src, void* dst, Overflow overflow) noexcept {
  if (const Element& element = element_of(type); element.from_f32 != nullptr) element.from_f32(src, dst, overflow);
}

}  // namespace ironcl::numerics

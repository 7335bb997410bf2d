// SPDX-License-Identifier: Apache-2.0
// The one table of the element types.
#include "backends/numerics/formats.h"

#include <array>
#include <cstddef>

namespace ironcl::numerics {
namespace {

struct Format {
  std::string_view name;
  std::uint32_t size;
  double largest;
  double unit_roundoff;
  double smallest_subnormal;
};

// In the order of the DType values.
constexpr std::array<Format, 10> kFormats{{
    {"none", 0, 0, 0, 0},
    {"f32", 4, 0x1.fffffep127, 0x1p-24, 0x1p-149},
    {"f16", 2, 65504, 0x1p-11, 0x1p-24},
    {"bf16", 2, 0x1.fep127, 0x1p-8, 0x1p-133},
    {"e4m3fn", 1, 448, 0x1p-4, 0x1p-9},
    {"e5m2", 1, 57344, 0x1p-3, 0x1p-16},
    {"e8m0", 1, 0x1p127, 0.5, 0x1p-127},
    {"i8", 1, 127, 0, 1},
    {"s32", 4, 2147483647, 0, 1},
    {"f64", 8, 0x1.fffffffffffffp1023, 0x1p-53, 0x1p-1074},
}};

const Format& format_of(DType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return kFormats[index < kFormats.size() ? index : 0];
}

}  // namespace

std::uint32_t size_of(DType type) noexcept { return format_of(type).size; }
std::string_view name_of(DType type) noexcept { return format_of(type).name; }
double largest(DType type) noexcept { return format_of(type).largest; }
double unit_roundoff(DType type) noexcept { return format_of(type).unit_roundoff; }
double smallest_subnormal(DType type) noexcept { return format_of(type).smallest_subnormal; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  if (name == "e4m3") return DType::e4m3fn;
  for (std::size_t index = 0; index < kFormats.size(); ++index) {
    if (kFormats[index].name == name) return static_cast<DType>(index);
  }
  return std::nullopt;
}

bool is_quantized(DType type) noexcept { return type == DType::e4m3fn || type == DType::e5m2 || type == DType::i8; }
bool is_float(DType type) noexcept { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

}  // namespace ironcl::numerics

// SPDX-License-Identifier: Apache-2.0
// What formats.h says of a type, from the table of elements.
#include "backends/numerics/formats.h"

#include "backends/numerics/elements.h"

namespace ironcl::numerics {

std::uint32_t bits_of(DType type) noexcept { return element_of(type).bits; }
std::uint32_t size_of(DType type) noexcept { return (element_of(type).bits + 7) / 8; }
std::string_view name_of(DType type) noexcept { return element_of(type).name; }
std::string_view file_name_of(DType type) noexcept { return element_of(type).file_name; }
double largest(DType type) noexcept { return element_of(type).largest; }
double unit_roundoff(DType type) noexcept { return element_of(type).unit_roundoff; }
double smallest_subnormal(DType type) noexcept { return element_of(type).smallest_subnormal; }
bool is_quantized(DType type) noexcept { return element_of(type).code; }
bool is_float(DType type) noexcept { return element_of(type).real; }
bool is_integer(DType type) noexcept { return element_of(type).integer; }
bool is_scale(DType type) noexcept { return element_of(type).scale; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  if (name == "e4m3") return DType::e4m3fn;
  for (std::size_t index = 0; index < elements().size(); ++index) {
    if (elements()[index].name == name) return static_cast<DType>(index);
  }
  return std::nullopt;
}

}  // namespace ironcl::numerics

// SPDX-License-Identifier: Apache-2.0
// What a kernel's arithmetic is worth. Next door: bounds.h (the error that each class may have).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ironcl::numerics {

/// The values are those of IRONCL_ACCURACY_* in ironcl/plugin.h.
enum class AccuracyClass : std::uint32_t { f32 = 0, tensor14 = 1 };

/// "f32" or "tensor14".
constexpr std::string_view name_of(AccuracyClass accuracy) noexcept {
  return accuracy == AccuracyClass::tensor14 ? "tensor14" : "f32";
}

/// The class with that name; empty where there is none.
constexpr std::optional<AccuracyClass> parse_accuracy(std::string_view name) noexcept {
  for (const AccuracyClass one : {AccuracyClass::f32, AccuracyClass::tensor14})
    if (name == name_of(one)) return one;
  return std::nullopt;
}

}  // namespace ironcl::numerics

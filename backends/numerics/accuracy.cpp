// SPDX-License-Identifier: Apache-2.0
#include "backends/numerics/accuracy.h"

namespace ironcl::numerics {

std::string_view name_of(AccuracyClass accuracy) noexcept {
  return accuracy == AccuracyClass::tensor14 ? "tensor14" : "f32";
}

std::optional<AccuracyClass> parse_accuracy(std::string_view name) noexcept {
  if (name == "f32") return AccuracyClass::f32;
  if (name == "tensor14") return AccuracyClass::tensor14;
  return std::nullopt;
}

}  // namespace ironcl::numerics

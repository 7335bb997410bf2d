// SPDX-License-Identifier: Apache-2.0
// The one table of element types: what each is called, how large it is, what it can hold, how it is decoded and
// encoded. A type is one row in casts.cpp and the functions that the row names; formats, casts and the bounds
// ask here. Private to this folder: formats.h and casts.h are what others use.
#pragma once

#include <span>

#include "backends/numerics/casts.h"

namespace ironcl::numerics {

/// One row.
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
  /// From this magnitude on, rounding to nearest even gives an overflow: the largest finite value and half a step
  /// more.
  double overflow_threshold = 0;
  /// Elements from number `first` on, as many as there is room for. Null for none.
  void (*to_f32)(const void* from, std::int64_t first, std::span<float> to) = nullptr;
  void (*to_f64)(const void* from, std::int64_t first, std::span<double> to) = nullptr;
  /// All of `from`; null where nothing is encoded to the type.
  void (*from_f32)(std::span<const float> from, void* to, Overflow overflow) = nullptr;
};

/// The row of a type; of none where there is no such type.
const Element& element_of(DType type) noexcept;

/// All rows, in the order of the values of DType.
std::span<const Element> elements() noexcept;

}  // namespace ironcl::numerics

// SPDX-License-Identifier: Apache-2.0
// Which operands a call has, and which of them are the same bytes.
#pragma once

#include <array>

#include "backends/interface.h"

namespace ironcl::backend {

/// Where bytes of a span lie: those of two can be the same only where the space is.
struct Place {
  const void* space;
  std::uint64_t begin, end;

  bool overlaps(const Place& other) const { return space == other.space && begin < other.end && other.begin < end; }
};

inline Place place_of(const Span& span) {
  const Buffer& buffer = *span.buffer;
  if (buffer.imported == nullptr) return {&buffer, span.offset, span.offset + span.size};
  const std::uint64_t begin =
      span.offset + (buffer.is_host_pointer ? reinterpret_cast<std::uintptr_t>(buffer.imported) : 0);
  return {buffer.is_host_pointer ? nullptr : buffer.imported, begin, begin + span.size};
}

inline bool overlap(const Span& one, const Span& other) {
  return one && other && one.size != 0 && other.size != 0 && place_of(one).overlaps(place_of(other));
}

/// The operands of a call; absent ones too.
inline auto operands(const GemmArgs& a) {
  return std::array{&a.a,    &a.a_scale,     &a.a_global,  &a.d,       &a.d_scale,     &a.d_global,
                    &a.bias, &a.matrix_rows, &a.workspace, &a.a_index, &a.a_quantized, &a.a_quantized_scale};
}
inline auto operands(const QuantizeArgs& a) { return std::array{&a.x, &a.codes, &a.scales, &a.global}; }
inline auto operands(const RouteArgs& a) {
  return std::array{&a.logits, &a.bias, &a.ids, &a.weights, &a.matrix_rows, &a.a_index, &a.rows, &a.shared_weights};
}
inline auto operands(const ActivateArgs& a) {
  return std::array{&a.gate, &a.up, &a.y, &a.scales, &a.matrix_rows, &a.global};
}
inline auto operands(const CombineArgs& a) {
  return std::array{&a.x, &a.rows, &a.weights, &a.add, &a.add_weights, &a.y};
}

}  // namespace ironcl::backend

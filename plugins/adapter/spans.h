// SPDX-License-Identifier: Apache-2.0
// What a call brings: a list of its operands, from which all checks are made: inside their buffers, large enough,
// aligned, apart. Throws as validate.h says. Next door: args.cpp (the lists).
#pragma once

#include <initializer_list>

#include "plugins/adapter/handles.h"

namespace ironcl::adapter {

/// Bytes of a matrix of `rows` rows; 0 where there are none. The description's own check has shown that this does not
/// overflow.
std::uint64_t bytes_of(std::int64_t rows, std::int64_t ld, std::int64_t cols, backend::DType type);

/// How much a call brings: "m = 4" in messages, with rows of A where these are gathered.
struct Brings {
  std::string_view name;
  std::int64_t count = 0, a_rows = 0;
};

/// The bytes that an operand needs, and the type of its elements (none: bytes).
struct Room {
  std::uint64_t bytes = 0;
  backend::DType type = backend::DType::none;
};
inline Room matrix(std::int64_t rows, std::int64_t ld, std::int64_t cols, backend::DType type) {
  return {bytes_of(rows, ld, cols, type), type};
}
inline Room row(std::int64_t count, backend::DType type) { return matrix(1, count, count, type); }
/// `rows`: of scales, beside operands of `cols` columns.
inline Room scales(const backend::ScaleDesc& scale, std::int64_t rows, std::int64_t cols) {
  return matrix(rows, scale.ld, scale.grid.scale_cols(cols), scale.dtype);
}

/// When an operand has to be there: where the call brings something, also where it brings nothing, or never.
enum class Presence { with_rows, always, optional };

/// An operand of a call.
struct Operand {
  std::string_view name;  ///< The member of the arguments.
  const ironcl_span& given;
  backend::Span& span;  ///< The span to fill.
  Room room;
  const char* absent = nullptr;  ///< Why the description leaves it out; null: it does not.
  bool written = false;          ///< A written span overlaps no other.
  Presence presence = Presence::with_rows;
};

/// `why` where the description leaves an operand out.
constexpr const char* unless(bool there, const char* why) { return there ? nullptr : why; }

/// Checks all operands of one call of `args` and hands them over.
void take_operands(std::string_view args, const DeviceState& device, const Brings& brings,
                   std::initializer_list<Operand> operands);

std::vector<std::shared_ptr<backend::Event>> wait_list(const ironcl_event* wait, std::uint32_t count,
                                                       std::string_view name);

}  // namespace ironcl::adapter

// SPDX-License-Identifier: Apache-2.0
// Structs that cross the boundary: reading those of any length, filling those of any length, walking chains.
// Next door: validate.h (what is in them).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "backends/interface.h"
#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::adapter {

// Each throws backend::Error, the message by fmt.
template <class... Args>
[[noreturn]] void refuse(backend::Status status, fmt::format_string<Args...> text, Args&&... args) {
  throw backend::Error(status, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void invalid(fmt::format_string<Args...> text, Args&&... args) {
  refuse(backend::Status::invalid_argument, text, std::forward<Args>(args)...);
}
template <class... Args>
[[noreturn]] void unimplemented(fmt::format_string<Args...> text, Args&&... args) {
  refuse(backend::Status::unimplemented, text, std::forward<Args>(args)...);
}

/// Throws invalid where `pointer` is null: "`what` is NULL".
void require(const void* pointer, std::string_view what);

/// Copies `text` into `capacity` bytes (at least 1), cut at a whole UTF-8 character, NUL-terminated.
void copy_text(char* out, std::size_t capacity, std::string_view text) noexcept;

template <std::size_t N>
void copy_text(char (&out)[N], std::string_view text) noexcept {
  copy_text(out, N, text);
}

namespace detail {
/// Throws invalid where struct_size cannot be right. No struct of this ABI comes near 64 KiB: beyond it the field was
/// never set, and reading on would leave the caller's memory.
void check_size(std::uint32_t size, std::string_view name, std::size_t known);
/// Throws unimplemented where a byte of [known, size) is not zero.
void check_tail(const void* in, std::uint32_t size, std::string_view name, std::size_t known);
}  // namespace detail

/// Throws unimplemented where the reserved field of a struct is not zero.
void check_reserved(std::uint64_t value, std::string_view of);
/// Throws unimplemented where the flags of a struct have a bit outside `known`. `of` is empty for an argument.
void check_flags(std::uint32_t flags, std::uint32_t known, std::string_view of);

/// The part of type `type` in a chain, or null. Throws unimplemented for a required part of another type, invalid for
/// a part that is there twice and for a chain that does not end. `type` 0: none is known here.
const ironcl_chain* find_in_chain(const ironcl_chain* chain, std::uint32_t type, std::string_view name);

/// The struct at `in` as this ABI knows it: a missing tail reads as zero; an unknown tail, a reserved field and flags
/// other than `known_flags` must be zero, and its chain may have parts of type `chain_type` (0: of no type) only.
/// `name` is what the messages call it.
template <class T>
T read_struct(const T* in, std::string_view name, std::uint32_t known_flags = 0, std::uint32_t chain_type = 0) {
  require(in, name);
  std::uint32_t size = 0;
  std::memcpy(&size, in, sizeof size);
  detail::check_size(size, name, sizeof(T));
  T out{};
  std::memcpy(&out, in, std::min<std::size_t>(size, sizeof(T)));
  detail::check_tail(in, size, name, sizeof(T));
  if constexpr (requires { out.flags; }) check_flags(out.flags, known_flags, name);
  if constexpr (requires { out.reserved; }) check_reserved(out.reserved, name);
  if constexpr (requires { out.next; }) find_in_chain(out.next, chain_type, name);
  return out;
}

/// Checks a struct that is to be filled, before any work is done for it.
template <class T>
void check_out(const T* out, std::string_view name) {
  require(out, name);
  std::uint32_t size = 0;
  std::memcpy(&size, out, sizeof size);
  detail::check_size(size, name, sizeof(T));
}

/// Writes min(struct_size, known) bytes and leaves struct_size alone.
template <class T>
void write_struct(T* out, const T& full) noexcept {
  std::uint32_t size = 0;
  std::memcpy(&size, out, sizeof size);
  const std::size_t head = sizeof size;
  const std::size_t count = std::min<std::size_t>(size, sizeof(T));
  if (count > head) {
    std::memcpy(reinterpret_cast<std::byte*>(out) + head, reinterpret_cast<const std::byte*>(&full) + head,
                count - head);
  }
}

}  // namespace ironcl::adapter

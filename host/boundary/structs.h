// SPDX-License-Identifier: Apache-2.0
// What both sides of the C ABI do at their door: read structs of any length, fill those of any length, walk chains,
// and turn what is thrown behind the door into a status. Next door: plugin.h (the rules), plugins/adapter (a plugin's
// door), host/registry/c_api.cpp and host/layer/c_api.cpp (the library's).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::boundary {

/// A refusal on its way to the caller.
class Refused : public std::runtime_error {
 public:
  explicit Refused(ironcl_status status, const std::string& message, std::int32_t native_code = 0)
      : std::runtime_error(message), status_(status), native_code_(native_code) {}
  ironcl_status status() const noexcept { return status_; }
  std::int32_t native_code() const noexcept { return native_code_; }  ///< The driver's own code, else 0.

 private:
  ironcl_status status_;
  std::int32_t native_code_;
};

// Each throws Refused, the message by fmt.
template <class... Args>
[[noreturn]] void refuse(ironcl_status status, fmt::format_string<Args...> text, Args&&... args) {
  throw Refused(status, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void invalid(fmt::format_string<Args...> text, Args&&... args) {
  refuse(IRONCL_INVALID_ARGUMENT, text, std::forward<Args>(args)...);
}
template <class... Args>
[[noreturn]] void unimplemented(fmt::format_string<Args...> text, Args&&... args) {
  refuse(IRONCL_UNIMPLEMENTED, text, std::forward<Args>(args)...);
}

/// Throws invalid where one of the pointers is null: "`what` is NULL".
template <class... Pointers>
void require(std::string_view what, Pointers... pointers) {
  if (((pointers == nullptr) || ...)) invalid("{} is NULL", what);
}

/// Copies `text` into `capacity` bytes (at least 1), cut at a whole UTF-8 character, NUL-terminated.
inline void copy_text(char* out, std::size_t capacity, std::string_view text) noexcept {
  std::size_t size = std::min(text.size(), capacity - 1);
  // A byte 10xxxxxx continues a character: the cut goes before the character's first byte.
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0u) == 0x80u) --size;
  std::memcpy(out, text.data(), size);
  std::memset(out + size, 0, capacity - size);
}
template <std::size_t N>
void copy_text(char (&out)[N], std::string_view text) noexcept {
  copy_text(out, N, text);
}

/// Fills *error (may be null): min(struct_size, known) bytes, struct_size left alone. Returns `status`. Allocates
/// nothing.
inline ironcl_status fail(ironcl_error* error, ironcl_status status, const char* message,
                          std::int32_t native_code = 0) noexcept {
  if (error == nullptr || error->struct_size < sizeof(std::uint32_t)) return status;
  ironcl_error full{};
  full.struct_size = error->struct_size;
  full.status = status;
  full.native_code = native_code;
  const std::size_t size = std::min<std::size_t>(error->struct_size, sizeof full);
  constexpr std::size_t kHead = offsetof(ironcl_error, message);
  if (size > kHead) copy_text(full.message, size - kHead, message);
  std::memcpy(error, &full, size);
  return status;
}

/// The caller's struct_size; throws invalid where it cannot be right. No struct of this ABI comes near 64 KiB: beyond
/// it the field was never set, and reading on would leave the caller's memory.
template <class T>
std::uint32_t struct_size_of(const T* given, std::string_view name) {
  constexpr std::uint32_t kLargest = 1u << 16;
  require(name, given);
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > kLargest)
    invalid("{0}.struct_size is {1}; set it to sizeof({0}), which is {2} in ABI {3}.{4}", name, size, sizeof(T),
            IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  return size;
}

/// Throws unimplemented where a byte of [known, size) is not zero.
inline void check_tail(const void* in, std::uint32_t size, std::string_view name, std::size_t known) {
  const auto* bytes = static_cast<const unsigned char*>(in);
  for (std::size_t offset = known; offset < size; ++offset)
    if (bytes[offset] != 0)
      unimplemented(
          "{} has {} bytes, of which {} are known here (ABI {}.{}), and the byte at offset {} is not zero: leave the "
          "newer fields zero, or use a newer plugin or library",
          name, size, known, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR, offset);
}

/// Throws unimplemented where the reserved field of a struct is not zero.
inline void check_reserved(std::uint64_t value, std::string_view of) {
  if (value != 0)
    unimplemented("{}.reserved is {}, but ABI {}.{} has no meaning for it: leave it 0", of, value, IRONCL_ABI_MAJOR,
                  IRONCL_ABI_MINOR);
}

/// Throws unimplemented where the flags of a struct have a bit outside `known`. `of` is empty for an argument.
inline void check_flags(std::uint32_t flags, std::uint32_t known, std::string_view of) {
  if ((flags & ~known) != 0)
    unimplemented("{}{}flags has the bits {:#x}, of which {:#x} are known here (ABI {}.{})", of,
                  of.empty() ? "" : ".", flags, known, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
}

/// The part of type `type` in a chain, or null. Throws unimplemented for a required part of another type, invalid for
/// a part that is there twice and for a chain that does not end. `type` 0: none is known here.
inline const ironcl_chain* find_in_chain(const ironcl_chain* chain, std::uint32_t type, std::string_view name) {
  constexpr int kLongestChain = 64;
  const ironcl_chain* found = nullptr;
  int length = 0;
  for (const ironcl_chain* part = chain; part != nullptr; part = part->next) {
    if (++length > kLongestChain)
      invalid("{}.next: the chain has more than {} parts; does it end in itself?", name, kLongestChain);
    if (part->struct_size < sizeof(ironcl_chain))
      invalid("{}.next: part {} has struct_size {}; set it to sizeof of the whole part", name, length,
              part->struct_size);
    const std::uint32_t part_type = part->type & ~IRONCL_CHAIN_REQUIRED;
    if (type != 0 && part_type == type) {
      if (found != nullptr) invalid("{}.next: type {} occurs twice", name, type);
      found = part;
    } else if ((part->type & IRONCL_CHAIN_REQUIRED) != 0) {
      unimplemented("{}.next: part {} has type {}, which must be understood here and is not", name, length,
                    part_type);
    }
  }
  return found;
}

/// The struct at `in` as this ABI knows it: a missing tail reads as zero; an unknown tail, a reserved field and flags
/// other than `known_flags` must be zero, and its chain may have parts of type `chain_type` (0: of no type) only.
/// `name` is what the messages call it.
template <class T>
T read_struct(const T* in, std::string_view name, std::uint32_t known_flags = 0, std::uint32_t chain_type = 0) {
  const std::uint32_t size = struct_size_of(in, name);
  T out{};
  std::memcpy(&out, in, std::min<std::size_t>(size, sizeof(T)));
  check_tail(in, size, name, sizeof(T));
  if constexpr (requires { out.flags; }) check_flags(out.flags, known_flags, name);
  if constexpr (requires { out.reserved; }) check_reserved(out.reserved, name);
  if constexpr (requires { out.next; }) find_in_chain(out.next, chain_type, name);
  return out;
}

/// Checks a struct that is to be filled, before any work is done for it.
template <class T>
void check_out(const T* out, std::string_view name) {
  struct_size_of(out, name);
}

/// Fills the caller's struct, which was checked, as far as it reaches; struct_size stays.
template <class T>
void write_struct(T* out, const T& full) noexcept {
  constexpr std::size_t kHead = sizeof(std::uint32_t);
  std::uint32_t size = 0;
  std::memcpy(&size, out, sizeof size);
  const std::size_t count = std::min<std::size_t>(size, sizeof(T));
  std::memcpy(reinterpret_cast<std::byte*>(out) + kHead, reinterpret_cast<const std::byte*>(&full) + kHead,
              std::max(count, kHead) - kHead);
}

/// A slot's name as a template argument.
template <std::size_t N>
struct SlotName {
  char text[N]{};
  constexpr SlotName(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT: a literal is the argument
};

/// The last of the arguments of a slot: where to put what went wrong; null where it has no such place.
inline ironcl_error* error_of() noexcept { return nullptr; }
inline ironcl_error* error_of(ironcl_error* error) noexcept { return error; }
template <class First, class... Rest>
ironcl_error* error_of(First, Rest... rest) noexcept {
  return error_of(rest...);
}

/// Runs `body`. Nothing leaves: Refused is its own status, bad_alloc
/// OUT_OF_HOST_MEMORY, anything else INTERNAL. `slot`: of a plugin's table, for which that is a bug; empty elsewhere.
template <class Body>
ironcl_status guard(const char* slot, ironcl_error* error, Body&& body) noexcept {
  const auto internal = [&](const char* what) {
    char message[sizeof(ironcl_error::message)];
    std::snprintf(message, sizeof message, "%s%s%s", slot,
                  *slot == '\0' ? "" : ": a bug in the plugin, caught at its boundary: ", what);
    return fail(error, IRONCL_INTERNAL, message);
  };
  try {
    body();
    return IRONCL_OK;
  } catch (const Refused& refused) {
    if (refused.status() == IRONCL_OK || refused.status() > IRONCL_INTERNAL) return internal(refused.what());
    return fail(error, refused.status(), refused.what(), refused.native_code());
  } catch (const std::bad_alloc&) {
    return fail(error, IRONCL_OUT_OF_HOST_MEMORY, "the host is out of memory; free some and try again");
  } catch (const std::exception& thrown) {
    return internal(thrown.what());
  } catch (...) {
    return internal("something other than a std::exception was thrown");
  }
}

}  // namespace ironcl::boundary

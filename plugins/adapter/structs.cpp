// SPDX-License-Identifier: Apache-2.0
// Structs that cross the boundary, and how a failure becomes an ironcl_error. Next door: structs.h, guard.h.
#include "plugins/adapter/structs.h"

#include <cstdio>

#include "plugins/adapter/guard.h"

namespace ironcl::adapter {

namespace {
constexpr std::uint32_t kLargestStruct = 1u << 16;
constexpr int kLongestChain = 64;
}  // namespace

void require(const void* pointer, std::string_view what) {
  if (pointer == nullptr) invalid("{} is NULL", what);
}

void copy_text(char* out, std::size_t capacity, std::string_view text) noexcept {
  std::size_t size = std::min(text.size(), capacity - 1);
  // A byte 10xxxxxx continues a character: the cut goes before the character's first byte.
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0u) == 0x80u) --size;
  std::memcpy(out, text.data(), size);
  std::memset(out + size, 0, capacity - size);
}

namespace detail {

void check_size(std::uint32_t size, std::string_view name, std::size_t known) {
  if (size < sizeof(std::uint32_t) || size > kLargestStruct) {
    invalid("{}.struct_size is {}; set it to sizeof of the struct ({} in ABI {}.{})", name, size, known,
            IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  }
}

void check_tail(const void* in, std::uint32_t size, std::string_view name, std::size_t known) {
  const auto* bytes = static_cast<const unsigned char*>(in);
  for (std::size_t offset = known; offset < size; ++offset) {
    if (bytes[offset] != 0) {
      unimplemented(
          "{} has {} bytes of which this plugin knows {} (ABI {}.{}), and the byte at offset {} is not "
          "zero: leave the "
          "newer fields zero, or use a newer plugin",
          name, size, known, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR, offset);
    }
  }
}

}  // namespace detail

void check_reserved(std::uint64_t value, std::string_view of) {
  if (value != 0) {
    unimplemented("{}.reserved is {}, but ABI {}.{} has no meaning for it: leave it 0", of, value, IRONCL_ABI_MAJOR,
                  IRONCL_ABI_MINOR);
  }
}

void check_flags(std::uint32_t flags, std::uint32_t known, std::string_view of) {
  if ((flags & ~known) != 0) {
    unimplemented("{}{}flags has the bits {:#x}, of which this plugin knows {:#x} (ABI {}.{})", of,
                  of.empty() ? "" : ".", flags, known, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  }
}

const ironcl_chain* find_in_chain(const ironcl_chain* chain, std::uint32_t type, std::string_view name) {
  const ironcl_chain* found = nullptr;
  int length = 0;
  for (const ironcl_chain* part = chain; part != nullptr; part = part->next) {
    if (++length > kLongestChain) {
      invalid("{}.next: the chain has more than {} parts; does it end in itself?", name, kLongestChain);
    }
    if (part->struct_size < sizeof(ironcl_chain)) {
      invalid("{}.next: part {} has struct_size {}; set it to sizeof of the whole part", name, length,
              part->struct_size);
    }
    const std::uint32_t part_type = part->type & ~IRONCL_CHAIN_REQUIRED;
    if (type != 0 && part_type == type) {
      if (found != nullptr) invalid("{}.next: type {} occurs twice", name, type);
      found = part;
    } else if ((part->type & IRONCL_CHAIN_REQUIRED) != 0) {
      unimplemented("{}.next: part {} has type {}, which this plugin must understand and does not", name, length,
                    part_type);
    }
  }
  return found;
}

ironcl_status fail(ironcl_error* error, ironcl_status status, const char* message,
                   std::int32_t native_code) noexcept {
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

ironcl_status fail_internal(ironcl_error* error, const char* slot, const char* what) noexcept {
  char message[sizeof(ironcl_error::message)];
  std::snprintf(message, sizeof message, "%s: a bug in the plugin, caught at its boundary: %s", slot, what);
  return fail(error, IRONCL_INTERNAL, message, 0);
}

ironcl_status fail_with(ironcl_error* error, const char* slot, const backend::Error& thrown) noexcept {
  const auto status = static_cast<ironcl_status>(thrown.status());
  if (status == IRONCL_OK || status > IRONCL_INTERNAL) return fail_internal(error, slot, thrown.what());
  return fail(error, status, thrown.what(), thrown.native_code());
}

}  // namespace ironcl::adapter

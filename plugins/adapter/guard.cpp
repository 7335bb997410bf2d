// SPDX-License-Identifier: Apache-2.0
// How a failure becomes an ironcl_error. Next door: guard.h.
#include "plugins/adapter/guard.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "plugins/adapter/structs.h"

namespace ironcl::adapter {

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

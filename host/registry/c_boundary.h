// SPDX-License-Identifier: Apache-2.0
// What every C function of libironcl does with its structs and with what is thrown behind it. Next door: c_api.cpp,
// host/layer/c_api.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "host/include/ironcl/ironcl.h"
#include "host/registry/complete_table.h"
#include "host/registry/text.h"

namespace ironcl::registry {

inline ironcl_status answer(const Result& result, ironcl_error* error) noexcept {
  if (result.ok()) return IRONCL_OK;
  fill_error(error, result.status, result.message.c_str());
  if (error != nullptr && error->struct_size >= offsetof(ironcl_error, reserved))
    error->native_code = result.native_code;
  return result.status;
}

/// function() -> Result, with what it throws.
template <class Function>
ironcl_status guard(ironcl_error* error, Function&& function) noexcept {
  try {
    return answer(function(), error);
  } catch (const std::bad_alloc&) {
    fill_error(error, IRONCL_OUT_OF_HOST_MEMORY, "no memory left");
    return IRONCL_OUT_OF_HOST_MEMORY;
  } catch (const std::exception& thrown) {
    fill_error(error, IRONCL_INTERNAL, thrown.what());
    return IRONCL_INTERNAL;
  } catch (...) {
    fill_error(error, IRONCL_INTERNAL, "something was thrown");
    return IRONCL_INTERNAL;
  }
}

/// Reads a struct of the caller: a missing tail is zero, an unknown one must be. `least`: bytes it must have.
template <class Struct>
Result read_struct(const Struct* in, const char* name, std::size_t least, Struct& out) {
  std::uint32_t size = 0;
  std::memcpy(&size, in, sizeof size);
  if (size < least)
    return {IRONCL_INVALID_ARGUMENT, std::string(name) + ".struct_size is " + std::to_string(size) +
                                         "; set it to sizeof(" + name + "), which is " +
                                         std::to_string(sizeof(Struct))};
  out = {};
  std::memcpy(&out, in, std::min<std::size_t>(size, sizeof(Struct)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char b) { return b != 0; }))
    return {IRONCL_UNIMPLEMENTED, std::string(name) + " has fields that this library, " + ironcl_build_id() +
                                      ", does not know; leave them zero or take a newer library"};
  out.struct_size = sizeof(Struct);
  return {};
}

/// Fills a struct of the caller as far as it reaches; its struct_size stays.
template <class Struct>
Result write_struct(const Struct& in, const char* name, Struct* out) {
  const std::uint32_t size = out->struct_size;
  if (size < sizeof size)
    return {IRONCL_INVALID_ARGUMENT, std::string(name) + ".struct_size is " + std::to_string(size) +
                                         "; set it to sizeof(" + name + "), which is " +
                                         std::to_string(sizeof(Struct))};
  std::memcpy(out, &in, std::min<std::size_t>(size, sizeof(Struct)));
  out->struct_size = size;
  return {};
}

}  // namespace ironcl::registry

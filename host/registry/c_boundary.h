// SPDX-License-Identifier: Apache-2.0
// What every C function of libironcl does with its structs and with what is thrown behind it. Next door: c_api.cpp,
// host/layer/c_api.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>

#include "host/include/ironcl/ironcl.h"
#include "host/registry/complete_table.h"
#include "host/registry/text.h"

namespace ironcl::registry {

/// A result that is not OK, on its way to the caller.
struct Refused {
  Result result;
};

[[noreturn]] inline void refuse(ironcl_status status, std::string message) {
  throw Refused{{status, std::move(message)}};
}
[[noreturn]] inline void invalid(std::string message) { refuse(IRONCL_INVALID_ARGUMENT, std::move(message)); }

/// Throws where the result is not OK.
inline void check(Result result) {
  if (!result.ok()) throw Refused{std::move(result)};
}

/// Throws "`names` is NULL" where one of the pointers is.
template <class... Pointers>
void require(const char* names, Pointers... pointers) {
  if (((pointers == nullptr) || ...)) invalid(std::string(names) + " is NULL");
}

inline ironcl_status answer(const Result& result, ironcl_error* error) noexcept {
  fill_error(error, result.status, result.message.c_str());
  if (error != nullptr && error->struct_size >= offsetof(ironcl_error, reserved))
    error->native_code = result.native_code;
  return result.status;
}

/// Runs function(), with what it throws as a status.
template <class Function>
ironcl_status guard(ironcl_error* error, Function&& function) noexcept {
  try {
    function();
    return IRONCL_OK;
  } catch (const Refused& refused) {
    return answer(refused.result, error);
  } catch (const std::bad_alloc&) {
    fill_error(error, IRONCL_OUT_OF_HOST_MEMORY, "the host is out of memory");
    return IRONCL_OUT_OF_HOST_MEMORY;
  } catch (const std::exception& thrown) {
    fill_error(error, IRONCL_INTERNAL, thrown.what());
    return IRONCL_INTERNAL;
  } catch (...) {
    fill_error(error, IRONCL_INTERNAL, "something was thrown");
    return IRONCL_INTERNAL;
  }
}

/// The caller's struct_size; throws where it cannot be right.
template <class Struct>
std::uint32_t size_of_struct(const Struct* given, const char* name) {
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size)
    invalid(std::string(name) + ".struct_size is " + std::to_string(size) + "; set it to sizeof(" + name +
            "), which is " + std::to_string(sizeof(Struct)));
  return size;
}

/// Reads a struct of the caller: a missing tail is zero, an unknown one must be.
template <class Struct>
Struct read_struct(const Struct* in, const char* name) {
  const std::uint32_t size = size_of_struct(in, name);
  Struct out{};
  std::memcpy(&out, in, std::min<std::size_t>(size, sizeof(Struct)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char b) { return b != 0; }))
    refuse(IRONCL_UNIMPLEMENTED, std::string(name) + " has fields that this library, " + ironcl_build_id() +
                                     ", does not know; leave them zero or take a newer library");
  out.struct_size = sizeof(Struct);
  return out;
}

/// Fills a struct of the caller as far as it reaches; its struct_size stays.
template <class Struct>
void write_struct(const Struct& in, const char* name, Struct* out) {
  const std::uint32_t size = size_of_struct(out, name);
  std::memcpy(out, &in, std::min<std::size_t>(size, sizeof(Struct)));
  out->struct_size = size;
}

}  // namespace ironcl::registry

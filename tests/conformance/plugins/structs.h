// SPDX-License-Identifier: Apache-2.0
// Structs that cross the boundary, by struct_size. Included by objects.h.
#pragma once

#include <algorithm>
#include <cstring>

#include "tests/conformance/plugins/faults.h"

namespace ironcl::reference {

template <class T>
T read_struct(const T* in, const char* name) {
  if (in == nullptr) throw Refusal(IRONCL_INVALID_ARGUMENT, std::string(name) + " is NULL");
  const std::size_t stated = in->struct_size;
  if (stated < 8) throw Refusal(IRONCL_INVALID_ARGUMENT, std::string(name) + ".struct_size is not set");
  T out{};
  const std::size_t known = fault("reads_past_size") ? sizeof(T) : std::min(stated, sizeof(T));
  std::memcpy(&out, in, known);
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  for (std::size_t i = sizeof(T); i < stated && !fault("tail_ignored"); ++i) {
    if (bytes[i] != 0) {
      throw Refusal(IRONCL_UNIMPLEMENTED, std::string(name) + " has a tail that this plugin does not know");
    }
  }
  return out;
}

template <class T>
void fill_struct(T* out, const T& value, const char* name) {
  if (out == nullptr) throw Refusal(IRONCL_INVALID_ARGUMENT, std::string(name) + " is NULL");
  const std::size_t stated = out->struct_size;
  if (stated < 8) throw Refusal(IRONCL_INVALID_ARGUMENT, std::string(name) + ".struct_size is not set");
  const std::size_t known = fault("writes_past_size") ? sizeof(T) : std::min(stated, sizeof(T));
  std::memcpy(reinterpret_cast<char*>(out) + 4, reinterpret_cast<const char*>(&value) + 4, known - 4);
}

}  // namespace ironcl::reference

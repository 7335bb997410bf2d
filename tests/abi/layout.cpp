// SPDX-License-Identifier: Apache-2.0
// Prints the layout of ironcl/plugin.h and plugin_ops.h, a line each: "struct size", "struct.member offset size
// type", "ENUMERATOR value". Next door: members.inc (the list), layout-2.0.txt (the golden output), layout_test.cpp
// (compares). A new minor version: append to members.inc, raise IRONCL_ABI_MINOR, then  abi_layout >
// tests/abi/layout-2.N.txt
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include IRONCL_PLUGIN_HEADER
#include "type_name.h"

int main() {
#define STRUCT(type) std::printf("%s %zu\n", #type, sizeof(type));
#define OPAQUE(type)
#define MEMBER(type, member)                                                                      \
  std::printf("%s.%s %zu %zu %s\n", #type, #member, offsetof(type, member), sizeof(type::member), \
              ironcl::abi::TypeName<decltype(type::member)>::get().c_str());
#define VALUE(name) std::printf("%s %lld\n", #name, static_cast<long long>(name));
#include "members.inc"
  return 0;
}

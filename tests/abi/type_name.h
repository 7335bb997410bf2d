// SPDX-License-Identifier: Apache-2.0
// The name of a type of ironcl/plugin.h, spelled the same by every compiler. Next door: layout.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace ironcl::abi {

template <class T>
struct TypeName;  // a type without a specialisation has no place in the ABI: it does not compile

#define IRONCL_NAME(type, text)               \
  template <>                                 \
  struct TypeName<type> {                     \
    static std::string get() { return text; } \
  }
IRONCL_NAME(void, "void");
IRONCL_NAME(char, "char");
IRONCL_NAME(std::int32_t, "i32");
IRONCL_NAME(std::uint32_t, "u32");
IRONCL_NAME(std::int64_t, "i64");
IRONCL_NAME(std::uint64_t, "u64");
IRONCL_NAME(float, "float");
IRONCL_NAME(double, "double");
#define STRUCT(type) IRONCL_NAME(type, #type);
#define OPAQUE(type) IRONCL_NAME(struct type, #type);
#define MEMBER(type, member)
#define VALUE(name)
#include "members.inc"
#undef STRUCT
#undef OPAQUE
#undef MEMBER
#undef VALUE
#undef IRONCL_NAME

template <class T>
struct TypeName<const T> {
  static std::string get() { return "const " + TypeName<T>::get(); }
};
template <class T>
struct TypeName<T*> {
  static std::string get() { return TypeName<T>::get() + "*"; }
};
template <class T>
struct TypeName<T* const> {
  static std::string get() { return TypeName<T>::get() + "*const"; }
};
template <class T, std::size_t N>
struct TypeName<T[N]> {
  static std::string get() { return TypeName<T>::get() + "[" + std::to_string(N) + "]"; }
};
template <class R, class... Args>
struct TypeName<R (*)(Args...)> {
  static std::string get() {
    std::string text = TypeName<R>::get() + "(";
    [[maybe_unused]] const char* comma = "";
    ((text += comma + TypeName<Args>::get(), comma = ", "), ...);
    return text + ")";
  }
};

}  // namespace ironcl::abi

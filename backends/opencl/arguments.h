// SPDX-License-Identifier: Apache-2.0
// The arguments of kernels by their names: bind<GemmArg::n>(kernel, n). The lists are those from which the kernels'
// own parameters are made (cl/arguments.cl). Next door: steps/ and the operations, which bind.
#pragma once

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "backends/opencl/launcher.h"
#include "cl/arguments.cl"

namespace ironcl::opencl {

/// Of each argument of a list the type that the host binds it with, by the enumeration of their names.
template <class List>
struct ArgumentTypes;

namespace argument_types {
using uint = cl_uint;
using ulong = cl_ulong;
}  // namespace argument_types

#define IRONCL_ONE_NAME(type, name) name
#define IRONCL_MEMORY_NAME(type, name, at) name, at
#define IRONCL_VALUE_TYPE(type, name) type
#define IRONCL_BUFFER_TYPE(type, name) cl::Buffer
#define IRONCL_MEMORY_TYPE(type, name, at) Memory, cl_ulong
#define IRONCL_LOCAL_TYPE(type, name) cl::LocalSpaceArg
/// An enumeration of the names of LIST, in the order of the parameters.
#define IRONCL_ARGUMENTS(Name, LIST)                                                                               \
  enum class Name : cl_uint { LIST(IRONCL_ONE_NAME, IRONCL_ONE_NAME, IRONCL_MEMORY_NAME, IRONCL_ONE_NAME) };       \
  namespace argument_types {                                                                                       \
  using Of##Name = std::tuple<LIST(IRONCL_VALUE_TYPE, IRONCL_BUFFER_TYPE, IRONCL_MEMORY_TYPE, IRONCL_LOCAL_TYPE)>; \
  }                                                                                                                \
  template <>                                                                                                      \
  struct ArgumentTypes<Name> {                                                                                     \
    using type = argument_types::Of##Name;                                                                         \
  };

IRONCL_ARGUMENTS(GemmArg, GEMM_LIST)
IRONCL_ARGUMENTS(ScheduleArg, SCHEDULE_LIST)
IRONCL_ARGUMENTS(MatricesArg, MATRICES_LIST)
IRONCL_ARGUMENTS(GatherArg, GATHER_LIST)
IRONCL_ARGUMENTS(NumberArg, NUMBER_LIST)
IRONCL_ARGUMENTS(DScalesArg, D_SCALES_LIST)
IRONCL_ARGUMENTS(QuantizeArg, QUANTIZE_LIST)
IRONCL_ARGUMENTS(QuantizeTilesArg, QUANTIZE_TILES_LIST)
IRONCL_ARGUMENTS(QuantizeTokensArg, QUANTIZE_TOKENS_LIST)
IRONCL_ARGUMENTS(PackArg, PACK_LIST)
IRONCL_ARGUMENTS(PackTokensArg, PACK_TOKENS_LIST)
IRONCL_ARGUMENTS(ScheduleRowsArg, SCHEDULE_ROWS_LIST)
IRONCL_ARGUMENTS(ScheduleFirstArg, SCHEDULE_FIRST_LIST)
IRONCL_ARGUMENTS(ChooseArg, CHOOSE_LIST)
IRONCL_ARGUMENTS(SortArg, SORT_LIST)
IRONCL_ARGUMENTS(SortedArg, SORTED_LIST)
IRONCL_ARGUMENTS(ActivateArg, ACTIVATE_LIST)
IRONCL_ARGUMENTS(CombineArg, COMBINE_LIST)
IRONCL_ARGUMENTS(FusedExpertsArg, FUSED_EXPERTS_LIST)
IRONCL_ARGUMENTS(FusedAddArg, FUSED_ADD_LIST)
IRONCL_ARGUMENTS(FusedAddWeightsArg, FUSED_ADD_WEIGHTS_LIST)
IRONCL_ARGUMENTS(FusedProductsArg, FUSED_PRODUCTS_LIST)
IRONCL_ARGUMENTS(NoteAddressArg, NOTE_ADDRESS_LIST)
IRONCL_ARGUMENTS(MultiplyAddArg, MULTIPLY_ADD_LIST)
IRONCL_ARGUMENTS(CopyArg, COPY_LIST)
IRONCL_ARGUMENTS(ProbeArg, PROBE_LIST)

template <class List>
constexpr cl_uint kCountOf = static_cast<cl_uint>(std::tuple_size_v<typename ArgumentTypes<List>::type>);

template <auto kName>
using TypeOf = std::tuple_element_t<static_cast<std::size_t>(kName), typename ArgumentTypes<decltype(kName)>::type>;

/// Binds a value, a buffer or local memory. `first`: the number of the list's first argument among the kernel's, of a
/// list that comes after another one.
template <auto kName, class T>
void bind(cl::Kernel& kernel, const T& value, cl_uint first = 0) {
  const cl_uint number = first + static_cast<cl_uint>(kName);
  if constexpr (std::is_arithmetic_v<TypeOf<kName>>) {
    kernel.setArg(number, static_cast<TypeOf<kName>>(value));
  } else {
    static_assert(std::is_same_v<T, TypeOf<kName>>, "bound as another type than the list says");
    kernel.setArg(number, value);
  }
}

/// Binds an operand: its buffer, and the element of `size` bytes at which it begins.
template <auto kName>
void bind_memory(cl::Kernel& kernel, const Memory& memory, std::uint64_t size, cl_uint first = 0) {
  static_assert(std::is_same_v<TypeOf<kName>, Memory>, "no operand in the list");
  const cl_uint number = first + static_cast<cl_uint>(kName);
  kernel.setArg(number, *memory.buffer);
  kernel.setArg(number + 1, static_cast<cl_ulong>(memory.at / std::max<std::uint64_t>(1, size)));
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/elements.h"

#include <boost/algorithm/string/join.hpp>

namespace ironcl::opencl {

using backend::DType;

std::string to_string(const Types& types) {
  std::vector<std::string> names;
  for (const DType type : types) names.emplace_back(numerics::name_of(type));
  if (names.size() > 1) {
    const std::string last = std::move(names.back());
    names.pop_back();
    names.back() += " or " + last;
  }
  return boost::join(names, ", ");
}

bool is_code_of_a_byte(DType type) noexcept { return numerics::is_quantized(type) && numerics::bits_of(type) == 8; }

std::string kernel_number(DType type) { return std::to_string(static_cast<std::uint32_t>(type)); }

}  // namespace ironcl::opencl

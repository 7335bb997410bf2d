// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/elements.h"

#include <boost/algorithm/string/join.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "backends/numerics/casts.h"

namespace ironcl::opencl {
namespace {

using backend::DType;

// clang-format off
constexpr Element kElements[] = {
    // type          real   code   weight scale  usual  integer
    {DType::f32,     true,  false, false, true,  false, false},
    {DType::f16,     true,  false, false, true,  false, false},
    {DType::bf16,    true,  false, false, true,  false, false},
    {DType::e4m3fn,  false, true,  true,  false, true,  false},
    {DType::e5m2,    false, true,  true,  false, true,  false},
    {DType::i8,      false, true,  true,  false, true,  true},
    {DType::e2m1,    false, false, true,  false, false, false},
    {DType::e8m0,    false, false, false, true,  false, false},
};
// clang-format on

std::array<bool, 256> find_nan_codes(DType type) {
  std::array<bool, 256> nan{};
  for (std::size_t code = 0; code < nan.size(); ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    for (std::uint32_t part = 0; part * numerics::bits_of(type) < 8; ++part)
      nan[code] = nan[code] || std::isnan(numerics::load_as_f64(type, &byte, part));
  }
  return nan;
}

}  // namespace

const Element& element(DType type) noexcept {
  static constexpr Element kNone;
  for (const Element& row : kElements) {
    if (row.type == type) return row;
  }
  return kNone;
}

std::string names_of(bool Element::*member) {
  std::vector<std::string> names;
  for (const Element& row : kElements)
    if (row.*member) names.emplace_back(numerics::name_of(row.type));
  if (names.size() > 1) {
    const std::string last = std::move(names.back());
    names.pop_back();
    names.back() += " or " + last;
  }
  return boost::join(names, ", ");
}

std::string kernel_number(DType type) { return std::to_string(static_cast<std::uint32_t>(type)); }

const std::array<bool, 256>& nan_codes(DType type) {
  static const std::map<DType, std::array<bool, 256>> all = [] {
    std::map<DType, std::array<bool, 256>> tables;
    for (const Element& row : kElements)
      if (row.weight) tables[row.type] = find_nan_codes(row.type);
    return tables;
  }();
  return all.at(type);
}

}  // namespace ironcl::opencl

// SPDX-License-Identifier: Apache-2.0
// The element types of the safetensors format and what the project calls them.
#include "host/checkpoint/tensor.h"

#include <fmt/format.h>

#include <iterator>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::checkpoint {
namespace {

// Source: the enumeration Dtype of the official library (safetensors 0.8, tensor.rs).
constexpr FileDType kNotComputedWith[] = {
    {"BOOL", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"I16", 16}, {"U16", 16}, {"U32", 32},    {"I64", 64},    {"U64", 64}, {"C64", 64},
};

/// Those, and the types of numerics/formats.h that have a name in files.
const std::vector<FileDType>& file_dtypes() {
  static const std::vector<FileDType> all = [] {
    std::vector<FileDType> types(std::begin(kNotComputedWith), std::end(kNotComputedWith));
    for (std::uint32_t number = 1; number < numerics::kDTypes; ++number) {
      const auto type = static_cast<DType>(number);
      if (const auto name = numerics::file_name_of(type); !name.empty())
        types.push_back({name, numerics::bits_of(type), type});
    }
    return types;
  }();
  return all;
}

}  // namespace

const FileDType* find_file_dtype(std::string_view name) noexcept {
  for (const FileDType& type : file_dtypes())
    if (type.name == name) return &type;
  return nullptr;
}

const std::filesystem::path& Tensor::file() const noexcept {
  static const std::filesystem::path none;
  return from == nullptr ? none : from->path;
}

const std::string* Tensor::metadata(const std::string& key) const {
  if (from == nullptr) return nullptr;
  const auto said = from->metadata.find(key);
  return said == from->metadata.end() ? nullptr : &said->second;
}

std::int64_t Tensor::elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t dim : shape) product *= dim;
  return product;
}

std::optional<std::int64_t> Tensor::bits_in_all(std::uint32_t bits) const {
  std::int64_t all = bits;
  try {
    for (const std::int64_t dim : shape) all = numerics::checked_mul(all, dim);
  } catch (const std::overflow_error&) {
    return std::nullopt;
  }
  return all;
}

double Tensor::number(std::int64_t i) const { return numerics::load_as_f64(dtype, data.data(), i); }

bool Tensor::is_fp8() const noexcept { return dtype_name.starts_with("F8_") && dtype != DType::e8m0; }

std::string Tensor::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace ironcl::checkpoint

// SPDX-License-Identifier: Apache-2.0
// The element types of the safetensors format and what the project calls them.
#include "host/checkpoint/tensor.h"

#include <fmt/format.h>

#include <array>

namespace ironcl::checkpoint {
namespace {

// Source: the enumeration Dtype of the official library (safetensors 0.8, tensor.rs).
constexpr std::array<FileDType, 22> kFileDTypes = {{
    {"BOOL", 8, DType::none},        {"F4", 4, DType::none},          {"F6_E2M3", 6, DType::none},
    {"F6_E3M2", 6, DType::none},     {"U8", 8, DType::none},          {"I8", 8, DType::i8},
    {"F8_E5M2", 8, DType::e5m2},     {"F8_E4M3", 8, DType::e4m3fn},   {"F8_E8M0", 8, DType::e8m0},
    {"F8_E4M3FNUZ", 8, DType::none}, {"F8_E5M2FNUZ", 8, DType::none}, {"I16", 16, DType::none},
    {"U16", 16, DType::none},        {"F16", 16, DType::f16},         {"BF16", 16, DType::bf16},
    {"I32", 32, DType::s32},         {"U32", 32, DType::none},        {"F32", 32, DType::f32},
    {"F64", 64, DType::f64},         {"I64", 64, DType::none},        {"U64", 64, DType::none},
    {"C64", 64, DType::none},
}};

}  // namespace

const FileDType* find_file_dtype(std::string_view name) noexcept {
  for (const FileDType& type : kFileDTypes)
    if (type.name == name) return &type;
  return nullptr;
}

const FileDType* file_dtype_of(DType dtype) noexcept {
  if (dtype == DType::none) return nullptr;
  for (const FileDType& type : kFileDTypes)
    if (type.dtype == dtype) return &type;
  return nullptr;
}

std::int64_t Tensor::elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t dim : shape) product *= dim;
  return product;
}

bool Tensor::is_fp8() const noexcept { return dtype_name.starts_with("F8_") && dtype != DType::e8m0; }

std::string Tensor::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace ironcl::checkpoint

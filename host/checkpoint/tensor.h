// SPDX-License-Identifier: Apache-2.0
// A tensor of a file: name, element type, shape, bytes. Next door: safetensors.h (where tensors come from).
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/numerics/formats.h"

namespace ironcl::checkpoint {

using numerics::DType;

/// The element types of the safetensors format. Sub-byte types are packed without gaps.
struct FileDType {
  std::string_view name;      ///< "F8_E4M3", "BF16", ...: the name in the file.
  std::uint32_t bits = 0;     ///< Bits of one element.
  DType dtype = DType::none;  ///< The project's type; none where the project does not compute with it.
};

/// The type with that name in a safetensors header; nullptr where the format has none.
const FileDType* find_file_dtype(std::string_view name) noexcept;

/// What a tensor's file is, and what it says of itself.
struct FileInfo {
  std::filesystem::path path;
  std::map<std::string, std::string> metadata;  ///< The "__metadata__" of the header; empty where it has none.
};

/// A view of a tensor. Owns name and shape, not the bytes: those live as long as the file that it came from, or with
/// `own`.
struct Tensor {
  std::string name;
  DType dtype = DType::none;          ///< none: listed, but nothing here computes with it (I64, BOOL, F4, ...).
  std::string_view dtype_name{};      ///< As the file spells it.
  std::vector<std::int64_t> shape{};  ///< Row-major, last dimension contiguous; empty for a scalar.
  std::span<const std::byte>
      data{};  ///< NOTES: need not be aligned for its element type; read with numerics/casts.h.

  /// The bytes where they were computed from what the file has (derived.h); data views them. Copies share them.
  std::shared_ptr<const std::vector<std::byte>> own = nullptr;
  const FileInfo* from = nullptr;  ///< Its file; nullptr: it is in none.

  const std::filesystem::path& file() const noexcept;  ///< Empty where it is in none.
  /// What the file's metadata says under that key; nullptr where it says nothing.
  const std::string* metadata(const std::string& key) const;
  std::int64_t elements() const noexcept;  ///< Product of the shape; 1 for a scalar.
  /// `bits` for each element of the shape; empty where that overflows 64 bits.
  std::optional<std::int64_t> bits_in_all(std::uint32_t bits) const;
  /// Element `i`, which need not be aligned: as its bytes; as a number, of types that the project computes with.
  template <class T>
  T element(std::int64_t i) const {
    T value;
    std::memcpy(&value, data.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }
  double number(std::int64_t i) const;
  /// `count` bytes from byte `begin` on.
  std::span<const std::byte> bytes(std::int64_t begin, std::int64_t count) const {
    return data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }
  bool is_fp8() const noexcept;    ///< Elements of fp8, of any kind; e8m0 is a scale's type.
  std::string shape_text() const;  ///< "[576, 2048]", "[]".
};

}  // namespace ironcl::checkpoint

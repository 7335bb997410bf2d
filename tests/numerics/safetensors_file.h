// SPDX-License-Identifier: Apache-2.0
// A small reader of safetensors files for tests, on purpose not the one that the product has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/numerics/matrix_view.h"

namespace ironcl::test {

/// A tensor of an open file. Owns nothing.
struct Tensor {
  std::string dtype;  ///< As in the file: "F32", "BF16", "F8_E4M3", "U8", ...
  std::vector<std::int64_t> shape;
  std::span<const unsigned char> bytes;

  /// The elements, copied. Throws std::runtime_error where the bytes are no whole number of T.
  template <class T>
  std::vector<T> as() const {
    if (bytes.size() % sizeof(T) != 0) throw std::runtime_error("a tensor of " + dtype + " read as another type");
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

/// A whole file in memory. Throws std::runtime_error, with the path, where it cannot be read.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  /// The tensor with that name; throws std::runtime_error where there is none.
  const Tensor& operator[](const std::string& name) const;
  bool contains(const std::string& name) const { return tensors_.contains(name); }

 private:
  std::string path_;
  std::vector<unsigned char> content_;
  std::map<std::string, Tensor> tensors_;
};

/// A file of the repository's tests/data.
std::filesystem::path repository_data(const std::string& name);

/// A file of the folder that IRONCL_TEST_DATA names, or empty where that is not set.
std::filesystem::path external_data(const std::string& name);

/// The numerics type of a tensor. Throws std::runtime_error for types that it has no name for.
numerics::DType dtype_of(const Tensor& tensor);

/// A 2D tensor as an operand, with the scales in `scales` on `grid` (null: none).
numerics::Operand operand_of(const Tensor& tensor, const Tensor* scales = nullptr, numerics::ScaleGrid grid = {});

}  // namespace ironcl::test

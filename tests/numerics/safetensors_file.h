// SPDX-License-Identifier: Apache-2.0
// A small reader of safetensors files for tests, on purpose not the one that the product has.
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
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

inline SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path_);
  content_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < 8 && i < content_.size(); ++i) {
    header_bytes |= static_cast<std::uint64_t>(content_[i]) << (8 * i);
  }
  if (content_.size() < 8 || header_bytes > content_.size() - 8) throw std::runtime_error(path_ + " is cut short");
  const std::string_view header(reinterpret_cast<const char*>(content_.data()) + 8, header_bytes);
  const std::span<const unsigned char> data = std::span<const unsigned char>(content_).subspan(8 + header_bytes);

  const boost::json::value root = boost::json::parse({header.data(), header.size()});
  for (const auto& [name, entry] : root.as_object()) {
    if (name == "__metadata__") continue;
    Tensor tensor;
    tensor.dtype = std::string(entry.at("dtype").as_string());
    for (const auto& size : entry.at("shape").as_array()) tensor.shape.push_back(size.to_number<std::int64_t>());
    const auto begin = entry.at("data_offsets").at(0).to_number<std::size_t>();
    const auto end = entry.at("data_offsets").at(1).to_number<std::size_t>();
    if (begin > end || end > data.size()) throw std::runtime_error(path_ + " has a tensor past its end");
    tensor.bytes = data.subspan(begin, end - begin);
    tensors_.emplace(std::string(name), std::move(tensor));
  }
}

inline const Tensor& SafetensorsFile::operator[](const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error(path_ + " has no tensor " + name);
  return found->second;
}

/// A file of the repository's tests/data.
inline std::filesystem::path repository_data(const std::string& name) {
  return std::filesystem::path(IRONCL_TESTS_DATA_DIR) / name;
}

/// A file of the folder that IRONCL_TEST_DATA names, or empty where that is not set.
inline std::filesystem::path external_data(const std::string& name) {
  const char* folder = std::getenv("IRONCL_TEST_DATA");
  return folder == nullptr || *folder == '\0' ? std::filesystem::path() : std::filesystem::path(folder) / name;
}

/// The numerics type of a tensor. Throws std::runtime_error for types that it has no name for.
inline numerics::DType dtype_of(const Tensor& tensor) {
  static const std::map<std::string, numerics::DType> names = {
      {"F32", numerics::DType::f32},        {"F16", numerics::DType::f16},      {"BF16", numerics::DType::bf16},
      {"F8_E4M3", numerics::DType::e4m3fn}, {"F8_E5M2", numerics::DType::e5m2}, {"F8_E8M0", numerics::DType::e8m0},
      {"I8", numerics::DType::i8},          {"F64", numerics::DType::f64}};
  const auto found = names.find(tensor.dtype);
  if (found == names.end()) throw std::runtime_error("no element type for " + tensor.dtype);
  return found->second;
}

/// A 2D tensor as an operand, with the scales in `scales` on `grid` (null: none).
inline numerics::Operand operand_of(const Tensor& tensor, const Tensor* scales = nullptr,
                                    numerics::ScaleGrid grid = {}) {
  numerics::Operand operand;
  operand.dtype = dtype_of(tensor);
  operand.data = tensor.bytes.data();
  operand.rows = tensor.shape.at(0);
  operand.cols = operand.ld = tensor.shape.at(1);
  if (scales != nullptr) {
    operand.scale_dtype = dtype_of(*scales);
    operand.scales = scales->bytes.data();
    operand.grid = grid;
    operand.scale_ld = scales->shape.at(1);
  }
  return operand;
}

}  // namespace ironcl::test

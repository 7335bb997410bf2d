// SPDX-License-Identifier: Apache-2.0
// The file: 8 bytes of header length, little-endian; the header in JSON; the tensors.
#include "tests/numerics/safetensors_file.h"

#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

namespace ironcl::test {

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()) {
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

const Tensor& SafetensorsFile::operator[](const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error(path_ + " has no tensor " + name);
  return found->second;
}

std::filesystem::path repository_data(const std::string& name) {
  return std::filesystem::path(IRONCL_TESTS_DATA_DIR) / name;
}

std::filesystem::path external_data(const std::string& name) {
  const char* folder = std::getenv("IRONCL_TEST_DATA");
  return folder == nullptr || *folder == '\0' ? std::filesystem::path() : std::filesystem::path(folder) / name;
}

numerics::DType dtype_of(const Tensor& tensor) {
  static const std::map<std::string, numerics::DType> names = {
      {"F32", numerics::DType::f32},        {"F16", numerics::DType::f16},      {"BF16", numerics::DType::bf16},
      {"F8_E4M3", numerics::DType::e4m3fn}, {"F8_E5M2", numerics::DType::e5m2}, {"F8_E8M0", numerics::DType::e8m0},
      {"I8", numerics::DType::i8},          {"F64", numerics::DType::f64}};
  const auto found = names.find(tensor.dtype);
  if (found == names.end()) throw std::runtime_error("no element type for " + tensor.dtype);
  return found->second;
}

numerics::Operand operand_of(const Tensor& tensor, const Tensor* scales, numerics::ScaleGrid grid) {
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

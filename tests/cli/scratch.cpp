// SPDX-License-Identifier: Apache-2.0
// Files that a test makes.
#include "tests/cli/scratch.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "host/checkpoint/safetensors_writer.h"

namespace ironcl::cli_test {

TestTensor f32_tensor(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  TestTensor tensor{name, numerics::DType::f32, std::move(shape), {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

TestTensor e4m3_tensor(const std::string& name, std::vector<std::int64_t> shape, std::uint8_t code) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return {name, numerics::DType::e4m3fn, std::move(shape), std::vector<std::byte>(count, std::byte{code})};
}

void write_tensors(const std::string& path, const std::vector<TestTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<checkpoint::Tensor> views;
  for (const TestTensor& tensor : tensors) {
    checkpoint::Tensor& view = views.emplace_back();
    view.name = tensor.name;
    view.dtype = tensor.dtype;
    view.shape = tensor.shape;
    view.data = tensor.bytes;
  }
  checkpoint::write_safetensors(path, views, metadata);
}

void write_layer(const std::string& path, const std::vector<float>& scales) {
  write_tensors(path, {e4m3_tensor("weight", {256, 256}, 0x38), f32_tensor("weight_scale_inv", {2, 2}, scales)});
}

std::string data_file(const std::string& name) { return (std::filesystem::path(TEST_DATA) / name).string(); }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ironcl::cli_test

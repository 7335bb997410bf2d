// SPDX-License-Identifier: Apache-2.0
// Tensors that a test makes, and files of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host/checkpoint/model.h"
#include "host/checkpoint/safetensors_writer.h"
#include "tests/temp_dir.h"

namespace ironcl::checkpoint {

constexpr auto kE4m3 = DType::e4m3fn;

/// A tensor with its own bytes, all equal to `fill`, or the values of `values`.
struct OwnTensor {
  Tensor tensor;
  std::vector<std::byte> bytes;

  OwnTensor(const std::string& name, DType dtype, std::vector<std::int64_t> shape, unsigned char fill = 0) {
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    bytes.assign(static_cast<std::size_t>(tensor.elements()) * numerics::size_of(dtype), std::byte{fill});
  }
  OwnTensor(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values)
      : OwnTensor(name, DType::f32, std::move(shape)) {
    std::ranges::copy(std::as_bytes(std::span(values)).first(std::min(bytes.size(), values.size() * sizeof(float))),
                      bytes.begin());
  }
  Tensor view() const {
    Tensor result = tensor;
    result.data = bytes;
    return result;
  }
};

inline std::filesystem::path save(const std::filesystem::path& path, const std::vector<OwnTensor>& tensors,
                                  const Metadata& metadata = {}) {
  std::vector<Tensor> views;
  for (const OwnTensor& tensor : tensors) views.push_back(tensor.view());
  write_safetensors(path, views, metadata);
  return path;
}

}  // namespace ironcl::checkpoint

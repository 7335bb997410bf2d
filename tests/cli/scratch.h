// SPDX-License-Identifier: Apache-2.0
// Files that a test makes: a folder that goes with it, safetensors files good and broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/numerics/formats.h"
#include "tests/temp_dir.h"

namespace ironcl::cli_test {

/// A folder of its own, removed at the end.
class Scratch {
 public:
  std::string path(const std::string& name) const { return folder_ / name; }
  /// Writes `bytes` to a file of that name; its path.
  std::string file(const std::string& name, const std::string& bytes) const { return folder_.file(name, bytes); }

 private:
  TempDir folder_;
};

/// A tensor for write_tensors.
struct TestTensor {
  std::string name;
  numerics::DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

TestTensor f32_tensor(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values);
/// All elements the same code.
TestTensor e4m3_tensor(const std::string& name, std::vector<std::int64_t> shape, std::uint8_t code);

void write_tensors(const std::string& path, const std::vector<TestTensor>& tensors,
                   const std::map<std::string, std::string>& metadata = {});

/// A lone layer of 256 x 256 in 128 x 128 blocks, every weight 1, with those four scales.
void write_layer(const std::string& path, const std::vector<float>& scales);

/// A file of tests/data.
std::string data_file(const std::string& name);
/// One with a layer by itself, and what torch made of it.
inline const std::string kLayer = data_file("block128-m7-n576-k2048.safetensors");

std::string read_file(const std::string& path);

}  // namespace ironcl::cli_test

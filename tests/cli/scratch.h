// SPDX-License-Identifier: Apache-2.0
// A folder that goes with its test, a layer, and files of tests/data. Next door: ../tensors.h.
#pragma once

#include <string>
#include <vector>

#include "tests/tensors.h"

namespace ironcl::cli_test {

using checkpoint::kE4m3, checkpoint::OwnTensor, checkpoint::save, ironcl::read_file;

/// A folder of its own, removed at the end.
class Scratch {
 public:
  std::string path(const std::string& name) const { return folder_ / name; }
  /// Writes `bytes` to a file of that name; its path.
  std::string file(const std::string& name, const std::string& bytes) const { return folder_.file(name, bytes); }

 private:
  TempDir folder_;
};

/// A lone layer of 256 x 256 in 128 x 128 blocks, every weight 1, with those four scales.
void write_layer(const std::string& path, const std::vector<float>& scales);

/// A file of tests/data.
std::string data_file(const std::string& name);
/// One with a layer by itself, and what torch made of it.
inline const std::string kLayer = data_file("block128-m7-n576-k2048.safetensors");

}  // namespace ironcl::cli_test

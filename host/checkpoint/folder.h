// SPDX-License-Identifier: Apache-2.0
// Which files a checkpoint consists of, and which file holds which tensor.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/checkpoint/safetensors.h"

namespace ironcl::checkpoint {

/// A tensor and the file that it is in (an index into Folder::files).
struct Located {
  const Tensor* tensor = nullptr;
  std::size_t file = 0;
};

struct Folder {
  std::filesystem::path config;           ///< config.json; empty where there is none.
  std::filesystem::path quanto_map;       ///< quanto_qmap.json; empty where there is none.
  std::filesystem::path modelopt_config;  ///< hf_quant_config.json; empty where there is none.
  std::filesystem::path index;            ///< What names the shards; empty where there is none.
  std::vector<SafetensorsFile> files;
  std::map<std::string, Located, std::less<>> tensors;
};

/// Opens the files of `path`: a folder, or one safetensors file.
/// Throws Error as Checkpoint::open.
Folder open_folder(const std::filesystem::path& path);

}  // namespace ironcl::checkpoint

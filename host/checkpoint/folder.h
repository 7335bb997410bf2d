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
  // What says how the weights are quantised, of the folder or of the one that a lone file is in; empty: not there.
  std::filesystem::path config;           ///< config.json
  std::filesystem::path quanto_map;       ///< quanto_qmap.json
  std::filesystem::path modelopt_config;  ///< hf_quant_config.json
  std::filesystem::path ascend;           ///< quant_model_description.json (msModelSlim)
  std::filesystem::path params;           ///< params.json (Mistral)
  std::filesystem::path other_config;     ///< quantization_config.json or quantize_config.json (diffusers, GPTQ)
  std::filesystem::path index;            ///< The file that names the shards; empty: none.
  bool lone = false;                      ///< One file was named, and not its folder.
  /// Of a lone file that an index beside it names with others, or whose name counts shards: which other file has a
  /// tensor, as far as the index says. Empty otherwise.
  std::map<std::string, std::string> elsewhere;
  bool partial = false;  ///< A lone file of several.
  std::vector<SafetensorsFile> files;
  std::map<std::string, Located, std::less<>> tensors;
};

/// Opens the files of `path`: a folder, or one safetensors file with the configs that lie beside it.
/// Throws Error as Checkpoint::open.
Folder open_folder(const std::filesystem::path& path);

}  // namespace ironcl::checkpoint

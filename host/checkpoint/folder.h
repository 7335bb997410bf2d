// SPDX-License-Identifier: Apache-2.0
// Which files a checkpoint consists of, and which file holds which tensor.
#pragma once

#include "host/checkpoint/safetensors.h"

namespace ironcl::checkpoint {

struct Folder {
  // What says how the weights are quantised, of the folder or of the one that a lone file is in; empty: not there.
  std::vector<std::filesystem::path> configs;  ///< read_quantization_config takes them; the first comes first.
  std::filesystem::path config;                ///< config.json, which is among them.
  std::filesystem::path quanto_map;            ///< quanto_qmap.json
  std::filesystem::path index;                 ///< The file that names the shards; empty: none.
  bool lone = false;                           ///< One file was named, and not its folder.
  /// Of a lone file that an index beside it names with others, or whose name counts shards: which other file has a
  /// tensor, as far as the index says. Empty otherwise.
  std::map<std::string, std::string> elsewhere;
  bool partial = false;  ///< A lone file of several.
  std::vector<SafetensorsFile> files;
  std::map<std::string, const Tensor*, std::less<>> tensors;

  /// nullptr where there is none.
  const Tensor* find(std::string_view name) const {
    const auto at = tensors.find(name);
    return at == tensors.end() ? nullptr : at->second;
  }
};

/// Names of the files of `folder` that end so, sorted; not hidden ones. Throws Error: io.
std::vector<std::string> files_ending(const std::filesystem::path& folder, std::string_view suffix);

/// Opens the files of `path`: a folder, or one safetensors file with the configs that lie beside it.
/// Throws Error as Checkpoint::open.
Folder open_folder(const std::filesystem::path& path);

}  // namespace ironcl::checkpoint

// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint by the module that they stand beside. Next door: parts.h (what their names mean).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/checkpoint/folder.h"
#include "host/checkpoint/parts.h"

namespace ironcl::checkpoint {

/// A tensor `<prefix><leaf>`; the prefix is a module with its dot, or empty.
struct Member {
  std::string_view leaf;
  const Located* located = nullptr;
  PartName part;
};

/// Built in one pass over the names; a look-up costs what it finds. Views names of the folder, which must outlive it.
class TensorIndex {
 public:
  explicit TensorIndex(const Folder& folder);

  /// The tensors beside each other under `prefix`, sorted by name. Under the empty prefix of a lone layer only those
  /// whose names are a layer's: the rest of such a file is inputs and outputs of any name.
  const std::vector<Member>& beside(std::string_view prefix) const;
  /// All prefixes, each once.
  const std::vector<std::string_view>& prefixes() const noexcept { return prefixes_; }
  /// nullptr where there is none.
  const Located* find(std::string_view name) const;
  const std::filesystem::path& path_of(const Located& located) const;
  const SafetensorsFile& file_of(const Located& located) const;
  const Folder& folder() const noexcept { return *folder_; }

 private:
  const Folder* folder_;
  std::unordered_map<std::string_view, std::vector<Member>> by_prefix_;
  std::vector<std::string_view> prefixes_;
};

/// Splits a tensor's name into prefix and leaf: at its last dot, except that what follows "weight." stays with it
/// ("weight._data" of quanto, "weight.absmax" of bitsandbytes).
std::size_t leaf_of(std::string_view name) noexcept;

/// "model.layers.0.mlp.gate" of "model.layers.0.mlp.gate."; "weight" of the empty prefix.
std::string layer_name(std::string_view prefix);

}  // namespace ironcl::checkpoint

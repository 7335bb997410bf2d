// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint by the module that they stand beside.
#include "host/checkpoint/tensor_index.h"

namespace ironcl::checkpoint {

std::size_t leaf_of(std::string_view name) noexcept {
  constexpr std::string_view kWeight = "weight.";
  const std::size_t inside = name.rfind(".weight.");
  if (inside != std::string_view::npos) return inside + 1;
  if (name.starts_with(kWeight)) return 0;
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? 0 : dot + 1;
}

std::string layer_name(std::string_view prefix) {
  return prefix.empty() ? "weight" : std::string(prefix.substr(0, prefix.size() - 1));
}

TensorIndex::TensorIndex(const Folder& folder) : folder_(&folder) {
  by_prefix_.reserve(folder.tensors.size());
  for (const auto& [name, located] : folder.tensors) {
    const std::string_view text = name;
    const std::size_t leaf = leaf_of(text);
    const Member member{text.substr(leaf), &located, part_of(text.substr(leaf))};
    if (leaf == 0 && !member.part.known()) continue;
    const auto [at, added] = by_prefix_.try_emplace(text.substr(0, leaf));
    if (added) prefixes_.push_back(at->first);
    at->second.push_back(member);
  }
}

const std::vector<Member>& TensorIndex::beside(std::string_view prefix) const {
  static const std::vector<Member> none;
  const auto at = by_prefix_.find(prefix);
  return at == by_prefix_.end() ? none : at->second;
}

const Located* TensorIndex::find(std::string_view name) const {
  const auto at = folder_->tensors.find(name);
  return at == folder_->tensors.end() ? nullptr : &at->second;
}

const SafetensorsFile& TensorIndex::file_of(const Located& located) const { return folder_->files[located.file]; }
const std::filesystem::path& TensorIndex::path_of(const Located& located) const { return file_of(located).path(); }

}  // namespace ironcl::checkpoint

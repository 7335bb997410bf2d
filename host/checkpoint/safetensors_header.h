// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: text in, checked tensors out. Next door: safetensors.cpp (mapping the file).
#pragma once

#include "host/checkpoint/tensor.h"

namespace ironcl::checkpoint {

/// The longest header that the official library reads, bytes.
inline constexpr std::uint64_t kLongestHeader = 100'000'000;

struct SafetensorsHeader {
  std::vector<Tensor> tensors;  ///< Sorted by name.
  std::map<std::string, std::string> metadata;
};

/// Parses `bytes`, a whole file: header length, header, tensor bytes. The tensors view `bytes`.
/// Throws Error format; `file` is for its text.
SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::filesystem::path& file);

/// "is a GGUF file, ...; convert ..." where the file is of another format that its first bytes give away; empty for
/// all others, and where it cannot be opened.
std::string other_format(const std::filesystem::path& file);

}  // namespace ironcl::checkpoint

// SPDX-License-Identifier: Apache-2.0
// Files of weights that are no safetensors: recognised by their first bytes, so that the refusal can say what to do.
#pragma once

#include <filesystem>
#include <string>

namespace ironcl::checkpoint {

/// "is a GGUF file, ...; convert ..." where the file is of a format that is known and not read; empty for all others,
/// and where it cannot be opened.
std::string other_format(const std::filesystem::path& file);

}  // namespace ironcl::checkpoint

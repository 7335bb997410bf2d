// SPDX-License-Identifier: Apache-2.0
// Which files could be plugins, in which order. Opens none of them. Next door: load.h (one file), docs/discovery.md.
#pragma once

#include <compare>
#include <filesystem>

#include "host/registry/text.h"

namespace ironcl::registry {

/// Identifies a file, whatever its path: device and inode.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of the comparison for a pointer.
  auto operator<=>(const FileId&) const = default;
};

/// A file that was named, or found in a folder that was named. Where `problem` is not OK it is not to be opened.
struct Candidate {
  std::filesystem::path path;  ///< absolute
  std::uint32_t source = 0;    ///< IRONCL_SOURCE_*
  FileId id{};
  Result problem{};
  bool remark = false;  ///< about a folder, not a file that was refused
};

/// What "libironcl_<name>.so" is called by its file name; empty where it is called otherwise.
std::string plugin_name_of_file(const std::filesystem::path& path);

/// A single file that somebody named. Relative paths are relative to the working directory.
Candidate candidate_file(const std::string& path, std::uint32_t source);

/// The files of a folder, sorted by name; only those called libironcl_<name>.so are without a problem.
/// A folder beside the library that is not there is no remark.
std::vector<Candidate> candidate_directory(const std::string& path, std::uint32_t source);

/// <folder of this library>/ironcl-plugins, by the address of a function in it; empty where that cannot be told.
std::filesystem::path directory_beside_library();

}  // namespace ironcl::registry

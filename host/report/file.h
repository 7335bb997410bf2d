// SPDX-License-Identifier: Apache-2.0
// Files written whole: aside, then renamed, so that a reader never sees half of one.
#pragma once

#include <filesystem>
#include <string_view>

namespace ironcl::report {

/// Writes `bytes` to a new file beside `path` and renames it over `path`; "-" is the standard output. Throws
/// std::runtime_error with the path and the system's reason; `path` is then as it was.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace ironcl::report

// SPDX-License-Identifier: Apache-2.0
// Tuned tables as files of a folder: read, and merged so that several tuners lose nothing. Next door:
// backends/tuned/tables.h (what is in them and how they are named).
#pragma once

#include <filesystem>

#include "backends/tuned/tables.h"

namespace ironcl::tuning {

/// The table of a key in a folder; empty where there is no file. Throws checkpoint::Error naming a file that is no
/// table.
std::optional<tuned::Table> read_table(const std::filesystem::path& folder, const tuned::Key& key);

/// Merges `entries` over the key's file: under the folder's lock it is read again, merged, written aside and renamed.
/// Whatever else the file has stays; its name, too, in either spelling, and a new one is as vLLM spells it. Makes the
/// folder. Throws checkpoint::Error or report::FileError; the file is then as it was.
void merge_into(const std::filesystem::path& folder, const tuned::Key& key, const tuned::Table& entries);

}  // namespace ironcl::tuning

// SPDX-License-Identifier: Apache-2.0
// Tuned tables as files of a folder: read, and merged so that several tuners lose nothing. Next door:
// backends/tuned/table.h (what is in them and how they are named).
#pragma once

#include <filesystem>
#include <optional>

#include "backends/tuned/experts_table.h"
#include "backends/tuned/table.h"

namespace ironcl::tuning {

/// The file of a key in a folder: the one that is there in either spelling, else the one to be made, as vLLM spells
/// it.
std::filesystem::path table_path(const std::filesystem::path& folder, const tuned::Key& key);

/// The table of a key; empty where there is no file. Throws std::runtime_error naming a file that is no table.
std::optional<tuned::Table> read_table(const std::filesystem::path& folder, const tuned::Key& key);

/// The same of a layer of experts.
std::filesystem::path table_path(const std::filesystem::path& folder, const tuned::ExpertsKey& key);
std::optional<tuned::Table> read_table(const std::filesystem::path& folder, const tuned::ExpertsKey& key);

/// Merges `entries` over the key's file: under the folder's lock it is read again, merged, written aside and renamed.
/// Whatever else the file has stays. Makes the folder. Throws std::runtime_error with path and reason; the file is
/// then as it was.
void merge_into(const std::filesystem::path& folder, const tuned::Key& key, const tuned::Table& entries);
void merge_into(const std::filesystem::path& folder, const tuned::ExpertsKey& key, const tuned::Table& entries);

}  // namespace ironcl::tuning

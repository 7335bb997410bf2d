// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/tables.h"

#include <boost/interprocess/sync/file_lock.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>
#include <fstream>
#include <iterator>
#include <mutex>

#include "host/checkpoint/error.h"
#include "host/report/file.h"

namespace ironcl::tuning {
namespace {

using checkpoint::Error;
using checkpoint::ErrorKind;
namespace fs = std::filesystem;
namespace interprocess = boost::interprocess;

/// Between processes there is the file lock; POSIX gives it to a whole process, so threads need one of their own.
std::mutex folder_mutex;

/// The file whose name means `key` in some spelling, else as vLLM spells it.
fs::path path_of(const fs::path& folder, const tuned::Key& key) {
  fs::path ours = folder / tuned::file_name(key);
  std::error_code error;
  if (fs::exists(ours, error)) return ours;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (tuned::parse_file_name(entry->path().filename().string()) == key) return entry->path();
  return ours;
}

std::optional<tuned::Table> read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  if (!fs::is_regular_file(path, error)) throw Error(ErrorKind::io, path, "", "is not a regular file");
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw Error(ErrorKind::io, path, "", "cannot be read");
  try {
    return tuned::Table::parse(text);
  } catch (const std::invalid_argument& what) {
    throw Error(ErrorKind::format, path, "", "{}; correct it, move it away, or name another folder", what.what());
  }
}

}  // namespace

std::optional<tuned::Table> read_table(const fs::path& folder, const tuned::Key& key) {
  return read_file(path_of(folder, key));
}

void merge_into(const fs::path& folder, const tuned::Key& key, const tuned::Table& entries) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(ErrorKind::io, folder, "", "cannot be made: {}", error.message());
  const fs::path lock_path = folder / ".lock";
  if (!std::ofstream(lock_path, std::ios::app))
    throw Error(ErrorKind::io, lock_path, "", "cannot be written; tuned tables are merged under it");
  try {
    const std::lock_guard here(folder_mutex);
    interprocess::file_lock file(lock_path.c_str());
    const interprocess::scoped_lock everywhere(file);
    const fs::path path = path_of(folder, key);
    tuned::Table table = read_file(path).value_or(tuned::Table());
    table.merge(entries);
    report::write_file(path, table.to_text());
  } catch (const interprocess::interprocess_exception& what) {
    throw Error(ErrorKind::io, lock_path, "", "cannot be locked: {}", what.what());
  }
}

}  // namespace ironcl::tuning

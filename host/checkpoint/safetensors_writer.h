// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file in pieces; no reader sees half a file. Next door: host/report/file.h (how).
#pragma once

#include <mutex>

#include "host/checkpoint/error.h"
#include "host/checkpoint/tensor.h"
#include "host/report/file.h"

namespace ironcl::checkpoint {

using Metadata = std::map<std::string, std::string>;

/// step(), with what the system says of a file that is written as an Error io.
template <class Step>
auto with_file_errors(Step step) {
  try {
    return step();
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(ErrorKind::io, error.path2().empty() ? error.path1() : error.path2(), "", "cannot be written: {}",
                error.code().message());
  } catch (const report::FileError& error) {
    throw Error(ErrorKind::io, error.path(), "", "cannot be written: {}", error.reason());
  }
}

/// Writes the header at once and tensor bytes as they come, in any order.
/// Threads: one at a time; write_at() of a regular file any, each its own bytes.
class SafetensorsWriter {
 public:
  /// Begins the output (what `path` may be: host/report/file.h) and writes the header for the names, shapes and types
  /// of `tensors` (dtype_name where dtype is none). The widest elements come first, as in the official library, so
  /// that each is aligned. Throws Error: io, config (what no file holds).
  SafetensorsWriter(std::filesystem::path path, const std::vector<Tensor>& tensors, const Metadata& metadata = {});

  /// Writes `bytes` of tensor `name` from its byte `begin` on; each byte once. Throws Error: not_found (no such
  /// tensor), shape (more bytes than it has), io.
  void write_at(std::string_view name, std::int64_t begin, std::span<const std::byte> bytes);
  /// Puts the whole file into its place, over an older one. Throws Error: shape (a tensor lacks bytes), io.
  void commit();

 private:
  /// A tensor's place in the file, and how far it is written.
  struct Place {
    std::int64_t begin = 0, end = 0, written = 0;
  };

  std::filesystem::path path_;
  std::map<std::string, Place, std::less<>> places_;
  std::mutex mutex_;  ///< Of how far places are written.
  std::optional<report::OutputFile> file_;
};

/// Writes `tensors` (with their bytes) to `path` in one call.
void write_safetensors(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata = {});

}  // namespace ironcl::checkpoint

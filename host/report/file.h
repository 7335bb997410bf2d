// SPDX-License-Identifier: Apache-2.0
// Output files, the one way in which they are written: aside and renamed where a file is to be, straight through
// where a device or a pipe stands.
//
// What `path` is decides:
//   nothing, or a regular file   a new file in the same folder is filled, then renamed over it, with the
//                                permissions, owner and group of the file that was there: no reader sees half of it
//   a symbolic link              what it points at, which may be nothing yet; the link stays
//   a device, a pipe             gathered in memory and written to it when whole; it stays what it is
//   "-"                          the standard output, as a pipe is; so is a path that is the standard output or
//                                error, such as /dev/stdout
// A regular file that cannot be replaced (its folder is not writable, or it is the mount point that a container got)
// is overwritten in place instead, when whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ironcl::report {

/// An output that cannot be written: what() is "PATH: cannot be written: the system's reason; what to do".
class FileError : public std::runtime_error {
 public:
  /// `code` is an errno; 0: unknown.
  FileError(const std::filesystem::path& path, int code, std::string_view advice);
  FileError(const std::filesystem::path& path, std::string reason, std::string_view advice);
  const std::filesystem::path& path() const noexcept { return path_; }
  const std::string& reason() const noexcept { return reason_; }  ///< The system's own words.

 private:
  std::filesystem::path path_;
  std::string reason_;
};

/// An output file in pieces. Nothing of it is seen before commit(); without commit() everything is as it was.
/// Threads: one at a time.
class OutputFile {
 public:
  /// Finds out what `path` is and makes the file aside where there is one. Throws FileError.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();

  /// Writes `bytes` from byte `offset` on; pieces in any order, gaps are zeros. Throws FileError.
  void write_at(std::uint64_t offset, std::string_view bytes);
  /// Puts the whole in its place. Call it once. Throws FileError; what was at `path` is then as it was, except for
  /// devices, pipes and files written in place, which may have got a part.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes `bytes` to `path` in one call. Text that goes to a terminal is made visible (visible.h). Throws FileError.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// To be called before the work whose results go to `outputs`; empty ones are skipped. Throws FileError where an
/// output cannot be written, or is, by whatever name, one of the `inputs`, which would be lost, or another output, of
/// which only the last would be left.
void check_outputs(const std::vector<std::filesystem::path>& outputs,
                   const std::vector<std::filesystem::path>& inputs = {});

}  // namespace ironcl::report

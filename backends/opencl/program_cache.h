// SPDX-License-Identifier: Apache-2.0
// Built programs on disk, shared by processes that take turns: the only files that a backend touches.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ironcl::opencl {

/// A folder of entries named by the 128-bit hash of what they were built from. An entry carries its own hash: a cut,
/// changed or foreign file reads as absent. Written aside and renamed, so a reader sees a whole entry or none.
/// Nothing here throws: a cache that does not work costs a build. Any thread, any number of processes.
class ProgramCache {
 public:
  explicit ProgramCache(std::string dir) : dir_(std::move(dir)) {}
  bool enabled() const noexcept { return !dir_.empty(); }
  std::string path_of(std::string_view key) const;
  std::optional<std::vector<unsigned char>> load(std::string_view key) const;
  /// False, with the reason in *why, where the entry could not be written.
  bool store(std::string_view key, const std::vector<unsigned char>& binary, std::string* why) const;
  void remove(std::string_view key) const;

  /// The hash, as 32 hexadecimal digits.
  static std::string key_of(std::string_view what);

 private:
  std::string dir_;
};

/// While it lives, no other turn of this key does, in any thread of any process that shares the folder: who builds or
/// loads a program does so alone. Waits for its turn, but not longer than a build may take, so that a process that
/// hangs delays others no longer. With no folder (empty), and where the file system has no such locks, there are no
/// turns.
class Turn {
 public:
  Turn(const std::string& dir, std::string_view key);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace ironcl::opencl

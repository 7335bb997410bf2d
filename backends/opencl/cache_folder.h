// SPDX-License-Identifier: Apache-2.0
// The folder of the program cache: made for its user alone, and shared by processes that take turns in it. Next door:
// program_cache.h (the entries).
#pragma once

#include <string>
#include <string_view>

namespace ironcl::opencl {

/// Makes the folder, if it is not there, for its user alone. What fails here fails again where a file is written.
void make_cache_folder(const std::string& dir);

/// While it lives, no other turn of this key does, in any thread of any process that shares the folder: who builds or
/// loads a program does so alone. Waits for its turn, but not longer than a build may take, so that a process that
/// hangs holds up nobody for ever. With no folder (empty), and where the file system has no such locks, there are no
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

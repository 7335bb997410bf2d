// SPDX-License-Identifier: Apache-2.0
// Runs a command of the shell and keeps what it prints.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace ironcl {

/// What a command prints (stderr too), and its exit status: 128 + signal where a signal ended it.
struct Ran {
  std::string output;
  int status = -1;
};

inline Ran run_command(const std::string& command) {
  Ran ran;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> chunk;
  while (const std::size_t read = std::fread(chunk.data(), 1, chunk.size(), pipe))
    ran.output.append(chunk.data(), read);
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace ironcl

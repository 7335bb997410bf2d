// SPDX-License-Identifier: Apache-2.0
// Files written whole.
#include "host/report/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ironcl::report {

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  const auto fail = [&path](int code) {
    throw std::runtime_error(
        fmt::format("{}: cannot be written: {}; name a file in a folder that exists and is "
                    "writable",
                    path.string(), std::generic_category().message(code)));
  };
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) fail(errno);
    return;
  }
  const std::filesystem::path aside = fmt::format("{}.{}.partial", path.string(), ::getpid());
  std::FILE* file = std::fopen(aside.c_str(), "wb");
  if (file == nullptr) fail(errno);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0;
  int code = written ? 0 : errno;
  if (std::fclose(file) != 0 && code == 0) code = errno;
  std::error_code error;
  if (code == 0) {
    std::filesystem::rename(aside, path, error);
    code = error.value();
  }
  if (code != 0) {
    std::filesystem::remove(aside, error);
    fail(code);
  }
}

}  // namespace ironcl::report

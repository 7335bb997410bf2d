// SPDX-License-Identifier: Apache-2.0
// The one way in which the command prints.
#include "host/report/print.h"

#include <cerrno>
#include <cstdio>
#include <string>

#include "host/report/file.h"
#include "host/report/visible.h"

namespace ironcl::report {
namespace {

constexpr const char* kWhere = "the standard output";
constexpr const char* kAdvice = "the standard output could not be written";

}  // namespace

void print_text(std::string_view text) {
  const std::string shown = visible_lines(text);
  errno = 0;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size()) throw FileError(kWhere, errno, kAdvice);
}

void print_error_text(std::string_view text) noexcept {
  try {
    const std::string shown = visible_lines(text);
    std::fwrite(shown.data(), 1, shown.size(), stderr);
    std::fflush(stderr);
  } catch (...) {  // out of memory on the way to say so
  }
}

void flush_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  // An error of an earlier call stays marked in the stream, though its errno is gone.
  if (!flushed || std::ferror(stdout) != 0) throw FileError(kWhere, errno, kAdvice);
}

}  // namespace ironcl::report

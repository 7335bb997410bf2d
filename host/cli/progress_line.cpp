// SPDX-License-Identifier: Apache-2.0
#include "host/cli/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "host/report/print.h"
#include "host/report/table.h"
#include "host/report/units.h"
#include "host/report/visible.h"

namespace ironcl::cli {

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(double fraction, const std::string& text) {
  if (!terminal_ || report::now_ns() - last_ < 1e8) return;
  last_ = report::now_ns();
  constexpr std::size_t kBar = 24;
  const auto full = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * kBar);
  std::string line =
      fmt::format("[{:-<{}}] {:3.0f}% {}", std::string(full, '#'), kBar, fraction * 100, report::visible(text));
  const std::size_t width = report::terminal_width(STDERR_FILENO);
  line.resize(std::min(line.size(), (width == 0 ? 80 : width) - 1));
  fmt::print(stderr, "\r{:<{}}", line, std::max(shown_, line.size()));
  std::fflush(stderr);
  shown_ = line.size();
}

ProgressLine::~ProgressLine() {
  try {
    clear();
  } catch (...) {  // A terminal that takes no more.
  }
}

void ProgressLine::clear() {
  if (shown_ == 0) return;
  fmt::print(stderr, "\r{:{}}\r", "", shown_);
  std::fflush(stderr);
  shown_ = 0;
}

void ProgressLine::print(const std::string& text) {
  clear();
  if (taken_) return report::print_error_text(text);
  report::print_text(text);
  report::flush_output();
}

}  // namespace ironcl::cli

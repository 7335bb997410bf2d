// SPDX-License-Identifier: Apache-2.0
// A line that is rewritten in place while something takes long; nothing where the output is no terminal.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace ironcl::cli {

/// Writes to the standard error, but for print(). One thread.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// A bar filled to `fraction` (0 to 1) and a text, cut to the terminal's width. At most ten times a second.
  void show(double fraction, const std::string& text);
  /// Takes the line away, so that others may print.
  void clear();
  /// Whether a report takes the standard output: what is printed then goes to the standard error.
  void leave_output(bool taken) { taken_ = taken; }
  /// Takes the line away and prints `text` at once.
  void print(const std::string& text);
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    print(fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  bool terminal_ = false, taken_ = false;
  std::size_t shown_ = 0;  ///< Characters on the screen.
  double last_ = 0;        ///< When, in nanoseconds.
};

}  // namespace ironcl::cli

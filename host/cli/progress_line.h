// SPDX-License-Identifier: Apache-2.0
// A line that is rewritten in place while something takes long; nothing where the output is no terminal.
#pragma once

#include <string>

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
  /// Takes the line away and prints `text` at once: to the standard output, or where that is `taken`, by a report, to
  /// the standard error.
  void print(const std::string& text, bool taken);

 private:
  bool terminal_ = false;
  std::size_t shown_ = 0;  ///< Characters on the screen.
  double last_ = 0;        ///< When, in nanoseconds.
};

}  // namespace ironcl::cli

// SPDX-License-Identifier: Apache-2.0
// The one way in which the command prints: made visible, and with an error where what is printed is lost.
// Next door: visible.h (what becomes of control characters), file.h (files).
#pragma once

#include <string_view>

namespace ironcl::report {

/// Prints `text` to the standard output by visible_lines(). Throws FileError where it cannot be written.
void print_text(std::string_view text);

/// Prints to standard error; text that cannot be written there is lost.
void print_error_text(std::string_view text) noexcept;

/// Takes what was printed out of the buffers. Throws FileError where it, or anything printed before, was lost.
void flush_output();

}  // namespace ironcl::report

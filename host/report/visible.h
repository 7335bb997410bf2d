// SPDX-License-Identifier: Apache-2.0
// Text of others made safe to show: names of tensors, paths, messages of drivers. Next door: print.h (prints only
// this).
#pragma once

#include <string>
#include <string_view>

namespace ironcl::report {

/// `text` as one line in which nothing acts on a terminal or hides from a reader. Control characters (C0, DEL, C1),
/// line breaks and marks that reorder or hide text (bidirectional overrides, zero width) become \x1b, \n or \u202e;
/// bytes that are not UTF-8 become \xff, each by itself. Everything else stays as it is, backslashes too.
std::string visible(std::string_view text);

/// The same with line breaks kept: for text that was laid out, of pieces that were made visible one by one.
std::string visible_lines(std::string_view text);

/// Serialised JSON with the same characters as its own escapes (\u009b, pairs beyond U+FFFF), which are equal to a
/// reader of JSON; bytes that are not UTF-8, which JSON cannot hold, become \ufffd.
std::string visible_json(std::string_view json);

/// A field of a line of comma-separated values: quoted where it has to be.
std::string csv_quoted(const std::string& text);

}  // namespace ironcl::report

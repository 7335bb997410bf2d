// SPDX-License-Identifier: Apache-2.0
// Looking for regular expressions that come from outside, with an end to what that may cost. Boost's matcher keeps
// its state on the heap, but gives up only after a number of steps that grows with the square of the expression:
// minutes.
#pragma once

#include <boost/regex_fwd.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ironcl::report {

/// Looks at characters that looking through a text of `size` is worth: some hundredths of a second, and more where
/// the text alone is long.
constexpr std::int64_t looks_for(std::size_t size) { return 2'000'000 + 16 * static_cast<std::int64_t>(size); }

/// Whether `expression` is found in `text`; with `at_start`, only where it begins. Takes each look at a character
/// from `looks`; empty where none is left.
std::optional<bool> is_found(const boost::regex& expression, std::string_view text, bool at_start,
                             std::int64_t& looks);

}  // namespace ironcl::report

// SPDX-License-Identifier: Apache-2.0
// What somebody who mistyped a name may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ironcl::report {

/// The members of `known` that are a slip away from `word`, the nearest first, at most three. A slip is a character
/// that is missing, added, another, or swapped with its neighbour; a third of the word may have slipped, dashes in
/// front do not count, and a word that is the beginning of exactly one name is near to it.
std::vector<std::string> near_names(std::string_view word, const std::vector<std::string>& known);

/// "; did you mean A, B or C?"; nothing where nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace ironcl::report

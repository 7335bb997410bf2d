// SPDX-License-Identifier: Apache-2.0
// Whose fault it is that a layer of experts comes to something else than an output that somebody else computed: the
// expert that all wrong tokens share, and the one scale of its matrices that would explain the difference.
// Next door: experts_judge.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/layer/experts_input.h"

namespace ironcl::layer {

struct Blame {
  std::int64_t expert = 0;
  std::size_t tokens = 0;  ///< That differ, all of which went to this expert.
  bool most = false;       ///< All tokens differ somewhat; those are the ones that differ far more than the others.
  /// One scale, as the only wrong one.
  struct Scale {
    Projection matrix = Projection::down;
    std::int64_t row = 0, col = 0;
    double factor = 1;     ///< By which it is wrong: as it is, over as it must have been.
    double explained = 0;  ///< Of the square of the difference; 1 is all of it.
  };
  /// The one that explains most, then those that explain as much: where a product is one block wide, a scale of up
  /// and one of down may do the same.
  std::vector<Scale> scales;

  /// "expert 3: all 4 tokens that differ went there; scale [0, 1] of its up, 4 times what it must have been, would
  /// explain 99.9 % of the difference".
  std::string text() const;
};

/// Looks for one wrong scale behind the tokens of `other` that are farther from `want` than its bounds; where all
/// are, as where somebody rounds more coarsely, behind those that are four times farther than most. Empty where
/// nothing differs or no expert is common to all that does.
std::optional<Blame> find_blame(const ExpertsSource& source, const ExpertsInput& input, const RoutedTokens& routed,
                                const ExpertsOracle& oracle, const std::vector<double>& other, const Bounded& want);

}  // namespace ironcl::layer

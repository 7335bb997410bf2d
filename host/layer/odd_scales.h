// SPDX-License-Identifier: Apache-2.0
// Scales that a layer of experts has and no comparison of devices can find wrong, since all of them read the same:
// those that make their block of weights far larger or smaller than the same block of the other experts. Next door:
// experts_blame.h (with an output that somebody else computed), experts_judge.h.
#pragma once

#include <string>
#include <vector>

#include "host/layer/experts_source.h"

namespace ironcl::layer {

/// One scale, or all of one matrix.
struct OddScale {
  std::int64_t expert = 0;
  Projection matrix = Projection::down;  ///< As it is stored.
  std::int64_t row = 0, col = 0;         ///< Of the scales of that matrix.
  bool whole = false;                    ///< All scales of the matrix are as odd; row and col are those of one.
  double factor = 1;  ///< Root of the mean square of the block's weights, over the median of the other experts'.
  double usual = 1;   ///< The factor by which experts usually differ (median absolute deviation).

  /// "expert 5: scale [0, 0] of its up makes the weights 4.02 times as large as those of the other experts there,
  /// which differ by 1.05".
  std::string text() const;
};

/// Those that are odd by a factor of two at least and by eight times what experts usually differ (as logarithms, in
/// the units of a standard deviation), the oddest first. Empty where weights have no scales or there are fewer than
/// five experts. Nothing is proven by it: a trained expert may be so.
std::vector<OddScale> find_odd_scales(const ExpertsSource& source);

}  // namespace ironcl::layer

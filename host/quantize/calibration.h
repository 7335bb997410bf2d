// SPDX-License-Identifier: Apache-2.0
// Static scales of activations: from recorded activations, the largest magnitude that a scale does not clip.
#pragma once

#include "host/quantize/plan.h"

namespace ironcl::quantize {

/// Which magnitude it is.
struct ClipRule {
  enum Kind { amax, percentile, mse } kind = amax;
  double percent = 99.9;  ///< For percentile: the share of values that are at most the clip.
};

/// "amax", "mse", "percentile", "percentile:99.99". Throws std::invalid_argument.
ClipRule parse_clip_rule(std::string_view text);

/// How often each magnitude occurs, at the precision of bf16 (values of f32 and f16 are rounded to it).
class Magnitudes {
 public:
  Magnitudes() : counts_(std::size_t{1} << 15) {}
  void add(std::span<const float> x) noexcept;
  bool finite() const noexcept;  ///< Whether neither NaN nor infinity occurred.

  /// The clip by `rule`; 0 where every value is 0. Of mse: that of a hundred between a fifth of the largest magnitude
  /// and all of it with the least squared error of codes of `code`.
  float clip(const ClipRule& rule, DType code) const;

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t total_ = 0;
};

/// Streams the tensors [..., K] of a safetensors file, or of all in a folder, named after the module whose inputs
/// they are: "<module>", "<module>.input" or "<module>.input.<anything>". Throws checkpoint::Error: io, format, a
/// tensor of no float type, values that are not finite or all 0.
InputClips calibrate(const std::filesystem::path& activations, const ClipRule& rule, DType code);

}  // namespace ironcl::quantize

// SPDX-License-Identifier: Apache-2.0
// The names of a layer's tensors.
#include "host/checkpoint/parts.h"

#include <algorithm>
#include <array>

namespace ironcl::checkpoint {
namespace {

struct Entry {
  std::string_view leaf;
  PartName meaning;
};

constexpr std::string_view kCache = "is a scale of the KV cache, which is no part of this layer's product";
constexpr std::string_view kOutput = "is a scale for this layer's output; the product is not quantised with it";
constexpr std::string_view kSmooth =
    "scales the columns of the activations before they are quantised, which is not computed here; "
    "fold it into the layer before and export the checkpoint again";
constexpr std::string_view kSecond = "is a second scale (NVFP4 and its kin), which is not read; quantise to FP8";

constexpr std::array kEntries = {
    Entry{"weight", {Part::weight, true, {}}},
    Entry{"weight_scale_inv", {Part::weight_scale, true, {}}},
    Entry{"weight_scale", {Part::weight_scale, true, {}}},
    Entry{"scale", {Part::weight_scale, true, {}}},
    Entry{"scale_weight", {Part::weight_scale, true, {}}},
    Entry{"input_scale", {Part::input_scale, true, {}}},
    Entry{"activation_scale", {Part::input_scale, true, {}}},
    Entry{"act_scale", {Part::input_scale, true, {}}},
    Entry{"scale_input", {Part::input_scale, true, {}}},
    Entry{"bias", {Part::bias, true, {}}},
    Entry{"weight_zero_point", {Part::zero_point, true, {}}},
    Entry{"weight_shape", {Part::aside, true, "repeats the weight's shape"}},
    Entry{"k_scale", {Part::aside, true, kCache}},
    Entry{"v_scale", {Part::aside, true, kCache}},
    Entry{"q_scale", {Part::aside, true, kCache}},
    Entry{"kv_scale", {Part::aside, true, kCache}},
    Entry{"output_scale", {Part::aside, true, kOutput}},
    Entry{"pre_quant_scale", {Part::refused, true, kSmooth}},
    Entry{"smooth_scale", {Part::refused, true, kSmooth}},
    Entry{"smooth_factor", {Part::refused, true, kSmooth}},
    Entry{"weight_scale_2", {Part::refused, true, kSecond}},
    Entry{"weight_global_scale", {Part::refused, true, kSecond}},
    Entry{"input_global_scale", {Part::refused, true, kSecond}},
    Entry{"input_zero_point", {Part::zero_point, true, {}}},
    Entry{"weight_g_idx", {Part::refused, true, "reorders the columns of the weight, which is not read"}},
};

/// Words of names that change a product.
constexpr std::array<std::string_view, 10> kSuspicious = {"scale", "zero_point", "quant", "amax", "smooth",
                                                          "rotat", "hadamard",   "g_idx", "perm", "codebook"};

}  // namespace

PartName part_of(std::string_view leaf) noexcept {
  for (const Entry& entry : kEntries)
    if (entry.leaf == leaf) return entry.meaning;
  const auto in_leaf = [leaf](std::string_view word) { return leaf.find(word) != std::string_view::npos; };
  if (std::any_of(kSuspicious.begin(), kSuspicious.end(), in_leaf))
    return {Part::refused, false, "belongs to a quantised layer and what it does to the product is not known here"};
  return {};
}

}  // namespace ironcl::checkpoint

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

constexpr std::string_view kGptq =
    "is a packed weight of GPTQ or AWQ, which is not read; quantise to FP8 with llmcompressor";
constexpr std::string_view kBitsAndBytes =
    "is written by bitsandbytes, which is not read; dequantise it there and quantise to FP8 with llmcompressor";

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
    Entry{"_weight_qdata", {Part::weight, true, {}}},
    Entry{"_weight_scale", {Part::weight_scale, true, {}}},
    Entry{"_weight_zero_point", {Part::zero_point, true, {}}},
    Entry{"_weight_per_tensor_scale", {Part::refused, true, kSecond}},
    Entry{"weight_scale_global", {Part::refused, true, kSecond}},
    Entry{"weight._data", {Part::weight, true, {}}},
    Entry{"weight._scale", {Part::weight_scale, true, {}}},
    Entry{"weight._shift", {Part::refused, true, "shifts the codes (quanto's int4 and int2), which is not read"}},
    Entry{"weight._data._data",
          {Part::foreign, true, "is a packed weight of quanto (int4, int2), which is not read; quantise to qfloat8"}},
    Entry{"comfy_quant", {Part::aside, true, "says how ComfyUI quantised the layer, and is read"}},
    Entry{"input_scale_ub", {Part::aside, true, "bounds the dynamic scales of the activations (fbgemm)"}},
    Entry{"activation_scale_ub", {Part::aside, true, "bounds the dynamic scales of the activations (fbgemm)"}},
    Entry{"weight_packed",
          {Part::foreign, true,
           "is a packed weight (compressed-tensors pack-quantized), which is not read; quantise to FP8"}},
    Entry{"qweight", {Part::foreign, true, kGptq}},
    Entry{"W_q", {Part::foreign, true, "is a weight of HQQ, which is not read; quantise to FP8 with llmcompressor"}},
    Entry{"SCB", {Part::refused, true, kBitsAndBytes}},
    Entry{"weight_format", {Part::refused, true, kBitsAndBytes}},
    Entry{"weight.absmax", {Part::refused, true, kBitsAndBytes}},
    Entry{"weight_scales", {Part::refused, true, "is written by EETQ, which is not read; quantise to FP8"}},
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

// SPDX-License-Identifier: Apache-2.0
// The table of conventions that are not read.
#include "host/checkpoint/conventions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ironcl::checkpoint {
namespace {

/// A leaf, its type in the file, and a leaf beside it; empty: any, none.
struct Convention {
  std::string_view leaf, dtype, beside, why;
};

constexpr std::string_view kSmooth =
    "scales the columns of the activations before they are quantised, which is not computed here; "
    "fold it into the layer before and export the checkpoint again";
constexpr std::string_view kSecond =
    "is a second scale, which is read only where a config says that the layer is NVFP4 of modelopt or "
    "compressed-tensors; put it beside the file, or quantise to FP8";
constexpr std::string_view kNunchaku =
    "is of Nunchaku (SVDQuant: four bits with a low-rank part), which is not read; take the model's fp8 or bf16 "
    "files";
constexpr std::string_view kLightX2V =
    "is NVFP4 of LightX2V with swizzled scales, which is not read; convert with its fp8 option";
constexpr std::string_view kNvfp4 =
    "holds two codes of NVFP4 in a byte, and no config says in which order codes and scales lie (ComfyUI's differ "
    "from "
    "modelopt's); put the model's config.json or hf_quant_config.json beside the file";
constexpr std::string_view kGptq =
    "is a packed weight of GPTQ or AWQ, which is not read; quantise to FP8 with llmcompressor";
constexpr std::string_view kBitsAndBytes4 =
    "is of bitsandbytes in four bits (nf4, fp4), which is not read; load_in_8bit is, or quantise to FP8";
constexpr std::string_view kMlx =
    "is of MLX: bits packed along K with scales and biases of groups, which is not read; quantise the original model "
    "to FP8 with llmcompressor";
constexpr std::string_view kFlatQuant =
    "is a transform of FlatQuant (msModelSlim) that multiplies the activations, which is not computed here; export "
    "with W8A8_DYNAMIC and without it";
constexpr std::string_view kLowRank =
    "is a low-rank part that is added to the weight (SVD), which is not computed here; export without svd";
constexpr std::string_view kTensorRt =
    "is a scale of a TensorRT-LLM checkpoint, which is not read; export with modelopt's export_hf_checkpoint";
constexpr std::string_view kHiggs = "is of HIGGS or FLUTE, which is not read; quantise to FP8 with llmcompressor";
constexpr std::string_view kTrellis =
    "is a trellis of EXL3 or QTIP, which is not read; quantise the original model to FP8 with llmcompressor";
constexpr std::string_view kOwn =
    "is a code of its own tool (AQLM, VPTQ, SpQR, QuIP#), which is not read; quantise "
    "the original model to FP8 with llmcompressor";

constexpr std::array kConventions = {
    Convention{"qweight", "I8", "wscales", kNunchaku},
    Convention{"wscales", "", "", kNunchaku},
    Convention{"proj_down", "", "qweight", kNunchaku},
    Convention{"weight", "U8", "weight_scale_2", kNvfp4},
    Convention{"weight", "U8", "alpha", kLightX2V},
    Convention{"pre_quant_scale", "", "", kSmooth},
    Convention{"smooth_scale", "", "", kSmooth},
    Convention{"smooth_factor", "", "", kSmooth},
    Convention{"mul_scale", "", "", kSmooth},
    Convention{"weight_scale_2", "", "", kSecond},
    Convention{"weight_global_scale", "", "", kSecond},
    Convention{"_weight_per_tensor_scale", "", "", kSecond},
    Convention{"weight_scale_global", "", "", kSecond},
    Convention{"qweight", "", "", kGptq},
    Convention{"W_q", "", "", "is a weight of HQQ, which is not read; quantise to FP8 with llmcompressor"},
    Convention{"weight._shift", "", "", "shifts the codes (quanto's int4 and int2), which is not read"},
    Convention{"weight._data._data", "", "",
               "is a packed weight of quanto (int4, int2), which is not read; quantise to qfloat8"},
    Convention{"weight.absmax", "", "", kBitsAndBytes4},
    Convention{"weight_scales", "", "", "is written by EETQ, which is not read; quantise to FP8"},
    Convention{"weight_g_idx", "", "", "reorders the columns of the weight, which is not read"},
    Convention{"weight", "U32", "scales", kMlx},
    Convention{"weight", "U32", "", kMlx},
    Convention{"left_trans", "", "", kFlatQuant},
    Convention{"right_trans", "", "", kFlatQuant},
    Convention{"clip_ratio", "", "", kFlatQuant},
    Convention{"svd_lowrank_l1", "", "", kLowRank},
    Convention{"svd_lowrank_l2", "", "", kLowRank},
    Convention{"svd_up", "", "", kLowRank},
    Convention{"svd_down", "", "", kLowRank},
    Convention{"scale_bias", "", "",
               "belongs to int4 in bytes (W4A8 of msModelSlim), which is not read; export with W8A8_DYNAMIC"},
    Convention{"weights_scaling_factor", "", "", kTensorRt},
    Convention{"activation_scaling_factor", "", "", kTensorRt},
    Convention{"prequant_scaling_factor", "", "", kTensorRt},
    Convention{"per_channel_scale", "", "", kTensorRt},
    Convention{"weight", "", "_extra_state",
               "is of TransformerEngine, whose scales are in a pickle (_extra_state), which is not read; export the "
               "model with safetensors"},
    Convention{"trellis", "", "", kTrellis},
    Convention{"codes", "", "codebooks", kOwn},
    Convention{"indices", "", "centroids.weight", kOwn},
    Convention{"indices", "", "weight_scale", kOwn},
    Convention{"Qidxs", "", "", kOwn},
    Convention{"dense_weights", "", "row_offsets", kOwn},
    Convention{"weight", "I16", "tables", kHiggs},
    Convention{"B", "I32", "s", "is a weight of Marlin, which is not read; quantise to FP8 with llmcompressor"},
    Convention{"bitmask", "", "",
               "is a sparse weight (sparse-24-bitmask), which is not read; save it without compression"},
    Convention{"weight", "U8", "scales",
               "is U8 with scales (MXFP8 or NVFP4 of MLX, FP-Quant), which is not read; quantise to FP8"},
    Convention{"weight", "U8", "weight_scale",
               "is U8 and has a scale: packed codes (MXFP4, NVFP4, BitNet, whose scale divides) of which no config "
               "says what "
               "they are, or FP8 with swizzled scales (LightX2V), which are not read; put the model's config.json "
               "beside the "
               "file"},
};

/// Parameters of models that are called scales: of CLIP, of diffusion transformers, of residual branches.
constexpr std::array<std::string_view, 4> kOfModels = {"logit_scale", "scale_shift_table", "layer_scale", "ls_scale"};

/// "scale" alone is also what Flux calls the weight of a norm, which has no weight beside it.
bool is_of_model(const TensorIndex& index, std::string_view name, std::string_view leaf) {
  if (leaf == "scale") {
    const auto& beside = index.beside(name.substr(0, name.size() - leaf.size()));
    return std::none_of(beside.begin(), beside.end(),
                        [](const Member& member) { return member.part.part == Part::weight; });
  }
  return std::any_of(kOfModels.begin(), kOfModels.end(),
                     [leaf](std::string_view of) { return leaf.starts_with(of); });
}

constexpr std::array<std::string_view, 6> kIntegers = {"U8", "I16", "U16", "I32", "U32", "I8"};

}  // namespace

std::optional<Recognised> recognise(const std::vector<Member>& members) {
  const auto find = [&members](std::string_view leaf, std::string_view dtype) -> const Member* {
    const auto at = std::find_if(members.begin(), members.end(), [&](const Member& member) {
      return member.leaf == leaf && (dtype.empty() || member.located->tensor->dtype_name == dtype);
    });
    return at == members.end() ? nullptr : &*at;
  };
  for (const Convention& one : kConventions) {
    const Member* member = find(one.leaf, one.dtype);
    if (member != nullptr && (one.beside.empty() || find(one.beside, "") != nullptr))
      return Recognised{member, one.why};
  }
  return std::nullopt;
}

std::optional<Recognised> unclaimed_codes(const std::vector<Member>& members) {
  const auto scale = [](const Member& member) {
    return speaks_of_scales(member.leaf) || member.leaf.find("zero") != std::string_view::npos ||
           member.leaf.find("codebook") != std::string_view::npos;
  };
  for (const Member& member : members) {
    if (!is_integer_matrix(*member.located->tensor) || scale(member)) continue;
    if (member.leaf == "weight" || std::any_of(members.begin(), members.end(), scale))
      return Recognised{&member,
                        "is integers beside scales, in an unknown form; quantise the original model to "
                        "FP8 with llmcompressor, or say who wrote it in an issue"};
  }
  return std::nullopt;
}

std::string_view refused_leaf(std::string_view leaf) noexcept {
  for (const Convention& one : kConventions)
    if (one.leaf == leaf && one.dtype.empty() && one.beside.empty()) return one.why;
  return {};
}

std::string_view why_no_product(std::string_view layer) noexcept {
  // Source: DeepSeek-V4, inference/model.py (wo_a); transformers, modeling_deepseek_v4.py (o_a_proj).
  for (const std::string_view name : {".wo_a", ".o_a_proj"})
    if (layer.ends_with(name))
      return "is DeepSeek-V4's grouped product (each group of heads meets rows of its own, o_groups of config.json), "
             "which one product is not; save the rows of each group as a layer of their own";
  return {};
}

bool is_integer_matrix(const Tensor& tensor) noexcept {
  return tensor.shape.size() >= 2 && tensor.elements() > 0 &&
         std::find(kIntegers.begin(), kIntegers.end(), tensor.dtype_name) != kIntegers.end();
}

std::string why_not_cast(const TensorIndex& index, const QuantizationConfig& config) {
  const Folder& folder = index.folder();
  if (!config.method.empty()) return fmt::format("its folder says that it is quantised ({})", config.method);
  if (folder.partial) return "this file is one of several, and its scale may be in another";
  for (const SafetensorsFile& file : folder.files)
    if (file.metadata().contains("_quantization_metadata")) return "the file has a '_quantization_metadata'";
  for (const auto& [name, located] : folder.tensors) {
    const std::string_view leaf = std::string_view(name).substr(leaf_of(name));
    const PartName part = part_of(leaf);
    if ((speaks_of_scales(leaf) || part.part == Part::refused) && !is_of_model(index, name, leaf))
      return fmt::format("'{}' is there, and scales of other layers may be missing", name);
    if (is_integer_matrix(*located.tensor)) return fmt::format("'{}' is {}", name, located.tensor->dtype_name);
  }
  return {};
}

}  // namespace ironcl::checkpoint

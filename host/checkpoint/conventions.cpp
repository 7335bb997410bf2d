// SPDX-License-Identifier: Apache-2.0
// The table of conventions that are not read.
#include "host/checkpoint/conventions.h"

#include <initializer_list>

namespace ironcl::checkpoint {
namespace {

/// One of these leaves, and what to say of it; its type in the file, and a leaf beside it: empty: any, none.
struct Convention {
  std::initializer_list<std::string_view> leaves;
  std::string_view why, dtype{}, beside{};
};

constexpr std::string_view kNunchaku =
    "is of Nunchaku (SVDQuant: four bits with a low-rank part), which is not read; take the model's fp8 or bf16 "
    "files";
constexpr std::string_view kOwn =
    "is a code of its own tool (AQLM, VPTQ, SpQR, QuIP#), which is not read; quantise the original model to FP8 with "
    "llmcompressor";

const Convention kConventions[] = {
    {{"qweight"}, kNunchaku, "I8", "wscales"},
    {{"wscales"}, kNunchaku},
    {{"proj_down"}, kNunchaku, "", "qweight"},
    {{"weight"},
     "holds two codes of NVFP4 in a byte, and no config says in which order codes and scales lie (ComfyUI's differ "
     "from modelopt's); put the model's config.json or hf_quant_config.json beside the file",
     "U8",
     "weight_scale_2"},
    {{"weight"},
     "is NVFP4 of LightX2V with swizzled scales, which is not read; convert with its fp8 option",
     "U8",
     "alpha"},
    {{"pre_quant_scale", "smooth_scale", "smooth_factor", "mul_scale"},
     "scales the columns of the activations before they are quantised, which is not computed here; fold it into the "
     "layer before and export the checkpoint again"},
    {{"weight_scale_2", "weight_global_scale", "_weight_per_tensor_scale", "weight_scale_global"},
     "is a second scale, which is read only where a config says that the layer is NVFP4 of modelopt or "
     "compressed-tensors; put it beside the file, or quantise to FP8"},
    {{"qweight"}, "is a packed weight of GPTQ or AWQ, which is not read; quantise to FP8 with llmcompressor"},
    {{"W_q"}, "is a weight of HQQ, which is not read; quantise to FP8 with llmcompressor"},
    {{"weight._shift"}, "shifts the codes (quanto's int4 and int2), which is not read"},
    {{"weight._data._data"}, "is a packed weight of quanto (int4, int2), which is not read; quantise to qfloat8"},
    {{"weight.absmax"},
     "is of bitsandbytes in four bits (nf4, fp4), which is not read; load_in_8bit is, or quantise to FP8"},
    {{"weight_scales"}, "is written by EETQ, which is not read; quantise to FP8"},
    {{"weight_g_idx"}, "reorders the columns of the weight, which is not read"},
    {{"weight"},
     "is of MLX: bits packed along K with scales and biases of groups, which is not read; quantise the original "
     "model to FP8 with llmcompressor",
     "U32"},
    {{"left_trans", "right_trans", "clip_ratio"},
     "is a transform of FlatQuant (msModelSlim) that multiplies the activations, which is not computed here; export "
     "with W8A8_DYNAMIC and without it"},
    {{"svd_lowrank_l1", "svd_lowrank_l2", "svd_up", "svd_down"},
     "is a low-rank part that is added to the weight (SVD), which is not computed here; export without svd"},
    {{"scale_bias"}, "belongs to int4 in bytes (W4A8 of msModelSlim), which is not read; export with W8A8_DYNAMIC"},
    {{"weights_scaling_factor", "activation_scaling_factor", "prequant_scaling_factor", "per_channel_scale"},
     "is a scale of a TensorRT-LLM checkpoint, which is not read; export with modelopt's export_hf_checkpoint"},
    {{"weight"},
     "is of TransformerEngine, whose scales are in a pickle (_extra_state), which is not read; export the model with "
     "safetensors",
     "",
     "_extra_state"},
    {{"trellis"},
     "is a trellis of EXL3 or QTIP, which is not read; quantise the original model to FP8 with llmcompressor"},
    {{"codes"}, kOwn, "", "codebooks"},
    {{"indices"}, kOwn, "", "centroids.weight"},
    {{"indices"}, kOwn, "", "weight_scale"},
    {{"Qidxs"}, kOwn},
    {{"dense_weights"}, kOwn, "", "row_offsets"},
    {{"weight"}, "is of HIGGS or FLUTE, which is not read; quantise to FP8 with llmcompressor", "I16", "tables"},
    {{"B"}, "is a weight of Marlin, which is not read; quantise to FP8 with llmcompressor", "I32", "s"},
    {{"bitmask"}, "is a sparse weight (sparse-24-bitmask), which is not read; save it without compression"},
    {{"weight"},
     "is U8 with scales (MXFP8 or NVFP4 of MLX, FP-Quant), which is not read; quantise to FP8",
     "U8",
     "scales"},
    {{"weight"},
     "is U8 and has a scale: packed codes (MXFP4, NVFP4, BitNet, whose scale divides) of which no config says what "
     "they are, or FP8 with swizzled scales (LightX2V), which are not read; put the model's config.json beside the "
     "file",
     "U8",
     "weight_scale"},
};

/// Parameters of models that are called scales: of CLIP, of diffusion transformers, of residual branches.
constexpr std::array<std::string_view, 4> kOfModels = {"logit_scale", "scale_shift_table", "layer_scale", "ls_scale"};

/// "scale" alone is also what Flux calls the weight of a norm, which has no weight beside it.
bool is_of_model(const TensorIndex& index, std::string_view name, std::string_view leaf) {
  if (leaf == "scale") {
    const auto& beside = index.beside(name.substr(0, name.size() - leaf.size()));
    return std::ranges::none_of(beside, [](const Member& member) { return member.part.part == Part::weight; });
  }
  return std::ranges::any_of(kOfModels, [leaf](std::string_view of) { return leaf.starts_with(of); });
}

constexpr std::array<std::string_view, 6> kIntegers = {"U8", "I16", "U16", "I32", "U32", "I8"};

}  // namespace

std::optional<Recognised> recognise(const std::vector<Member>& members) {
  for (const Convention& one : kConventions) {
    if (!one.beside.empty() && std::ranges::find(members, one.beside, &Member::leaf) == members.end()) continue;
    for (const std::string_view leaf : one.leaves)
      for (const Member& member : members)
        if (member.leaf == leaf && (one.dtype.empty() || member.tensor->dtype_name == one.dtype))
          return Recognised{&member, one.why};
  }
  return std::nullopt;
}

std::optional<Recognised> unclaimed_codes(const std::vector<Member>& members) {
  const auto scale = [](const Member& member) {
    return speaks_of_scales(member.leaf) || member.leaf.find("zero") != std::string_view::npos ||
           member.leaf.find("codebook") != std::string_view::npos;
  };
  for (const Member& member : members) {
    if (!is_integer_matrix(*member.tensor) || scale(member)) continue;
    if (member.leaf == "weight" || std::ranges::any_of(members, scale))
      return Recognised{&member,
                        "is integers beside scales, in an unknown form; quantise the original model to FP8 with "
                        "llmcompressor, or say who wrote it in an issue"};
  }
  return std::nullopt;
}

std::string_view refused_leaf(std::string_view leaf) noexcept {
  for (const Convention& one : kConventions)
    if (one.dtype.empty() && one.beside.empty() && std::ranges::find(one.leaves, leaf) != one.leaves.end())
      return one.why;
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
         std::ranges::find(kIntegers, tensor.dtype_name) != kIntegers.end();
}

std::string why_not_cast(const TensorIndex& index, const QuantizationConfig& config) {
  const Folder& folder = index.folder();
  if (!config.method.empty()) return fmt::format("its folder says that it is quantised ({})", config.method);
  if (folder.partial) return "this file is one of several, and its scale may be in another";
  for (const SafetensorsFile& file : folder.files)
    if (file.metadata().contains("_quantization_metadata")) return "the file has a '_quantization_metadata'";
  for (const auto& [name, tensor] : folder.tensors) {
    const std::string_view leaf = std::string_view(name).substr(leaf_of(name));
    const PartName part = part_of(leaf);
    if ((speaks_of_scales(leaf) || part.part == Part::refused) && !is_of_model(index, name, leaf))
      return fmt::format("'{}' is there, and scales of other layers may be missing", name);
    if (is_integer_matrix(*tensor)) return fmt::format("'{}' is {}", name, tensor->dtype_name);
  }
  return {};
}

}  // namespace ironcl::checkpoint

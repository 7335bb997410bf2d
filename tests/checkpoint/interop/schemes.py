# SPDX-License-Identifier: Apache-2.0
"""What is written: for each folder the tool, the scheme, how its products are computed, and the code that writes it.

`how` is about the mathematics only and is written down by hand from the tools' documentation: the block of a weight's
scales (0: the whole dimension), and how activations are quantised. how=None: not a scheme of 8 bits and blocks; IronCL must
refuse it.
"""

import writers as w

TENSOR, CHANNEL, TOKEN = (0, 0), (1, 0), (1, 0)


def scheme(block, activations, activation_block=None, power_of_two=False):
    return dict(block=block, activations=activations, activation_block=activation_block, power_of_two=power_of_two)


WEIGHT_ONLY = "none"
MX = scheme((1, 32), "dynamic", (1, 32), power_of_two=True)

# name, tool, scheme in words, how, writer(folder)
SCHEMES = [
    ("tf-block", "transformers", "FineGrainedFP8 32x32", scheme((32, 32), "dynamic", (1, 32)), w.tf(block=(32, 32))),
    ("tf-block-ue8m0", "transformers", "FineGrainedFP8 32x32, scale_fmt ue8m0",
     scheme((32, 32), "dynamic", (1, 32), True), w.tf(block=(32, 32), scale_fmt="ue8m0")),
    ("tf-block-wide", "transformers", "FineGrainedFP8 64x128", scheme((64, 128), "dynamic", (1, 128)),
     w.tf(model="wide", block=(64, 128))),
    ("tf-tensor", "transformers", "FineGrainedFP8, weight_block_size null", scheme(TENSOR, "dynamic", TOKEN), w.tf(block=None)),
    ("tf-static", "transformers", "FineGrainedFP8, null, static", scheme(TENSOR, "static"), w.tf(block=None, static=True)),
    ("tf-experts", "transformers", "FineGrainedFP8 32x32, experts", scheme((32, 32), "dynamic", (1, 32)),
     w.tf(model="experts", block=(32, 32))),
    ("tf-experts-stacked", "transformers", "the same, experts stacked (save_original_format=False)",
     scheme((32, 32), "dynamic", (1, 32)), w.tf(model="experts", block=(32, 32), stacked=True)),
    ("tf-experts-static", "transformers", "FineGrainedFP8, null, static, experts", scheme(TENSOR, "static"),
     w.tf(model="experts", block=None, static=True)),
    ("tf-fbgemm", "by hand, as transformers' fbgemm_fp8", "per channel, per token, activation_scale_ub",
     scheme(CHANNEL, "dynamic", TOKEN), w.fbgemm_by_hand),
    ("autofp8-static", "by hand, as AutoFP8 0.1", "per tensor, static", scheme(TENSOR, "static"), w.autofp8_by_hand),
    ("deepseek-v3", "by hand, as DeepSeek-V3's fp8_cast", "128x128, ignored modules", scheme((128, 128), "dynamic", (1, 128)),
     w.deepseek_by_hand),
    ("comfy-scaled", "by hand, as ComfyUI's scaled_fp8", "scale_weight, scale_input", scheme(TENSOR, "static"), w.scaled_fp8_by_hand),
    ("cast-only", "torch", "cast to float8_e4m3fn without scales", scheme(TENSOR, WEIGHT_ONLY), w.cast_only),
    ("ct-fp8", "compressed-tensors", "FP8 (per tensor, static)", scheme(TENSOR, "static"), w.ct("FP8", calibrate=True)),
    ("ct-fp8-dynamic", "compressed-tensors", "FP8_DYNAMIC", scheme(CHANNEL, "dynamic", TOKEN), w.ct("FP8_DYNAMIC")),
    ("ct-fp8-block", "compressed-tensors", "FP8_BLOCK", scheme((128, 128), "dynamic", (1, 128)), w.ct("FP8_BLOCK")),
    ("ct-fp8-kv", "compressed-tensors", "FP8 with an FP8 KV cache", scheme(TENSOR, "static"), w.ct("FP8", calibrate=True, kv=True)),
    ("ct-mxfp8", "compressed-tensors", "MXFP8", MX, w.ct("MXFP8")),
    ("ct-mxfp8-a16", "compressed-tensors", "MXFP8A16", scheme((1, 32), WEIGHT_ONLY), w.ct("MXFP8A16")),
    ("ct-int8", "compressed-tensors", "W8A8", scheme(CHANNEL, "dynamic", TOKEN), w.ct("W8A8", calibrate=True)),
    ("ct-experts", "compressed-tensors", "FP8_DYNAMIC, experts", scheme(CHANNEL, "dynamic", TOKEN), w.ct("FP8_DYNAMIC", model="experts")),
    ("ct-w8a16", "compressed-tensors", "W8A16 (packed)", scheme((1, 128), WEIGHT_ONLY), w.ct("W8A16", model="wide")),
    ("ct-w4a16", "compressed-tensors", "W4A16", None, w.ct("W4A16", model="wide")),
    ("ct-w4afp8", "compressed-tensors", "W4AFP8", None, w.ct("W4AFP8", model="wide")),
    ("ct-nvfp4", "compressed-tensors", "NVFP4", scheme((1, 16), WEIGHT_ONLY), w.ct("NVFP4", calibrate=True)),
    ("mo-fp8", "modelopt", "FP8_DEFAULT_CFG", scheme(TENSOR, "static"), w.modelopt("FP8_DEFAULT_CFG")),
    ("mo-fp8-kv", "modelopt", "FP8_DEFAULT_CFG with FP8_KV_CFG", scheme(TENSOR, "static"), w.modelopt("FP8_DEFAULT_CFG", kv=True)),
    ("mo-channel", "modelopt", "FP8_PER_CHANNEL_PER_TOKEN_CFG", scheme(CHANNEL, "dynamic", TOKEN),
     w.modelopt("FP8_PER_CHANNEL_PER_TOKEN_CFG")),
    ("mo-2d", "modelopt", "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", scheme((128, 128), WEIGHT_ONLY),
     w.modelopt("FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", model="wide")),
    ("mo-mxfp8", "modelopt", "MXFP8_DEFAULT_CFG", MX, w.modelopt("MXFP8_DEFAULT_CFG")),
    ("mo-experts", "modelopt", "FP8_DEFAULT_CFG, experts", scheme(TENSOR, "static"), w.modelopt("FP8_DEFAULT_CFG", model="experts")),
    ("mo-int8", "modelopt", "INT8_DEFAULT_CFG", scheme(CHANNEL, "static"), w.modelopt("INT8_DEFAULT_CFG")),
    ("mo-int8-smooth", "modelopt", "INT8_SMOOTHQUANT_CFG", None, w.modelopt("INT8_SMOOTHQUANT_CFG")),
    ("mo-nvfp4", "modelopt", "NVFP4_DEFAULT_CFG", scheme((1, 16), WEIGHT_ONLY), w.modelopt("NVFP4_DEFAULT_CFG")),
    ("mo-w4a8-awq", "modelopt", "W4A8_AWQ_BETA_CFG", None, w.modelopt("W4A8_AWQ_BETA_CFG", model="wide")),
    ("ao-fp8", "torchao", "Float8WeightOnly", scheme(CHANNEL, WEIGHT_ONLY), w.torchao("Float8WeightOnlyConfig")),
    ("ao-fp8-e5m2", "torchao", "Float8WeightOnly, e5m2", scheme(CHANNEL, WEIGHT_ONLY), w.torchao("Float8WeightOnlyConfig", e5m2=True)),
    ("ao-fp8-row", "torchao", "Float8DynamicActivationFloat8Weight, PerRow", scheme(CHANNEL, "dynamic", TOKEN),
     w.torchao("Float8DynamicActivationFloat8WeightConfig", granularity="PerRow")),
    ("ao-fp8-tensor", "torchao", "Float8DynamicActivationFloat8Weight, PerTensor", scheme(TENSOR, "dynamic", TENSOR),
     w.torchao("Float8DynamicActivationFloat8WeightConfig", granularity="PerTensor")),
    ("ao-fp8-block", "torchao", "Float8DynamicActivationFloat8Weight, PerBlock", scheme((128, 128), "dynamic", (1, 128)),
     w.torchao("Float8DynamicActivationFloat8WeightConfig", granularity="PerBlock", model="wide")),
    ("ao-int8", "torchao", "Int8WeightOnly", scheme(CHANNEL, WEIGHT_ONLY), w.torchao("Int8WeightOnlyConfig")),
    ("ao-int8-dynamic", "torchao", "Int8DynamicActivationInt8Weight", scheme(CHANNEL, "dynamic", TOKEN),
     w.torchao("Int8DynamicActivationInt8WeightConfig")),
    ("ao-mxfp8", "torchao", "MXDynamicActivationMXWeight (swizzled scales)", None, w.torchao("MXDynamicActivationMXWeightConfig")),
    ("quanto-e4m3", "quanto", "qfloat8_e4m3fn", scheme(CHANNEL, WEIGHT_ONLY), w.quanto("qfloat8_e4m3fn")),
    ("quanto-e5m2", "quanto", "qfloat8_e5m2", scheme(CHANNEL, WEIGHT_ONLY), w.quanto("qfloat8_e5m2")),
    ("quanto-e4m3-act", "quanto", "qfloat8_e4m3fn, activations too", scheme(CHANNEL, "static"), w.quanto("qfloat8_e4m3fn", "qfloat8_e4m3fn")),
    ("quanto-int8", "quanto", "qint8", scheme(CHANNEL, WEIGHT_ONLY), w.quanto("qint8")),
    ("quanto-int4", "quanto", "qint4", None, w.quanto("qint4")),
    ("quark-fp8", "quark", "FP8E4M3PerTensor, static", scheme(TENSOR, "static"), w.quark),
    ("comfy-tensor", "convert_to_quant", "--comfy_quant", scheme(TENSOR, "dynamic", TOKEN), w.comfy()),
    ("comfy-row", "convert_to_quant", "--scaling_mode row", scheme(CHANNEL, "dynamic", TOKEN), w.comfy("--scaling_mode", "row")),
    ("comfy-block", "convert_to_quant", "--scaling_mode block --block_size 32", scheme((32, 32), "dynamic", (1, 32)),
     w.comfy("--scaling_mode", "block", "--block_size", "32")),
    ("comfy-int8", "convert_to_quant", "--int8", scheme(TENSOR, "dynamic", TOKEN), w.comfy("--int8")),
    ("comfy-mxfp8", "convert_to_quant", "--mxfp8 (tiled scales)", None, w.comfy("--mxfp8")),
    ("comfy-rotated", "convert_to_quant", "--int8 --convrot", None,
     w.comfy("--int8", "--scaling_mode", "row", "--convrot", "--convrot-group-size", "16")),
    ("fw-block", "fireworks-prequant", "mxfp8_bw128", scheme((128, 128), "dynamic", (1, 128)), w.fireworks),
    ("bnb-int8", "bitsandbytes", "LLM.int8", scheme(CHANNEL, WEIGHT_ONLY), w.bitsandbytes("int8")),
    ("bnb-nf4", "bitsandbytes", "nf4", None, w.bitsandbytes("nf4")),
    ("gguf", "gguf", "Q8_0", None, w.gguf),
    ("torch-save", "torch", "model.pt", None, w.torch_save),
]

# SPDX-License-Identifier: Apache-2.0
"""The conventions of other people's checkpoints, a small folder each.

A folder is files (a name and its JSON, or its tensors); the layer with its weight, bias and way of quantising activations as
its tool means them, from which numbers.py computes the product; or the words with which it is refused. `row` counts the
conventions; `path` is the file to open where it is not the folder.
"""

from numbers_ import E2M1, E4M3, E5M2, f32, tensor

FOLDERS = []
P = "model.layers.0.mlp.down_proj."
# Bytes that are codes of every type: 4 rows of 8.
CODES = [[(37 * r + 29 * c + 11) % 120 + (128 if (r + c) % 3 == 0 else 0) for c in range(8)] for r in range(4)]
INT8 = [[v - 256 if v > 127 else v for v in row] for row in CODES]
ROWS = [[0.02], [0.5], [1.25], [0.125]]
ONE = [[0.02]]


def add(row, convention, name, files, refused=None, layer=P[:-1], w=None, how="none", bias=None, path=""):
    FOLDERS.append(dict(row=row, convention=convention, name=name, files=files, refused=refused, layer=layer, w=w, how=how,
                        bias=bias, path=path))


def values(codes, table=E4M3):
    return [[table[c] for c in row] for row in codes]


def scaled(w, scales):
    """Rows by their scales, [[s], ...] or one for all."""
    return [[v * f32(scales[min(n, len(scales) - 1)][0]) for v in row] for n, row in enumerate(w)]


def config(method, **members):
    model = members.pop("model", {})
    return {"model_type": "llama", **model, "quantization_config": {"quant_method": method, **members}}


def fp8(codes=CODES):
    return tensor("F8_E4M3", codes)


I8, U8, F32S, F32 = tensor("I8", INT8), tensor("U8", CODES), tensor("F32", ROWS), lambda v: tensor("F32", v)
FILE = "model.safetensors"
LINEAR = {"targets": ["Linear"]}


def model(tensors, *more):
    files = {FILE: tensors}
    for one in more:
        files["config.json"] = one
    return files


# 1. Only cast
BIAS = [0.25, -1.0, 2.0, 0.5]
FLUX = "double_blocks.0.img_attn.proj."
NORM = {"double_blocks.0.norm.query_norm.scale": tensor("F8_E4M3", [0x38] * 4), "img_in.conv.weight": tensor("F8_E4M3", [[[[0x38]]]])}
add(1, "plain fp8 cast (ComfyUI, diffusers)", "cast-e4m3",
    {"flux-fp8.safetensors": {FLUX + "weight": fp8(), FLUX + "bias": tensor("BF16", BIAS), **NORM}},
    layer=FLUX[:-1], w=values(CODES), bias=BIAS)
add(1, "the same, e5m2, its bias cast too", "cast-e5m2",
    {"wan.safetensors": {FLUX + "weight": tensor("F8_E5M2", CODES), FLUX + "bias": tensor("F8_E5M2", [0x34, 0xBC, 0x40, 0x38])}},
    layer=FLUX[:-1], w=values(CODES, E5M2), bias=BIAS)
add(1, "the same beside a scale that nobody claims", "cast-doubtful",
    model({P + "weight": fp8(), "other.weights_scaling_factor": F32(0.5)}), "other.weights_scaling_factor' is there")
add(1, "one shard of several, its scale in another", "cast-shard", {"model-00002-of-00003.safetensors": {P + "weight": fp8()}},
    "this file is one of several", path="model-00002-of-00003.safetensors")
# 2. NVFP4: 4 rows of 32, two codes to a byte, the first of k in its lower half
PAIRS = [[(37 * r + 29 * c + 11 * (c // 5)) % 256 for c in range(16)] for r in range(4)]
NVS = [[0x3C + r + 8 * g for g in range(2)] for r in range(4)]


def four_bits(pairs, scale):
    """Values of packed rows; scale(n, k) multiplies."""
    return [[E2M1[byte >> (4 * half) & 15] * scale(n, 2 * c + half) for c, byte in enumerate(row) for half in range(2)] for n, row in enumerate(pairs)]


def nvfp4(factor, scales=NVS):
    return four_bits(PAIRS, lambda n, k: E4M3[scales[n][k // 16]] * factor)


def mxfp4(pairs, scales):
    return four_bits(pairs, lambda n, k: 2.0 ** (scales[n][k // 32] - 127))


NV = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
NVFP4 = {P + "weight": tensor("U8", PAIRS), P + "weight_scale": tensor("F8_E4M3", NVS), P + "weight_scale_2": F32(0.3), P + "input_scale": F32(0.01)}
MODELOPT = config("modelopt", quant_algo="NVFP4", config_groups={"group_0": {**LINEAR, "weights": NV, "input_activations": NV}})
HF4 = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
add(2, "NVFP4 of modelopt", "nvfp4-modelopt", model(NVFP4, MODELOPT), w=nvfp4(f32(0.3)))
add(2, "the same, hf_quant_config.json", "nvfp4-hf", {**model(NVFP4), "hf_quant_config.json": HF4}, w=nvfp4(f32(0.3)))
add(2, "the same without its global scale", "nvfp4-no-global", model({n: t for n, t in NVFP4.items() if "scale_2" not in n}, MODELOPT),
    "weight_scale_2': is missing beside")
add(2, "the same file alone", "nvfp4-file", model(NVFP4), "no config says in which order", path=FILE)
TILED = tensor("F8_E4M3", [[0x38] * 4] * 128)
add(2, "the same with scales in tiles", "nvfp4-tiled", model({**NVFP4, P + "weight_scale": TILED}, MODELOPT), "in tiles of 128x4")
add(2, "ComfyUI nvfp4", "nvfp4-comfy", model({**NVFP4, P + "comfy_quant": tensor("U8", list(b'{"format": "nvfp4"}'))}), "format 'nvfp4' of ComfyUI")
add(2, "NVFP4_AWQ of modelopt", "nvfp4-awq", model({**NVFP4, P + "pre_quant_scale": F32([1.0] * 32)}, MODELOPT), "scales the columns of the activations")
CT4 = config("compressed-tensors", format="nvfp4-pack-quantized",
             config_groups={"g": {**LINEAR, "weights": {**NV, "strategy": "tensor_group"}, "input_activations": {**NV, "strategy": "tensor_group", "dynamic": "local"}}})
add(2, "NVFP4 of compressed-tensors", "nvfp4-ct", model(
    {P + "weight_packed": tensor("U8", PAIRS), P + "weight_scale": tensor("F8_E4M3", NVS), P + "weight_global_scale": F32([3.0]),
     P + "input_global_scale": F32([100.0])}, CT4), w=nvfp4(1 / 3))
E = "model.layers.0.mlp.experts."
STACKED = {E + "gate_up_proj": tensor("U8", [PAIRS]), E + "gate_up_proj_weight_scale": tensor("F8_E4M3", [NVS]),
           E + "gate_up_proj_weight_scale_2": F32([0.25])}
add(2, "NVFP4, experts stacked", "nvfp4-stacked", model(STACKED, MODELOPT), layer=E + "0.gate_up_proj", w=nvfp4(0.25))
add(2, "the same, gate and up with global scales of their own", "nvfp4-stacked-two", model({**STACKED, E + "gate_up_proj_weight_scale_2": F32([[0.25, 3.0]])}, MODELOPT),
    layer=E + "0.up_proj", w=nvfp4(3.0)[2:])
# 3. gpt-oss
EXPONENTS = [[120 + 5 * r] for r in range(4)]
OSS = {E + "down_proj_blocks": tensor("U8", [[[row] for row in rows] for rows in (PAIRS, PAIRS[::-1])]), E + "down_proj_scales": tensor("U8", [EXPONENTS] * 2),
       E + "down_proj_bias": tensor("BF16", [BIAS, [0.0] * 4])}
add(3, "gpt-oss MXFP4", "gpt-oss", model(OSS, config("mxfp4", model={"model_type": "gpt_oss"})), layer=E + "0.down_proj", w=mxfp4(PAIRS, EXPONENTS), bias=BIAS)
add(3, "the same file alone", "gpt-oss-file", model(OSS), layer=E + "1.down_proj", path=FILE, w=mxfp4(PAIRS[::-1], EXPONENTS))
add(3, "the same whose scale is NaN", "gpt-oss-nan", model({**OSS, E + "down_proj_scales": tensor("U8", [[[255]] * 4] * 2)}), "is nan", layer=E + "0.down_proj")
# 4. DeepSeek-V4
V4 = config("fp8", fmt="e4m3", scale_fmt="ue8m0", activation_scheme="dynamic", weight_block_size=[128, 128],
            model={"model_type": "deepseek_v4", "expert_dtype": "fp4"})
W1, WQ = "layers.0.ffn.experts.0.w1.", "layers.0.attn.wq_a."
SIGNED = tensor("I8", [[v - 256 if v > 127 else v for v in row] for row in PAIRS])
EXPERT = {W1 + "weight": SIGNED, W1 + "scale": tensor("F8_E8M0", EXPONENTS)}
add(4, "DeepSeek-V4, its experts (MXFP4 in I8)", "v4-experts", model(EXPERT, V4), layer=W1[:-1], w=mxfp4(PAIRS, EXPONENTS), how="e4m3-ue8m0")
add(4, "the same file alone", "v4-experts-file", model(EXPERT), "two codes of MXFP4 in a byte", layer=W1[:-1], path=FILE)
add(4, "DeepSeek-V4, its dense layers", "v4-dense", model({WQ + "weight": fp8(), WQ + "scale": tensor("F8_E8M0", [[125]])}, V4),
    layer=WQ[:-1], w=scaled(values(CODES), [[0.25]]), how="e4m3-ue8m0")
WO = "layers.0.attn.wo_a."
add(4, "DeepSeek-V4, its grouped low-rank product", "v4-grouped", model({WO + "weight": fp8(), WO + "scale": tensor("F8_E8M0", [[125]])}, V4),
    "DeepSeek-V4's grouped product", layer=WO[:-1])
# 5. MLX
MLX = {P + "weight": tensor("U32", [[1, 2]] * 4), P + "scales": tensor("BF16", [[0.5]] * 4), P + "biases": tensor("BF16", [[1.0]] * 4)}
add(5, "MLX", "mlx", model(MLX, {"model_type": "llama", "quantization": {"group_size": 64, "bits": 4}}), "is the form of MLX")
add(5, "the same file alone", "mlx-file", model(MLX), "is of MLX", path=FILE)
# 6. int4
GPTQ = {P + "qweight": tensor("I32", [[1] * 4]), P + "qzeros": tensor("I32", [[1]]), P + "scales": tensor("F16", [[0.5] * 4]),
        P + "g_idx": tensor("I32", [0] * 8)}
add(6, "GPTQ", "gptq", model(GPTQ, config("gptq", bits=4)), "packed integers of GPTQ")
add(6, "AWQ, the file alone", "awq-file", model({n: t for n, t in GPTQ.items() if "g_idx" not in n}), "packed weight of GPTQ or AWQ", path=FILE)
# 7. bitsandbytes
AMAX = [2.54, 127.0, 158.75, 15.875]
BNB = {P + "weight": I8, P + "SCB": F32(AMAX), P + "weight_format": tensor("U8", 0)}
add(7, "LLM.int8", "llm-int8", model(BNB, config("bitsandbytes", load_in_8bit=True, llm_int8_threshold=6.0)),
    w=[[v * f32(a) / 127 for v in row] for row, a in zip(INT8, AMAX)])
add(7, "LLM.int8 in columns", "llm-int8-columns", model({**BNB, P + "weight_format": tensor("U8", 1)}, config("bitsandbytes", load_in_8bit=True)),
    "the codes lie in another order")
# 8. ComfyUI
def comfy(**said):
    import json
    return tensor("U8", list(json.dumps(said).encode()))
add(8, "ComfyUI int8_tensorwise with a scale for each row", "comfy-int8-rows",
    model({P + "weight": I8, P + "weight_scale": F32S, P + "comfy_quant": comfy(format="int8_tensorwise")}), w=scaled(INT8, ROWS), how="i8")
add(8, "ComfyUI asym_w4a8_int8", "comfy-w4a8", model({P + "weight": I8, P + "weight_scale": F32S, P + "comfy_quant": comfy(format="asym_w4a8_int8")}),
    "format 'asym_w4a8_int8' of ComfyUI")
# 9. Packed 8 bit
SIX = [row[:6] for row in INT8]
PACKED = {P + "weight_packed": ("I32", [4, 2], bytes(v + 128 for row in SIX for v in row + [-128, -128])), P + "weight_scale": F32S,
          P + "weight_shape": tensor("I64", [4, 6])}
W8A16 = config("compressed-tensors", format="pack-quantized",
               config_groups={"g": {**LINEAR, "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}})
add(9, "compressed-tensors W8A16 (packed)", "packed-w8a16", model(PACKED, W8A16), w=scaled(SIX, ROWS))
ASYMMETRIC = config("compressed-tensors", format="int-quantized",
                    config_groups={"g": {**LINEAR, "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False}}})
CODED = {P + "weight": I8, P + "weight_scale": F32S}
add(9, "compressed-tensors W8A16 with zero points", "ct-zeros", model({**CODED, P + "weight_zero_point": tensor("I8", [[4], [-128], [0], [127]])},
    ASYMMETRIC), w=scaled([[v - z for v in row] for row, z in zip(INT8, [4, -128, 0, 127])], ROWS))
add(9, "the same whose zero points are absent", "ct-zeros-absent", model(CODED, ASYMMETRIC), "the config says that the weights are not symmetric")
add(9, "packed W8A16 with zero points", "packed-zeros", model({**PACKED, P + "weight_zero_point": tensor("I32", [[0]])}, W8A16), "asymmetric")
add(9, "GPTQ of 8 bits", "gptq-int8", model(GPTQ, config("gptq", bits=8)), "packed integers of GPTQ")
# 10. MIXED_PRECISION
MIXED = {P[:-1]: {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16}}
CHANNEL = {P + "weight": fp8(), P + "weight_scale": F32S}
GROUP = {"targets": [P[:-1]], "weights": {"num_bits": 8, "type": "float", "dynamic": False}, "input_activations": {"num_bits": 8, "type": "float", "dynamic": False}}
add(10, "modelopt MIXED_PRECISION, config.json", "mixed-config",
    model(CHANNEL, config("modelopt", quant_algo="MIXED_PRECISION", quantized_layers=MIXED, config_groups={"group_0": GROUP})),
    w=scaled(values(CODES), ROWS), how="e4m3")
HF = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": MIXED}}
add(10, "modelopt MIXED_PRECISION, hf_quant_config.json", "mixed-hf", {FILE: CHANNEL, "hf_quant_config.json": HF}, w=scaled(values(CODES), ROWS), how="e4m3")
add(10, "the two together", "mixed-both", {**model(CHANNEL, config("modelopt", quant_algo="MIXED_PRECISION", config_groups={"group_0": GROUP})),
    "hf_quant_config.json": HF}, w=scaled(values(CODES), ROWS), how="e4m3")
# 11. msModelSlim
def ascend(kind, tensors, **members):
    return {"quant_model_weights.safetensors": tensors, "config.json": {"model_type": "llama"},
            "quant_model_description.json": {**{n: kind for n in tensors}, "model_quant_type": kind, "version": "1.0.0", **members}}
def offsets(value, prefix=P):
    zeros = value if isinstance(value, list) else [[value]] * 4
    return {prefix + "weight": I8, prefix + "weight_scale": F32S, prefix + "weight_offset": F32(zeros)}
def without(zeros):
    return [[v - zero for v in row] for row, [zero] in zip(INT8, zeros)]
ZEROS = [[4.0], [-128.0], [0.0], [127.0]]
add(11, "msModelSlim W8A8_DYNAMIC", "ascend-dynamic", ascend("W8A8_DYNAMIC", offsets(0.0)), w=scaled(INT8, ROWS), how="i8")
add(11, "msModelSlim W8A16, symmetric", "ascend-w8a16", ascend("W8A16", offsets(-0.0)), w=scaled(INT8, ROWS))
add(11, "msModelSlim W8A16 with offsets", "ascend-offset", ascend("W8A16", offsets(ZEROS)), w=scaled(without(ZEROS), ROWS))
add(11, "msModelSlim W8A16 with offsets, in groups", "ascend-offset-groups", ascend("W8A16", {P + "weight": tensor("I8", [r * 8 for r in INT8]),
    P + "weight_scale": F32([[0.5, 2.0]] * 4), P + "weight_offset": F32([[z, -3.0] for [z] in ZEROS])}, group_size=32),
    w=[[(v - (z if k < 32 else -3.0)) * (0.5 if k < 32 else 2.0) for k, v in enumerate(r * 8)] for r, [z] in zip(INT8, ZEROS)])
add(11, "the same with an offset that is no whole number", "ascend-offset-odd", ascend("W8A16", offsets(4.5)), "has the zero point 4.5")
add(11, "the same with quantised activations", "ascend-offset-dynamic", ascend("W8A8_DYNAMIC", offsets(4.0)), "asymmetric quantisation is read only")
add(11, "the same file alone, without the description", "ascend-file", {"m.safetensors": offsets(0.0)}, "no quant_model_description.json", path="m.safetensors")
INTEGER = [112, -40, 7, 0]
DEQ = [0.0125, 0.025, 0.05, 0.1]
def static(offset):
    return {P + "weight": I8, P + "input_scale": F32([0.05]), P + "input_offset": F32([offset]), P + "deq_scale": F32(DEQ),
            P + "quant_bias": tensor("I32", INTEGER), P + "bias": F32([9.0] * 4)}
add(11, "msModelSlim W8A8 (static)", "ascend-static", ascend("W8A8", static(0.0)), how=("i8", 0.05),
    w=[[v * f32(d) / f32(0.05) for v in row] for row, d in zip(INT8, DEQ)], bias=[f32(d) * b for d, b in zip(DEQ, INTEGER)])
add(11, "the same with an offset", "ascend-static-offset", ascend("W8A8", static(-8.0)), "asymmetric quantisation is not read")
add(11, "msModelSlim with FlatQuant", "ascend-flatquant", ascend("W8A8_DYNAMIC", {**offsets(0.0), P + "left_trans": F32([[2.0]])}), "a transform of FlatQuant")
add(11, "msModelSlim with SVD", "ascend-svd", ascend("W8A8_DYNAMIC", {**offsets(0.0), P + "svd_lowrank_l1": F32([[2.0]])}), "a low-rank part")
add(11, "msModelSlim with smoothing in a module beside", "ascend-smooth",
    ascend("W8A8_DYNAMIC", {**offsets(0.0, P + "linear."), P + "div.mul_scale": F32([2.0] * 8)}), "div.mul_scale': belongs to the quantised layer", layer=P + "linear")
add(11, "msModelSlim W4A8_DYNAMIC", "ascend-w4a8", ascend("W4A8_DYNAMIC", {P + "weight": I8, P + "weight_scale": F32S}), "of the type W4A8_DYNAMIC of msModelSlim")
# 12, 13
add(12, "Nunchaku SVDQuant", "nunchaku", model({P + "qweight": I8, P + "wscales": F32S, P + "smooth_factor": F32([1.0] * 8), P + "proj_down": tensor("BF16", [[1.0]] * 8)}),
    "is of Nunchaku (SVDQuant")
MX = {P + "weight": tensor("U8", PAIRS), P + "weight_scale": tensor("U8", EXPONENTS)}
FP4 = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
add(13, "MXFP4 of Quark", "quark-mxfp4", model(MX, config("quark", global_quant_config={"weight": FP4, "input_tensors": {**FP4, "is_dynamic": True}})), w=mxfp4(PAIRS, EXPONENTS))
add(13, "MXFP4 of transformers", "tf-mxfp4", model({**MX, P + "bias": tensor("BF16", BIAS)}, config("mxfp4")), w=mxfp4(PAIRS, EXPONENTS), bias=BIAS)
FLOAT4 = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}
CTMX = {P + "weight_packed": tensor("U8", PAIRS), P + "weight_scale": tensor("U8", EXPONENTS)}
def ct_mxfp4(inputs):
    return config("compressed-tensors", format="mxfp4-pack-quantized", config_groups={"g": {**LINEAR, "weights": FLOAT4, "input_activations": inputs}})
add(13, "MXFP4 of compressed-tensors", "ct-mxfp4", model(CTMX, ct_mxfp4(None)), w=mxfp4(PAIRS, EXPONENTS))
add(13, "the same beside fp8 activations", "ct-mxfp4-a8", model(CTMX, ct_mxfp4({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32,
    "dynamic": True, "scale_dtype": "torch.uint8"})), w=mxfp4(PAIRS, EXPONENTS), how="e4m3-ue8m0")
add(13, "MXFP6 of Quark", "quark-mxfp6", model(MX, config("quark", global_quant_config={"weight": {**FP4, "dtype": "fp6_e2m3"}})), "dtype 'fp6_e2m3' of quark's weight")
# 14. Names of engines
add(14, "w8a8_int8 (SGLang, vLLM)", "w8a8-int8", model({P + "weight": I8, P + "weight_scale": F32S}, config("w8a8_int8")), w=scaled(INT8, ROWS), how="i8")
add(14, "w8a8_fp8 (SGLang)", "w8a8-fp8", model(CHANNEL, config("w8a8_fp8")), w=scaled(values(CODES), ROWS), how="e4m3")
add(14, "blockwise_int8 (SGLang)", "blockwise-int8", model({P + "weight": I8, P + "weight_scale_inv": F32(ONE)},
    config("blockwise_int8", weight_block_size=[128, 128], activation_scheme="dynamic")), w=scaled(INT8, ONE), how="i8")
add(14, "smooth_quant int8 (LMDeploy)", "smooth-int8", model({P + "weight": I8, P + "scale": F32S}, config("smooth_quant", quant_dtype="int8")), w=scaled(INT8, ROWS), how="i8")
add(14, "smooth_quant fp8 (LMDeploy)", "smooth-fp8", model({P + "weight": fp8(), P + "scale": F32S}, config("smooth_quant", quant_dtype="float8_e4m3fn")),
    w=scaled(values(CODES), ROWS), how="e4m3")
# 15. Mistral
M = "layers.0.attention.wq."
QUANT = {M + "weight": fp8(), M + "qscale_weight": F32(0.02)}
add(15, "Mistral consolidated, static", "mistral-static", {"consolidated.safetensors": {**QUANT, M + "qscale_act": F32(0.0625),
    "layers.0.attention.kv_fake_quantizer.qscale_act": F32(1.0)}, "params.json": {"dim": 8, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}},
    layer=M[:-1], w=scaled(values(CODES), ONE), how=("e4m3", 0.0625))
add(15, "Mistral consolidated, dynamic", "mistral-dynamic", {"consolidated.safetensors": QUANT,
    "params.json": {"dim": 8, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "NO_SCALES"}}}, layer=M[:-1], w=scaled(values(CODES), ONE), how="e4m3")
# 16. w4afp8
W4 = {W1 + "weight": tensor("I8", [[0x21] * 128] * 4), W1 + "weight_scale_inv": F32([[0.5, 0.25]] * 4), W1 + "input_scale": F32([0.5])}
add(16, "w4afp8 (SGLang)", "w4afp8", model(W4, config("w4afp8")), "int4 in bytes", layer=W1[:-1])
add(16, "one shard of it, config.json beside", "w4afp8-shard", {"model-00001-of-00002.safetensors": W4, "config.json": config("w4afp8")}, "int4 in bytes",
    layer=W1[:-1], path="model-00001-of-00002.safetensors")
add(16, "one shard of it, nothing beside", "w4afp8-file", model(W4), "two codes of int4 in a byte", layer=W1[:-1], path=FILE)
# 17. SDNQ
SD = {P + "weight": I8, P + "scale": F32S}
add(17, "SDNQ, a file with quantization_config.json beside", "sdnq", {"diffusion.safetensors": SD, "quantization_config.json": {"quant_method": "sdnq"}}, "is SDNQ", path="diffusion.safetensors")
add(17, "SDNQ with a low-rank part, the file alone", "sdnq-svd", model({**SD, P + "svd_up": F32([[1.0]] * 4), P + "svd_down": F32([[1.0] * 8])}), "a low-rank part", path=FILE)
add(17, "SDNQ, the file alone (it may be rotated)", "sdnq-file", model(SD), "nothing says who wrote it", path=FILE)
# 18. Outputs that are quantised
add(18, "Gemma's quantised release", "gemma", model({P + "weight": I8, P + "weight_scale": F32S, P + "input_activation_scale": F32(0.1), P + "output_activation_scale": F32(0.1)},
    config("gemma", num_bits=8)), "is Gemma's quantised release")
INT = {"num_bits": 8, "type": "int", "strategy": "tensor", "dynamic": False}
add(18, "compressed-tensors with output_activations", "ct-output", model({P + "weight": I8, P + "weight_scale": F32S, P + "input_scale": F32([0.05]), P + "output_scale": F32([0.5])},
    config("compressed-tensors", config_groups={"g": {**LINEAR, "weights": {**INT, "strategy": "channel"}, "input_activations": INT, "output_activations": INT}})), "has output_activations")
# 19. Gaudi
SQUARE = tensor("F8_E4M3", CODES + CODES)
GAUDI = {P + "weight": SQUARE, P + "scale_weight": F32(0.5), P + "scale_input": F32(0.5)}
add(19, "Neural Compressor for Gaudi [K, N]", "gaudi", model(GAUDI, {"quantization_config": {"mode": "LOAD"}}), "Intel's Neural Compressor")
add(19, "the same file alone", "gaudi-file", model(GAUDI), "Intel's Neural Compressor", path=FILE)
add(19, "the same with quant_input in a module inside", "gaudi-module", model({P + "weight": SQUARE, P + "weight_scale": F32(0.5), P + "quant_input.scale_inv": F32(2.0)}),
    "quant_input.scale_inv': belongs to the quantised layer", path=FILE)
# 20-23
add(20, "AutoRound's own form", "auto-round", model(CHANNEL, config("auto-round", packing_format="auto_round:fp8")), "the own form of AutoRound")
add(20, "LightX2V nvfp4", "lightx2v", model({P + "weight": U8, P + "weight_scale": tensor("F8_E4M3", [[0x38]] * 4), P + "weight_global_scale": F32(2.0), P + "alpha": F32(0.5)}), "NVFP4 of LightX2V")
QKV = "model.layers.0.self_attn.qkv_proj."
add(21, "MiMo's fused qkv", "mimo", model({QKV + "weight": tensor("F8_E4M3", [[0x38] * 8] * 144), QKV + "weight_scale_inv": F32([[1.0]] * 12)},
    config("fp8", weight_block_size=[16, 128], activation_scheme="dynamic")), "in each of 4 parts of the rows", layer=QKV[:-1])
add(22, "TensorRT-LLM", "tensorrt-llm", {"rank0.safetensors": {P + "weight": fp8(), P + "weights_scaling_factor": F32([0.5]), P + "activation_scaling_factor": F32([0.5])},
    "config.json": {"architecture": "LlamaForCausalLM", "quantization": {"quant_algo": "FP8"}}}, "the form of TensorRT-LLM")
add(22, "the same file alone", "tensorrt-llm-file", {"rank0.safetensors": {P + "weight": fp8(), P + "weights_scaling_factor": F32([0.5])}}, "is a scale of a TensorRT-LLM checkpoint", path="rank0.safetensors")
add(23, "TransformerEngine", "transformer-engine", model({P + "weight": U8, P + "_extra_state": tensor("U8", [1, 2, 3])}), "is of TransformerEngine")
add(23, "sharded state of vLLM, SGLang", "sharded-state", model({P + "weight": fp8(), P + "weight_scale_inv": tensor("I32", [[0x7F7F7F7F]] * 4)}), "DeepGEMM's layout")
# 24. Forms of their own
for name, tensors, said in [
    ("eetq", {P + "weight": I8, P + "weight_scales": tensor("F16", [0.5] * 8)}, "written by EETQ"),
    ("hqq", {P + "W_q": U8, P + "scale": tensor("F16", [[0.5]] * 4), P + "zero": tensor("F16", [[8.0]] * 4)}, "a weight of HQQ"),
    ("aqlm", {P + "codes": tensor("I16", [[1, 2]] * 4), P + "codebooks": tensor("F16", [[0.5]]), P + "scales": tensor("F16", [[0.5]] * 4)}, "is a code of its own tool (AQLM"),
    ("exl3", {P + "trellis": tensor("I16", [[[1, 2]]]), P + "suh": tensor("F16", [1.0]), P + "svh": tensor("F16", [1.0])}, "is a trellis of EXL3"),
    ("higgs", {P + "weight": tensor("I16", [[1, 2]] * 4), P + "scales": tensor("F16", [[0.5]] * 4), P + "tables": tensor("F16", [[0.5]])}, "is of HIGGS"),
    ("marlin", {P + "B": tensor("I32", [[1, 2]]), P + "s": tensor("F16", [[0.5, 0.5]])}, "is a weight of Marlin"),
    ("bitnet", {P + "weight": U8, P + "weight_scale": tensor("BF16", [0.5])}, "whose scale divides"),
    ("unheard-of", {P + "my_codes": tensor("U8", CODES), P + "my_scale": F32S}, "is integers beside scales")]:
    add(24, name, name, model(tensors), said)
add(24, "VPTQ, which only config.json names", "vptq", model({P + "indices": tensor("I64", [[1, 2]] * 4)}, config("vptq")), "codebooks of VPTQ")
# 25. A file by itself
add(25, "one shard of DeepSeek-V3.1, config.json beside", "v31-shard", {
    "model-00001-of-00002.safetensors": {P + "weight": fp8(), P + "weight_scale_inv": F32(ONE)},
    "config.json": config("fp8", fmt="e4m3", scale_fmt="ue8m0", activation_scheme="dynamic", weight_block_size=[128, 128])},
    path="model-00001-of-00002.safetensors", w=scaled(values(CODES), ONE), how="e4m3-ue8m0")
add(25, "one shard of weight-only compressed-tensors", "weight-only-shard", {"model-00001-of-00002.safetensors": CHANNEL,
    "config.json": config("compressed-tensors", config_groups={"g": {**LINEAR, "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}})},
    path="model-00001-of-00002.safetensors", w=scaled(values(CODES), ROWS))
add(25, "a shard whose scale is in another", "split-shard", {"a.safetensors": {P + "weight": fp8()}, "model.safetensors.index.json": {"weight_map":
    {P + "weight": "a.safetensors", P + "weight_scale_inv": "b.safetensors"}}}, "By the index it is in b.safetensors", path="a.safetensors")
add(25, "a folder of which a shard is absent", "absent-shard", {"a.safetensors": {P + "weight": fp8()}, "model.safetensors.index.json": {"weight_map":
    {P + "weight": "a.safetensors", P + "weight_scale_inv": "b.safetensors"}}}, "1 of the 2 shards")

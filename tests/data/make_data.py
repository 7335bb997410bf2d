#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the small checkpoint folders of tests/data with the official `safetensors` library.

    pip install safetensors numpy ml_dtypes
    python3 make_data.py SOURCE OUT

SOURCE is a folder with `qwen3-0.6b-shaped-fp8/model.safetensors`: one decoder layer with the dimensions of Qwen3-0.6B,
fp8 weights in 128x128 blocks, bf16 scales, values heavy-tailed with outlier columns as trained weights are.
OUT gets three folders. The same SOURCE gives the same bytes: nothing is random but the norms, from a fixed seed.

Weights are cut, not made up: the top left corner of a layer keeps its codes, and of its scales the blocks that the
corner touches. Where a block is cut through, its scale stays the one of the whole block, as a partial edge block's is.
"""

import json
import pathlib
import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

FP8 = ml_dtypes.float8_e4m3fn
BF16 = ml_dtypes.bfloat16
BLOCK = 128
SEED = 20240607
DTYPES = {"F8_E4M3": FP8, "BF16": BF16, "F32": np.float32}

# layer of the decoder -> (N, K) of its cut. Hidden size 320 (2.5 blocks), 5 heads of 64 and 1 key-value head, so that
# N and K have partial blocks; the MLP is 448 wide (3.5 blocks).
TINY_QWEN3 = {
    "self_attn.q_proj": (320, 320),
    "self_attn.k_proj": (64, 320),
    "self_attn.v_proj": (64, 320),
    "self_attn.o_proj": (320, 320),
    "mlp.gate_proj": (448, 320),
    "mlp.up_proj": (448, 320),
    "mlp.down_proj": (320, 448),
}


def read(path):
    """The tensors of a safetensors file (numpy has no fp8, so not by safetensors.numpy.load_file)."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    data = raw[8 + length :]
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }


def blocks(size):
    return -(-size // BLOCK)


def cut(tensors, layer, n, k, row=0, col=0):
    """Codes and scales of an n x k piece of a layer that starts at block (row, col)."""
    name = f"model.layers.0.{layer}"
    weight = tensors[f"{name}.weight"][row * BLOCK :, col * BLOCK :][:n, :k]
    scale = tensors[f"{name}.weight_scale_inv"][row:, col:][: blocks(n), : blocks(k)]
    return np.ascontiguousarray(weight), np.ascontiguousarray(scale)


def save(folder, shards, config):
    """Writes config.json, the shards and their index, or model.safetensors where there is one shard."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if len(shards) == 1:
        save_file(shards[0], folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map.update({name: file for name in shard})
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def norm(rng, size):
    return (1 + 0.1 * rng.standard_normal(size)).astype(BF16)


def tiny_qwen3(tensors, folder):
    """Qwen3's form: weight_scale_inv in bf16, two shards, the scale of down_proj in another shard than its weight."""
    rng = np.random.default_rng(SEED)
    first, second = {}, {}
    embedding = np.ascontiguousarray(tensors["model.embed_tokens.weight"][:96, :320])
    first["model.embed_tokens.weight"] = embedding
    for layer, (n, k) in TINY_QWEN3.items():
        shard = first if layer.startswith("self_attn") else second
        weight, scale = cut(tensors, layer, n, k)
        shard[f"model.layers.0.{layer}.weight"] = weight
        other = first if layer == "mlp.down_proj" else shard
        other[f"model.layers.0.{layer}.weight_scale_inv"] = scale
    for name in ("input_layernorm", "post_attention_layernorm"):
        first[f"model.layers.0.{name}.weight"] = norm(rng, 320)
    for name in ("q_norm", "k_norm"):
        first[f"model.layers.0.self_attn.{name}.weight"] = norm(rng, 64)
    second["model.norm.weight"] = norm(rng, 320)
    second["lm_head.weight"] = np.ascontiguousarray(embedding[:, ::-1])
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "head_dim": 64,
        "hidden_size": 320,
        "intermediate_size": 448,
        "num_attention_heads": 5,
        "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 96,
        "quantization_config": {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "modules_to_not_convert": ["lm_head", "model.layers.0.input_layernorm"],
            "quant_method": "fp8",
            "weight_block_size": [BLOCK, BLOCK],
        },
    }
    save(folder, [first, second], config)


def tiny_compressed_tensors(tensors, folder):
    """llm-compressor's FP8_BLOCK form (weight_scale), and one layer per channel as its FP8_DYNAMIC writes it."""
    rng = np.random.default_rng(SEED + 1)
    model = {}
    for layer, (n, k) in {"self_attn.o_proj": (192, 256), "mlp.up_proj": (256, 192)}.items():
        weight, scale = cut(tensors, layer, n, k, row=1, col=1)
        model[f"model.layers.0.{layer}.weight"] = weight
        model[f"model.layers.0.{layer}.weight_scale"] = scale
    weight, scale = cut(tensors, "mlp.down_proj", 192, 256, row=2, col=2)
    values = weight.astype(np.float32) * np.repeat(np.repeat(scale.astype(np.float32), BLOCK, 0), BLOCK, 1)[:192, :256]
    channel = (np.abs(values).max(1, keepdims=True) / np.float32(448)).astype(np.float32)
    model["model.layers.0.mlp.down_proj.weight"] = (values / channel).astype(FP8)
    model["model.layers.0.mlp.down_proj.weight_scale"] = channel
    model["model.layers.0.input_layernorm.weight"] = norm(rng, 256)
    model["lm_head.weight"] = np.ascontiguousarray(tensors["model.embed_tokens.weight"][96:128, :256])
    weights = {"dynamic": False, "num_bits": 8, "symmetric": True, "type": "float"}
    inputs = {"dynamic": True, "num_bits": 8, "symmetric": True, "type": "float"}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "quantization_config": {
            "config_groups": {
                "group_0": {
                    "input_activations": inputs | {"strategy": "group", "group_size": BLOCK},
                    "targets": ["re:.*self_attn.*", "re:.*up_proj$"],
                    "weights": weights | {"strategy": "block", "block_structure": [BLOCK, BLOCK]},
                },
                "group_1": {
                    "input_activations": inputs | {"strategy": "token"},
                    "targets": ["re:.*down_proj$"],
                    "weights": weights | {"strategy": "channel"},
                },
            },
            "format": "float-quantized",
            "ignore": ["lm_head"],
            "quant_method": "compressed-tensors",
            "quantization_status": "compressed",
        },
    }
    save(folder, [model], config)


def tiny_deepseek(tensors, folder):
    """DeepSeek-V3.1's form: f32 scales that are powers of two, scale_fmt ue8m0; N and K shorter than a block too."""
    rng = np.random.default_rng(SEED + 2)
    model = {}
    for layer, source, n, k in (
        ("self_attn.kv_a_proj_with_mqa", "self_attn.k_proj", 144, 256),
        ("self_attn.q_a_proj", "self_attn.q_proj", 96, 256),
        ("mlp.down_proj", "mlp.down_proj", 256, 72),
    ):
        weight, scale = cut(tensors, source, n, k, row=3, col=3)
        model[f"model.layers.0.{layer}.weight"] = weight
        power = np.exp2(np.ceil(np.log2(scale.astype(np.float64)))).astype(np.float32)
        model[f"model.layers.0.{layer}.weight_scale_inv"] = power
    model["model.layers.0.mlp.gate.weight"] = np.ascontiguousarray(tensors["model.embed_tokens.weight"][:8, :256])
    model["model.layers.0.mlp.gate.e_score_correction_bias"] = rng.standard_normal(8).astype(np.float32)
    config = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "quantization_config": {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "quant_method": "fp8",
            "scale_fmt": "ue8m0",
            "weight_block_size": [BLOCK, BLOCK],
        },
    }
    save(folder, [model], config)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = map(pathlib.Path, sys.argv[1:])
    tensors = read(source / "qwen3-0.6b-shaped-fp8" / "model.safetensors")
    tiny_qwen3(tensors, out / "tiny-qwen3-fp8")
    tiny_compressed_tensors(tensors, out / "tiny-compressed-tensors")
    tiny_deepseek(tensors, out / "tiny-deepseek-fp8")


if __name__ == "__main__":
    main()

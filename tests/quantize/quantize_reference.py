#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ironcl quantize` against the published formulas, and its folders in the tools that read them.

    quantize_reference.py build/release/bin/ironcl [--work DIR]

Needs numpy and ml_dtypes; exits with 77 ("skipped"), saying so, where one is missing. For each scheme it checks

  codes, scales   every byte equals that of the formula, computed here with numpy; static scales of activations too
  back            `--scheme none` gives codes times scales, rounded to bf16
  packer          compressed-tensors' own compressor gives the same tensors (mxfp4, nvfp4, mxfp8, channel)
  torchao         its own quantisers do too (mxfp4, nvfp4, mxfp8), where it is installed
  loads           transformers loads the folder on a CPU, and the layers' weights equal codes times scales
  experts         so do a mixture of experts and a model with a tied head, of the schemes whose experts transformers reads

The last two where torch, transformers, accelerate and compressed-tensors are installed, too; else it says that they were skipped.
"""

import argparse
import importlib.util
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from checkpoint_file import write_shard

try:
    import ml_dtypes
    import numpy as np
except ImportError as missing:
    print(f"SKIPPED: {missing.name} is not installed; pip install numpy ml_dtypes")
    sys.exit(77)

F32, FP8, E5M2, BF16 = np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
TYPES = {"F32": F32, "BF16": BF16, "F8_E4M3": FP8, "F8_E5M2": E5M2, "I8": np.int8, "U8": np.uint8, "F8_E8M0": np.uint8}
LARGEST = {FP8: F32(448), E5M2: F32(57344), np.int8: F32(127)}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)

# scheme, options, folder's name; CALIBRATION stands for the file of recorded activations
CALIBRATION = "FILE"
RUNS = [
    ("block", [], "block"),
    ("block", ["--scale-type", "bf16"], "block-bf16"),
    ("block", ["--scale-type", "e8m0"], "block-e8m0"),
    ("block", ["--block", "32"], "block-32"),
    ("block", ["--block", "96"], "block-96"),  # partial blocks
    ("block", ["--type", "e5m2"], "block-e5m2"),
    ("block", ["--type", "int8"], "block-int8"),
    ("block", ["--dialect", "compressed-tensors"], "block-ct"),
    ("block", ["--dialect", "modelopt"], "block-modelopt"),
    ("channel", [], "channel"),
    ("channel", ["--type", "int8"], "channel-int8"),
    ("channel", ["--dialect", "modelopt"], "channel-modelopt"),
    ("tensor", [], "tensor"),
    ("tensor", ["--dialect", "fp8"], "tensor-fp8"),
    ("mxfp8", [], "mxfp8"),
    ("mxfp4", [], "mxfp4"),
    ("nvfp4", [], "nvfp4"),
    ("tensor", ["--calibration", CALIBRATION], "tensor-static"),
    ("tensor", ["--calibration", CALIBRATION, "--dialect", "fp8", "--clip", "percentile"], "tensor-fp8-static"),
    ("tensor", ["--calibration", CALIBRATION, "--dialect", "modelopt", "--clip", "mse"], "tensor-modelopt"),
    ("channel", ["--calibration", CALIBRATION, "--clip", "percentile:99"], "channel-static"),
    ("nvfp4", ["--calibration", CALIBRATION, "--clip", "mse"], "nvfp4-static"),
    ("nvfp4", ["--calibration", CALIBRATION, "--dialect", "modelopt"], "nvfp4-modelopt"),
]


def tensors_of(folder):
    result = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        data = file.read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, said in json.loads(data[8:start]).items():
            if name == "__metadata__":
                continue
            begin, end = (start + at for at in said["data_offsets"])
            result[name] = np.frombuffer(data[begin:end], TYPES[said["dtype"]]).reshape(said["shape"])
    return result


def blocks(x, rows, cols):
    """x [n, k] as [n / rows, k / cols, rows, cols], padded with zeros."""
    n, k = x.shape
    x = np.pad(x, ((0, -n % rows), (0, -k % cols)))
    return x.reshape(x.shape[0] // rows, rows, x.shape[1] // cols, cols).swapaxes(1, 2)


def unblock(x, n, k):
    return x.swapaxes(1, 2).reshape(x.shape[0] * x.shape[2], -1)[:n, :k]


def power_of_two_above(x):
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(1.0, exponent - (mantissa == 0.5)).astype(F32)


def to_fp4(x):
    """Nearest, ties to the even code."""
    borders = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], F32)
    magnitude = np.abs(x)[..., None]
    code = ((magnitude > borders) | ((magnitude == borders) & (np.arange(7) % 2 == 1))).sum(-1)
    return (code + 8 * np.signbit(x)).astype(np.uint8)


FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}


def fused_amax(source):
    """Engines make one matrix of some weights, which have one global scale then: the largest magnitude of all parts."""
    amax, whole = {}, {}
    for name, w in source.items():
        *prefix, last, _ = name.split(".")
        key = (*prefix, FUSED.get(last, last))
        whole[name] = key
        amax[key] = max(amax.get(key, F32(0)), np.abs(w.astype(F32)).max())
    return {name: amax[key] for name, key in whole.items()}


def formula(w, scheme, options, fused):
    """(codes, scales as stored, global scale or None, what the codes are multiplied by) of w [n, k] in f32."""
    n, k = w.shape
    option = dict(zip(options[::2], options[1::2]))
    code = {"e5m2": E5M2, "int8": np.int8}.get(option.get("--type"), FP8)
    if scheme in ("mxfp4", "nvfp4"):
        groups = blocks(w, 1, 32 if scheme == "mxfp4" else 16)
        amax = np.abs(groups).max((2, 3))
        if scheme == "mxfp4":  # floor(log2 amax) - 2, one more from 1.75 on
            mantissa, exponent = np.frexp(amax)
            exponent = np.where(amax == 0, -127, exponent - 1 + (2 * mantissa >= 1.75) - 2)
            stored, scale, whole = (exponent + 127).astype(np.uint8), np.exp2(exponent).astype(F32), None
        else:
            divides = option.get("--dialect") != "modelopt"
            if divides:
                whole = F32(448 * 6) * (F32(1) / fused)  # what PyTorch makes of 2688 / fused
                stored = whole * (amax / F32(6))
            else:
                whole = fused / F32(448 * 6)
                stored = (amax / F32(6)) / whole
            stored = stored.astype(FP8).astype(F32)
            stored = np.where(stored == 0, F32(0.125), stored).astype(FP8)
            scale = stored.astype(F32) / whole if divides else stored.astype(F32) * whole
        codes = unblock(to_fp4(groups / scale[:, :, None, None]), n, k)
        return codes[:, ::2] | codes[:, 1::2] << 4, stored, whole, scale
    rows, cols = {"channel": (1, k), "tensor": (n, k), "mxfp8": (1, 32)}.get(scheme, (128, 128))
    if "--block" in option:
        rows = cols = int(option["--block"])
    groups = blocks(w, rows, cols)
    scale = np.maximum(np.abs(groups).max((2, 3)), F32(1e-10)) / LARGEST[code]
    stored = scale
    if scheme == "mxfp8" or option.get("--scale-type") == "e8m0":
        scale = power_of_two_above(scale)
        stored = (np.log2(scale) + 127).astype(np.uint8)
    elif option.get("--scale-type") == "bf16":
        stored = scale.astype(BF16)
        scale = stored.astype(F32)
    q = np.clip(groups / scale[:, :, None, None], -LARGEST[code], LARGEST[code])
    return unblock(np.rint(q).astype(code) if code == np.int8 else q.astype(code), n, k), stored, None, scale


def raw(x):
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def check_formula(source, made, scheme, options):
    """How many codes and scales were compared; every one must be equal."""
    compared = 0
    fused = fused_amax(source)
    for name, w in source.items():
        module = name.removesuffix(".weight")
        found = [made.get(f"{module}.{leaf}") for leaf in ("weight_packed", "weight")]
        got = found[0] if found[0] is not None else found[1]
        if got is None:
            raise SystemExit(f"{name} is not in the result")
        if got.dtype == w.dtype:
            assert np.array_equal(raw(got), raw(w)), f"{name} was to stay"
            continue
        codes, scales, whole, _ = formula(w.astype(F32), scheme, options, fused[name])
        got_scale = next(made[f"{module}.{leaf}"] for leaf in ("weight_scale_inv", "weight_scale") if f"{module}.{leaf}" in made)
        for what, want, have in (("codes", codes, got), ("scales", scales, got_scale)):
            differ = np.flatnonzero(raw(want) != raw(have))
            if differ.size:
                at = differ[0]
                raise SystemExit(f"{scheme} {options}: {name}: {differ.size} of {raw(want).size} bytes of {what} differ, the "
                                 f"first at {at}: {raw(have)[at]}, by the formula {raw(want)[at]}")
            compared += raw(want).size
        if whole is not None:
            leaf = "weight_scale_2" if "modelopt" in options else "weight_global_scale"
            assert made[f"{module}.{leaf}"].reshape(()) == whole, name
    return compared


def clip_of(x, rule, code):
    """The largest magnitude that counts, by the rule."""
    magnitudes = np.sort(np.abs(x.astype(F32)).ravel())
    if rule.startswith("percentile"):
        percent = float(rule.partition(":")[2] or 99.9)
        return magnitudes[int(np.ceil(magnitudes.size * percent / 100)) - 1]
    best, least = magnitudes[-1], np.inf
    for step in range(100, 20, -1) if rule == "mse" else ():
        clip = magnitudes[-1] * F32(step) / F32(100)
        scale = clip / (F32(6) if code == "e2m1" else F32(448))
        scaled = magnitudes / scale
        codes = E2M1[to_fp4(scaled)] if code == "e2m1" else np.minimum(scaled, F32(448)).astype(FP8).astype(F32)
        error = ((codes.astype(np.float64) * scale - magnitudes) ** 2).sum()
        if error < least:
            best, least = clip, error
    return best


def check_inputs(activations, made, scheme, options):
    """The static scales of the activations."""
    option = dict(zip(options[::2], options[1::2]))
    dialect = option.get("--dialect", "compressed-tensors")
    for module, x in activations.items():
        clip = clip_of(x, option.get("--clip", "amax"), "e2m1" if scheme == "nvfp4" else "e4m3")
        leaf, want = {"fp8": "activation_scale"}.get(dialect, "input_scale"), clip / F32(448)
        if scheme == "nvfp4":
            want = clip / F32(2688)
            if dialect == "compressed-tensors":
                leaf, want = "input_global_scale", F32(2688) / clip
        have = made[f"{module}.{leaf}"]
        assert have.shape == ((1,) if dialect == "compressed-tensors" else ()), have.shape
        assert have.reshape(()) == want, f"{module}.{leaf} is {have}, by the rule {want}"


def check_packer(source, made, scheme, options):
    """compressed-tensors' own formulas and packer, on weights of f32, where it has the scheme: bytes that differ, and
    all. Left out are groups that are meant to differ: all zeros (its scale is an epsilon), and of mxfp8 those whose amax
    is 1.75 times a power of two, which e4m3 holds at the smaller scale. Its int8 scale is amax / 127.5, ours amax / 127.
    """
    import torch
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    preset = {"nvfp4": "NVFP4A16", "mxfp4": "MXFP4A16", "mxfp8": "MXFP8A16", "channel": "FP8_DYNAMIC"}.get(scheme)
    if preset is None or options:
        return None
    how = preset_name_to_scheme(preset, ["Linear"])
    args, differences, total = how.weights, 0, 0
    packer = BaseCompressor.get_value_from_registry(
        {"nvfp4": "nvfp4-pack-quantized", "mxfp4": "mxfp4-pack-quantized", "mxfp8": "mxfp8-quantized",
         "channel": "float-quantized"}[scheme])
    fused = fused_amax(source)
    for name, w in source.items():
        module = name.removesuffix(".weight")
        if f"{module}.weight_scale" not in made:
            continue
        w = torch.from_numpy(w.astype(F32))
        state = {"weight": w.clone()}
        if scheme == "nvfp4":
            amax = torch.tensor(fused[name])
            state["weight_global_scale"] = generate_gparam(-amax, amax)
        width = args.group_size or w.shape[1]
        groups = w.reshape(w.shape[0], -1, width)
        amax = groups.abs().amax(-1)
        meant = amax == 0
        if scheme == "mxfp8":
            meant |= torch.frexp(amax)[0] == 1.75 / 2
        state["weight_scale"], _ = calculate_qparams(groups.amin(-1), groups.amax(-1), args,
                                                     global_scale=state.get("weight_global_scale"))
        for leaf, tensor in packer.compress(state, how).items():
            have = made[f"{module}.{leaf}"]
            assert have.shape == tuple(tensor.shape), (name, leaf, have.shape, tensor.shape)
            differ = tensor.contiguous().reshape(-1).view(torch.uint8) != torch.from_numpy(raw(have).copy())
            if leaf != "weight_global_scale":
                differ = differ.reshape(*meant.shape, -1)[~meant]
            differences += differ.sum().item()
            total += differ.numel()
    return differences, total


def check_torchao(source, made, scheme):
    """torchao's own quantisers, on weights of f32: bytes that differ, and all. It multiplies values by the reciprocal of
    NVFP4's scale, which may take a code on a border to its neighbour, and has no scale of it below 2^-6; left out are
    groups of zeros, which have other scales.
    """
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

    differences, total, fused = 0, 0, fused_amax(source)
    for name, w in source.items():
        module = name.removesuffix(".weight")
        if f"{module}.weight_scale" not in made:
            continue
        w = torch.from_numpy(w.astype(F32))
        leaf = "weight" if f"{module}.weight" in made else "weight_packed"
        if scheme == "nvfp4":
            scales, codes = nvfp4_quantize(w, per_tensor_scale=per_tensor_amax_to_scale(torch.tensor(fused[name])))
        elif scheme == "mxfp4":
            scales, codes = to_mx(w, torch.float4_e2m1fn_x2, 32, ScaleCalculationMode.EVEN)
        else:
            scales, codes = to_mx(w, torch.float8_e4m3fn, 32, ScaleCalculationMode.RCEIL)
        want_scales, want = (raw(x.contiguous().view(torch.uint8).numpy()) for x in (scales, codes))
        have_scales, have = raw(made[f"{module}.weight_scale"]), raw(made[f"{module}.{leaf}"])
        groups = np.abs(w.numpy().reshape(len(have_scales), -1)).max(1)
        meant = (groups == 0) | ((have_scales < 0x08) if scheme == "nvfp4" else False)
        differ = [(want_scales != have_scales)[~meant], (want != have).reshape(len(have_scales), -1)[~meant]]
        differences += sum(np.count_nonzero(one) for one in differ)
        total += sum(one.size for one in differ)
        if scheme == "nvfp4":
            near = np.abs(np.stack((want & 7, want >> 4 & 7)).astype(int) - np.stack((have & 7, have >> 4 & 7)))
            assert near.reshape(2, len(have_scales), -1)[:, ~meant].max() <= 1, f"{name}: codes differ by more than a step"
    return differences, total


def make_model(folder):
    """A small Qwen3 in two shards, with heavy-tailed weights, a row of zeros and one huge value; its matrices."""
    generator, hidden, width, layers = np.random.default_rng(5), 256, 384, 2
    matrices = {"model.embed_tokens": (64, hidden), "lm_head": (64, hidden)}
    norms = {"model.norm": hidden}
    for i in range(layers):
        base = f"model.layers.{i}."
        for name, shape in (("self_attn.q_proj", (256, hidden)), ("self_attn.k_proj", (128, hidden)), ("self_attn.v_proj", (128, hidden)),
                            ("self_attn.o_proj", (hidden, 256)), ("mlp.gate_proj", (width, hidden)), ("mlp.up_proj", (width, hidden)),
                            ("mlp.down_proj", (hidden, width))):
            matrices[base + name] = shape
        norms |= {base + "input_layernorm": hidden, base + "post_attention_layernorm": hidden, base + "self_attn.q_norm": 64,
                  base + "self_attn.k_norm": 64}
    tensors = {name + ".weight": (generator.standard_t(4, shape) * 0.05).astype(BF16) for name, shape in matrices.items()}
    tensors["model.layers.0.mlp.up_proj.weight"][3] = 0
    tensors["model.layers.0.mlp.down_proj.weight"][5, 7] = 300
    result = dict(tensors)
    tensors |= {name + ".weight": np.ones(size, BF16) for name, size in norms.items()}
    save(folder, tensors, "BF16")
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 64, "hidden_size": hidden, "intermediate_size": width,
        "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": False,
        "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "dtype": "bfloat16"}))
    (folder / "tokenizer.json").write_text("{}")
    return result


def make_activations(path, source):
    """Recorded inputs of the layers, in two tensors each; a value in two hundred is an outlier."""
    generator, tensors, activations = np.random.default_rng(6), {}, {}
    for name, w in source.items():
        if "layers" not in name:
            continue
        x = generator.standard_t(4, (24, w.shape[1])) * np.where(generator.random((24, 1)) < 0.1, 8, 1)
        module, x = name.removesuffix(".weight"), x.astype(BF16)
        activations[module] = x
        for part, rows in enumerate((x[:8], x[8:])):
            tensors[f"{module}.input.{part}"] = ("BF16", list(rows.shape), rows.tobytes())
    write_shard(path, tensors)
    return activations


def save(folder, tensors, dtype):
    folder.mkdir(parents=True, exist_ok=True)
    index, half = {}, len(tensors) // 2
    for shard, names in enumerate((list(tensors)[:half], list(tensors)[half:])):
        name = f"model-{shard + 1:05}-of-00002.safetensors"
        write_shard(folder / name, {n: (dtype, list(tensors[n].shape), tensors[n].tobytes()) for n in names})
        index |= dict.fromkeys(names, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def meanings(source, scheme, options):
    """What the codes of each quantised weight stand for, in f64."""
    fused = fused_amax(source)
    for name, w in source.items():
        if any(part in name for part in ("embed", "lm_head")):
            continue
        codes, stored, whole, scale = formula(w.astype(F32), scheme, options, fused[name])
        n, k = w.shape
        if scheme in ("mxfp4", "nvfp4"):
            both = np.stack((codes & 15, codes >> 4), -1).reshape(n, k)
            values = np.where(both >= 8, -E2M1[both & 7], E2M1[both & 7])
        else:
            values = codes.astype(F32)
        scale = scale.astype(np.float64)
        if whole is not None:  # not rounded to f32 in between
            whole = np.float64(whole)
            scale = stored.astype(np.float64) * (whole if "modelopt" in options else 1 / whole)
        rows, cols = -(-n // scale.shape[0]), -(-k // scale.shape[1])
        if "--block" in options:
            rows = cols = int(options[options.index("--block") + 1])
        elif scheme == "block":
            rows = cols = 128
        yield name, values.astype(np.float64) * scale.repeat(rows, 0)[:n].repeat(cols, 1)[:, :k]


def check_back(ironcl, folder, source, scheme, options):
    """The folder made bf16 again."""
    back = folder.with_name(folder.name + "-back")
    subprocess.run([ironcl, "quantize", folder, back, "--scheme", "none"], check=True, capture_output=True)
    made = tensors_of(back)
    for name, want in meanings(source, scheme, options):
        differ = np.count_nonzero(made[name] != want.astype(F32).astype(BF16))
        assert differ == 0, f"{name}: {differ} values of bf16 are not codes times scales"
    assert len(made) == len(tensors_of(folder.parent / "bf16")), sorted(made)


def check_loads(folder, source, scheme, options):
    """Loads with transformers on a CPU; the weights that it computes with."""
    import torch
    from transformers import AutoModelForCausalLM, FineGrainedFP8Config

    how = json.loads((folder / "config.json").read_text())["quantization_config"]
    if how["quant_method"] not in ("fp8", "compressed-tensors") or "e5m2" in options:
        return "not a method of transformers"
    if "96" in options:
        return "transformers loads whole blocks only"
    extra = {}
    if how["quant_method"] == "fp8":  # on a CPU transformers computes with what the codes stand for
        extra["quantization_config"] = FineGrainedFP8Config(dequantize=True)
    elif how["quant_method"] == "compressed-tensors":
        from transformers import CompressedTensorsConfig

        extra["quantization_config"] = CompressedTensorsConfig(run_compressed=False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **extra)
    state, worst = model.state_dict(), 0.0
    for name, want in meanings(source, scheme, options):
        got = state[name].float().numpy()
        worst = max(worst, (np.abs(got - want) / (np.abs(want).max() / 256)).max())
    assert worst <= 1.01, f"{folder.name}: weights in transformers differ from codes times scales: {worst} of a step of bf16"
    ids = torch.arange(16)[None]
    assert torch.isfinite(model(ids).logits).all()
    return f"loads, weights within {worst:.2f} of a step of bf16"


def check_experts(ironcl, work):
    """Random models of transformers that it loads again after quantising: the least signal-to-noise ratio of a weight.

    Of experts in compressed-tensors' dialect transformers 5.24 leaves out the global scale (nvfp4), and fails where a
    scale is for less than a row (mxfp8, block) and over int8.
    """
    import torch
    from transformers import (AutoModelForCausalLM, CompressedTensorsConfig, FineGrainedFP8Config, Qwen3Config, Qwen3ForCausalLM,
                              Qwen3MoeConfig, Qwen3MoeForCausalLM)

    sizes = {"vocab_size": 64, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 64}
    torch.manual_seed(2)
    models = {
        "experts": (Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2)),
                    {"block": 28, "channel": 28, "tensor": 28, "mxfp4": 16}),
        "tied": (Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True)), {"block": 28, "channel": 28, "nvfp4": 19}),
    }
    for name, (model, schemes) in models.items():
        model.to(torch.bfloat16).save_pretrained(work / name)
        for scheme, least in schemes.items():
            out = work / f"{name}-{scheme}"
            subprocess.run([ironcl, "quantize", work / name, out, "--scheme", scheme], check=True, capture_output=True)
            how = FineGrainedFP8Config(dequantize=True) if scheme == "block" else CompressedTensorsConfig(run_compressed=False)
            loaded, told = AutoModelForCausalLM.from_pretrained(out, dtype=torch.bfloat16, quantization_config=how,
                                                                output_loading_info=True)
            assert not any(told.values()), told
            have, snr = loaded.state_dict(), np.inf
            for key, want in model.state_dict().items():
                noise = (have[key].double() - want.double()).square().sum().item()
                if noise > 0:
                    snr = min(snr, 10 * np.log10(want.double().square().sum().item() / noise))
            assert least < snr < np.inf, (name, scheme, snr)
            print(f"{name + '-' + scheme:18} loads, its least weight has {snr:.1f} dB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    tools = True
    try:
        import accelerate  # noqa: F401
        import compressed_tensors  # noqa: F401
        import torch  # noqa: F401
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
    except ImportError as missing:
        print(f"SKIPPED: compressed-tensors' packer, and loading by transformers: {missing.name} is not installed")
        tools = False
    torchao = tools and importlib.util.find_spec("torchao") is not None
    if tools and not torchao:
        print("SKIPPED: torchao's quantisers: it is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        work = args.work or Path(scratch)
        source = make_model(work / "bf16")
        activations = make_activations(work / "activations.safetensors", source)
        # compressed-tensors computes scales in the weight's own type: compared on weights of f32
        plain = work / "f32"
        save(plain, {name: tensor.astype(F32) for name, tensor in source.items()}, "F32")
        failed = 0
        for scheme, options, name in RUNS:
            out = work / name
            options = [str(work / "activations.safetensors") if one == CALIBRATION else one for one in options]
            done = subprocess.run([args.ironcl, "quantize", work / "bf16", out, "--scheme", scheme, *options],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{name:18} FAILED: {done.stderr.strip()}")
                failed += 1
                continue
            try:
                made = tensors_of(out)
                compared = check_formula(source, made, scheme, options)
                text = f"{compared} bytes of codes and scales equal"
                if "--calibration" in options:
                    check_inputs(activations, made, scheme, options)
                    text += ", static scales too"
                check_back(args.ironcl, out, source, scheme, options)
                if not tools:
                    print(f"{name:18} {text}")
                    continue
                subprocess.run([args.ironcl, "quantize", plain, work / (name + "-f32"), "--scheme", scheme, *options],
                               check=True, capture_output=True)
                packed = check_packer(source, tensors_of(work / (name + "-f32")), scheme, options)
                if packed is not None:
                    text += f"; {packed[0]} of {packed[1]} differ from compressed-tensors' packer"
                    assert packed[0] == 0, text
                if torchao and name in ("mxfp8", "mxfp4", "nvfp4-modelopt"):
                    packed = check_torchao(source, tensors_of(work / (name + "-f32")), scheme)
                    text += f"; {packed[0]} of {packed[1]} differ from torchao's quantiser"
                    assert packed[0] <= (packed[1] // 1000 if scheme == "nvfp4" else 0), text
                text += "; " + check_loads(out, source, scheme, options)
                print(f"{name:18} {text}")
            except (SystemExit, AssertionError, Exception) as error:  # noqa: BLE001
                print(f"{name:18} FAILED: {type(error).__name__} {error}")
                failed += 1
        if tools:
            check_experts(args.ironcl, work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

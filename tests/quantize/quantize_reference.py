#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ironcl quantize` against the published formulas, and its folders in the tools that read them.

    quantize_reference.py build/release/bin/ironcl [--work DIR] [--kill N]

Needs torch, safetensors, transformers and compressed-tensors; exits with 77 ("skipped"), saying so, where one is
missing. For each scheme it checks

  codes, scales   every byte equals that of the formula, computed here with torch
  packer          compressed-tensors' own compressor gives the same tensors (mxfp4, nvfp4, channel, tensor)
  loads           transformers loads the folder on a CPU, and the layers' weights equal codes times scales
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as missing:
    print(f"SKIPPED: {missing.name} is not installed; pip install torch safetensors transformers compressed-tensors")
    sys.exit(77)

FP8 = torch.float8_e4m3fn
LARGEST = {FP8: 448.0, torch.float8_e5m2: 57344.0, torch.int8: 127.0}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])

# scheme, options, folder's name
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
]


def tensors_of(folder):
    result = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():
                result[name] = opened.get_tensor(name)
    return result


def blocks(x, rows, cols):
    """x [n, k] as [n / rows, k / cols, rows, cols], padded with zeros."""
    n, k = x.shape
    x = torch.nn.functional.pad(x, (0, -k % cols, 0, -n % rows))
    return x.reshape(x.shape[0] // rows, rows, x.shape[1] // cols, cols).transpose(1, 2)


def unblock(x, n, k):
    return x.transpose(1, 2).reshape(x.shape[0] * x.shape[2], -1)[:n, :k]


def power_of_two_above(x):
    mantissa, exponent = torch.frexp(x.double())
    return torch.ldexp(torch.ones_like(mantissa), exponent - (mantissa == 0.5).int()).float()


def to_fp4(x):
    """Nearest, ties to the even code."""
    borders = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    magnitude = x.abs().unsqueeze(-1)
    code = ((magnitude > borders) | ((magnitude == borders) & (torch.arange(7) % 2 == 1))).sum(-1)
    return (code + 8 * torch.signbit(x)).to(torch.uint8)


FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}


def fused_amax(source):
    """Engines make one matrix of some weights, which have one global scale then: the largest magnitude of all parts."""
    amax, whole = {}, {}
    for name, w in source.items():
        *prefix, last, _ = name.split(".")
        key = (*prefix, FUSED.get(last, last))
        whole[name] = key
        amax[key] = torch.maximum(amax.get(key, torch.tensor(0.0)), w.float().abs().amax())
    return {name: amax[key] for name, key in whole.items()}


def formula(w, scheme, options, fused):
    """(codes, scales as stored, global scale or None, what the codes are multiplied by) of w [n, k] in f32."""
    n, k = w.shape
    option = dict(zip(options[::2], options[1::2]))
    code = {"e5m2": torch.float8_e5m2, "int8": torch.int8}.get(option.get("--type"), FP8)
    if scheme in ("mxfp4", "nvfp4"):
        groups = blocks(w, 1, 32 if scheme == "mxfp4" else 16)
        amax = groups.abs().amax((2, 3))
        if scheme == "mxfp4":  # floor(log2 amax) - 2, one more from 1.75 on
            mantissa, exponent = torch.frexp(amax)
            exponent = exponent - 1 + (2 * mantissa >= 1.75).int() - 2
            exponent = torch.where(amax == 0, -127, exponent)
            stored, scale, whole = (exponent + 127).to(torch.uint8), torch.exp2(exponent.float()), None
        else:
            whole = 448.0 * 6.0 * fused.reciprocal()  # what PyTorch makes of 2688 / fused
            stored = (whole * (amax / 6.0)).to(FP8)
            stored = torch.where(stored.float() == 0, torch.tensor(0.125), stored.float()).to(FP8)
            scale = stored.float() / whole
        codes = unblock(to_fp4(groups / scale[:, :, None, None]), n, k)
        return codes[:, ::2] | codes[:, 1::2] << 4, stored, whole, scale
    rows, cols = {"channel": (1, k), "tensor": (n, k), "mxfp8": (1, 32)}.get(scheme, (128, 128))
    if "--block" in option:
        rows = cols = int(option["--block"])
    groups = blocks(w, rows, cols)
    scale = groups.abs().amax((2, 3)).clamp(min=1e-10) / LARGEST[code]
    stored = scale
    if scheme == "mxfp8" or option.get("--scale-type") == "e8m0":
        scale = power_of_two_above(scale)
        stored = (torch.log2(scale) + 127).to(torch.uint8)
    elif option.get("--scale-type") == "bf16":
        stored = scale.to(torch.bfloat16)
        scale = stored.float()
    q = (groups / scale[:, :, None, None]).clamp(-LARGEST[code], LARGEST[code])
    q = q.round().to(code) if code == torch.int8 else q.to(code)
    return unblock(q.view(torch.uint8), n, k).view(code), stored, None, scale


def raw(x):
    return x.contiguous().reshape(-1).view(torch.uint8)


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
            assert torch.equal(raw(got), raw(w)), f"{name} was to stay"
            continue
        codes, scales, whole, _ = formula(w.float(), scheme, options, fused[name])
        got_scale = next(made[f"{module}.{leaf}"] for leaf in ("weight_scale_inv", "weight_scale") if f"{module}.{leaf}" in made)
        for what, want, have in (("codes", codes, got), ("scales", scales, got_scale)):
            differ = (raw(want) != raw(have)).nonzero()
            if differ.numel():
                at = differ[0].item()
                raise SystemExit(f"{scheme} {options}: {name}: {len(differ)} of {raw(want).numel()} bytes of {what} differ, the "
                                 f"first at {at}: {raw(have)[at].item()}, by the formula {raw(want)[at].item()}")
            compared += raw(want).numel()
        if whole is not None:
            assert torch.equal(made[f"{module}.weight_global_scale"], whole.reshape(1)), name
    return compared


def check_packer(source, made, scheme, options):
    """compressed-tensors' own formulas and packer, on weights of f32, where it has the scheme: bytes that differ, and
    all. Left out are groups that are meant to differ: all zeros (its scale is an epsilon), and of mxfp8 those whose amax
    is 1.75 times a power of two, which e4m3 holds at the smaller scale. Its int8 scale is amax / 127.5, ours amax / 127.
    """
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
        w = w.float()
        state = {"weight": w.clone()}
        if scheme == "nvfp4":
            state["weight_global_scale"] = generate_gparam(-fused[name], fused[name])
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
            assert (have.shape, have.dtype) == (tensor.shape, tensor.dtype), (name, leaf, have.shape, have.dtype, tensor.dtype)
            differ = raw(tensor) != raw(have)
            if leaf != "weight_global_scale":
                differ = differ.reshape(*meant.shape, -1)[~meant]
            differences += differ.sum().item()
            total += differ.numel()
    return differences, total


def make_model(folder):
    """A small Qwen3 in several shards, with heavy-tailed weights, a row of zeros and one huge value."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(5)
    config = Qwen3Config(vocab_size=64, hidden_size=256, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=64, tie_word_embeddings=False, max_position_embeddings=64)
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    heavy = torch.distributions.StudentT(4.0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.copy_(heavy.sample(parameter.shape) * 0.05)
        model.model.layers[0].mlp.up_proj.weight[3] = 0
        model.model.layers[0].mlp.down_proj.weight[5, 7] = 300
    model.save_pretrained(folder, max_shard_size="700KB")
    (folder / "tokenizer.json").write_text("{}")
    return {name: tensor for name, tensor in tensors_of(folder).items() if tensor.dim() == 2}


def check_loads(folder, source, scheme, options):
    """Loads with transformers on a CPU; the weights that it computes with."""
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
    state, worst, fused = model.state_dict(), 0.0, fused_amax(source)
    for name, w in source.items():
        got = state[name].float()
        codes, _, whole, scale = formula(w.float(), scheme, options, fused[name])
        if any(part in name for part in ("embed", "lm_head")):
            continue
        n, k = w.shape
        if scheme in ("mxfp4", "nvfp4"):
            both = torch.stack((codes & 15, codes >> 4), -1).reshape(n, k).long()
            values = torch.where(both >= 8, -E2M1[both & 7], E2M1[both & 7])
        else:
            values = codes.float()
        rows, cols = -(-n // scale.shape[0]), -(-k // scale.shape[1])
        if "--block" in options:
            rows = cols = int(options[options.index("--block") + 1])
        elif scheme == "block":
            rows = cols = 128
        want = values * scale.repeat_interleave(rows, 0)[:n].repeat_interleave(cols, 1)[:, :k]
        worst = max(worst, ((got - want).abs() / (want.abs().amax() / 256)).max().item())
    assert worst <= 1.01, f"{folder.name}: weights in transformers differ from codes times scales: {worst} of a step of bf16"
    ids = torch.arange(16)[None]
    assert torch.isfinite(model(ids).logits).all()
    return f"loads, weights within {worst:.2f} of a step of bf16"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    try:
        import compressed_tensors  # noqa: F401
        import transformers
    except ImportError as missing:
        print(f"SKIPPED: {missing.name} is not installed")
        return 77
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        work = args.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        source = make_model(work / "bf16")
        # compressed-tensors computes scales in the weight's own type: compared on weights of f32
        plain = work / "f32"
        plain.mkdir(exist_ok=True)
        save_file({name: tensor.float().contiguous() for name, tensor in source.items()}, plain / "model.safetensors")
        failed = 0
        for scheme, options, name in RUNS:
            out = work / name
            done = subprocess.run([args.ironcl, "quantize", work / "bf16", out, "--scheme", scheme, *options],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{name:18} FAILED: {done.stderr.strip()}")
                failed += 1
                continue
            try:
                compared = check_formula(source, tensors_of(out), scheme, options)
                text = f"{compared} bytes of codes and scales equal"
                subprocess.run([args.ironcl, "quantize", plain, work / (name + "-f32"), "--scheme", scheme, *options],
                               check=True, capture_output=True)
                packed = check_packer(source, tensors_of(work / (name + "-f32")), scheme, options)
                if packed is not None:
                    text += f"; {packed[0]} of {packed[1]} differ from compressed-tensors' packer"
                    assert packed[0] == 0, text
                text += "; " + check_loads(out, source, scheme, options)
                print(f"{name:18} {text}")
            except (SystemExit, AssertionError, Exception) as error:  # noqa: BLE001
                print(f"{name:18} FAILED: {type(error).__name__} {error}")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What a layer's product must be, by torch in float64 from the bytes that are stored.

Nothing here comes from IronCL: codes and scales are read with the safetensors library, activations are quantised with torch's
own casts, and the product is a float64 matmul.
"""

import glob
import json
import os

import torch
from safetensors import safe_open

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0, torch.int8: 127.0}


def read_tensors(folder):
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                tensors[name] = file.get_tensor(name)
    return tensors


def spread(scale, block, rows, cols):
    """Scales of blocks as a float64 matrix [rows, cols]. block is (rows, cols) of a block; 0 is the whole dimension."""
    if scale.dtype == torch.uint8:  # exponents of MX
        scale = torch.pow(torch.tensor(2.0, dtype=torch.float64), scale.double() - 127.0)
    scale = scale.double()
    if scale.numel() == 1:
        return scale.reshape(1, 1).expand(rows, cols)
    block_rows, block_cols = block[0] or rows, block[1] or cols
    grid = scale.reshape(-(-rows // block_rows), -(-cols // block_cols))
    grid = grid.repeat_interleave(block_rows, 0)[:rows]
    return grid.repeat_interleave(block_cols, 1)[:, :cols]


def quantized_activations(x, weight_dtype, how, input_scale):
    """x [M, K] as float64 after the scheme `how` has quantised it."""
    if how["activations"] == "none":
        return x.double()
    dtype = torch.int8 if weight_dtype == torch.int8 else torch.float8_e4m3fn
    largest = LARGEST[dtype]
    x = x.float()
    rows, cols = x.shape
    if how["activations"] == "static":
        scale = input_scale.float().reshape(1, 1).expand(rows, cols)
    else:
        block_rows, block_cols = how["activation_block"][0] or rows, how["activation_block"][1] or cols
        scale = torch.empty_like(x)
        for r in range(0, rows, block_rows):
            for c in range(0, cols, block_cols):
                part = x[r : r + block_rows, c : c + block_cols]
                s = part.abs().max().clamp(min=1e-10) / largest
                if how.get("power_of_two"):
                    s = torch.exp2(torch.ceil(torch.log2(s)))
                scale[r : r + block_rows, c : c + block_cols] = s
    codes = (x / scale).clamp(-largest, largest)
    codes = codes.round().to(dtype) if dtype == torch.int8 else codes.to(dtype)
    return codes.double() * scale.double()


def products(folder, how, layers, seed=11):
    """For each layer (name, weight, scale, input scale or None, bias or None: tensors) its x, bf16, and y, float64."""
    generator = torch.Generator().manual_seed(seed)
    result = {}
    for index, (name, weight, scale, input_scale, bias) in enumerate(layers):
        n, k = weight.shape
        x = torch.randn(5, k, generator=generator) * torch.exp(0.7 * torch.randn(5, k, generator=generator))
        x = x.to(torch.bfloat16)
        w = weight.double() * spread(scale, how["block"], n, k)
        y = quantized_activations(x, weight.dtype, how, input_scale) @ w.T
        if bias is not None:
            y = y + bias.double()
        result[f"x{index}"], result[f"y{index}"] = x, y.contiguous()
    return result


def four_bits(packed):
    """Two codes of e2m1 to a byte, the first in its lower half, as float32."""
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    return table[torch.stack((packed & 15, packed >> 4), -1).flatten(1).long()]


def unpacked(packed, shape):
    """compressed-tensors' I32 of four codes + 128 each as I8."""
    codes = (packed.contiguous().view(torch.uint8).to(torch.int16) - 128).to(torch.int8)
    return codes[:, : int(shape[1])].contiguous()


def layers_of(tensors, wanted=("q_proj", "down_proj", "experts.1.up_proj")):
    """Layers `<name>.weight` with `<name>.weight_scale(_inv)`, or in the words of torchao, quanto, ComfyUI, bitsandbytes and
    compressed-tensors' packed form; of fp8 weights without any scale it is 1."""
    found = []
    cast = not any("scale" in key or "SCB" in key for key in tensors)
    for key in sorted(tensors):
        for leaf, scales in (
            (".weight", ("weight_scale", "weight_scale_inv", "scale_weight", "SCB")),
            ("._weight_qdata", ("_weight_scale",)),
            (".weight._data", ("weight._scale",)),
            (".weight_packed", ("weight_scale",)),
        ):
            name, weight = key[: -len(leaf)], tensors[key]
            if not key.endswith(leaf) or not any(part in name for part in wanted):
                continue
            packed_four = weight.dtype == torch.uint8 and f"{name}.weight_scale" in tensors
            if packed_four:
                weight = four_bits(weight)
            elif leaf == ".weight_packed":
                weight = unpacked(weight, tensors[name + ".weight_shape"])
            if weight.dtype not in LARGEST and not packed_four:
                continue
            scale = next((tensors[f"{name}.{s}"] for s in scales if f"{name}.{s}" in tensors), torch.ones(()) if cast else None)
            if f"{name}.SCB" in tensors:
                scale = scale.double() / 127
            if f"{name}.weight_global_scale" in tensors:
                scale = scale.double() / tensors[f"{name}.weight_global_scale"].double()
            if f"{name}.weight_scale_2" in tensors:
                scale = scale.double() * tensors[f"{name}.weight_scale_2"].double()
            inputs = [f"{name}.{s}" for s in ("input_scale", "activation_scale", "scale_input") if f"{name}.{s}" in tensors]
            if scale is not None:
                found.append((name, weight, scale, tensors[inputs[0]] if inputs else None, tensors.get(f"{name}.bias")))
    return found


def stacked_layers(tensors, block):
    """Expert 1 of `experts.gate_up_proj` [E, N, K], and of weights that share stacked scales."""
    found = []
    for key in sorted(tensors):
        if not key.endswith("_scale_inv") or "experts." not in key or tensors[key].dim() != 3:
            continue
        base = key[: -len("_scale_inv")]
        prefix, projection = base.rsplit(".", 1)
        scale = tensors[key][1]
        inputs = tensors.get(base + "_activation_scale")
        inputs = inputs[1] if inputs is not None else None
        if base in tensors:
            found.append((f"{prefix}.1.{projection}", tensors[base][1], scale, inputs, None))
        elif projection == "gate_up_proj":
            for half, part in enumerate(("gate_proj", "up_proj")):
                weight = tensors[f"{prefix}.1.{part}.weight"]
                rows = weight.shape[0] // (block[0] or weight.shape[0])
                cut = scale if scale.numel() == 1 else scale[half * rows : (half + 1) * rows]
                found.append((f"{prefix}.1.{part}", weight, cut, inputs, None))
        else:
            found.append((f"{prefix}.1.{projection}", tensors[f"{prefix}.1.{projection}.weight"], scale, inputs, None))
    return found


def save(path, how, layers, folder):
    from safetensors.torch import save_file

    names = json.dumps([layer[0] for layer in layers])
    save_file(products(folder, how, layers), path, metadata={"layers": names, "how": json.dumps(how)})

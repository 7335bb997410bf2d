# SPDX-License-Identifier: Apache-2.0
"""Codes, scales and products in plain Python and float64: no torch, no numpy, nothing of IronCL.

A tensor is (dtype as safetensors names it, shape, bytes).
"""

import json
import struct


def _fp8(exponent_bits, bias, nan):
    """The value of each of the 256 codes; None for NaN and infinities."""
    mantissa_bits = 7 - exponent_bits
    values = []
    for code in range(256):
        exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
        mantissa = code & ((1 << mantissa_bits) - 1)
        fraction = mantissa / (1 << mantissa_bits)
        value = (1 + fraction) * 2.0 ** (exponent - bias) if exponent else fraction * 2.0 ** (1 - bias)
        values.append(None if nan(exponent, mantissa) else (-value if code & 0x80 else value))
    return values


E4M3 = _fp8(4, 7, lambda e, m: e == 15 and m == 7)
# e2m1: sign and magnitude.
E2M1 = [sign * m for sign in (1.0, -1.0) for m in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)]
E5M2 = _fp8(5, 15, lambda e, m: e == 31)


def nearest_e4m3(x):
    """The value of e4m3 nearest to x, ties to the even code, magnitudes up to 448."""
    sign, magnitude = (-1.0 if x < 0 else 1.0), min(abs(x), 448.0)
    return sign * E4M3[min((c for c in range(0x7F)), key=lambda c: (abs(E4M3[c] - magnitude), c & 1))]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def tensor(dtype, values):
    """From nested lists: numbers for floats and integers, codes (0..255) for F8_* and U8."""
    shape, flat = [], values
    while isinstance(flat, list):
        shape.append(len(flat))
        flat = flat[0]
    flat = values
    for _ in shape[1:]:
        flat = [v for part in flat for v in part]
    flat = flat if shape else [values]
    form = {"F32": "f", "F64": "d", "F16": "e", "I8": "b", "I16": "h", "I32": "i", "I64": "q", "U32": "I"}.get(dtype, "B")
    if dtype == "BF16":  # the values of these folders are exact in it
        return dtype, shape, b"".join(struct.pack("<f", v)[2:] for v in flat)
    return dtype, shape, struct.pack(f"<{len(flat)}{form}", *flat)


def save(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


# --- activations as a scheme quantises them, by name ---


def _scaled(row, scale, kind):
    if kind == "i8":
        return [max(-127, min(127, round(v / scale))) * scale for v in row]
    return [nearest_e4m3(f32(v / scale)) * scale for v in row]


def _power_of_two(scale):
    power = 2.0**-126
    while power < scale:
        power *= 2
    return power


def quantized(x, how):
    """how: none; i8, e4m3 (per token); e4m3-ue8m0; or (kind, scale) of a static scale."""
    if how == "none":
        return x
    if isinstance(how, tuple):
        return [_scaled(row, f32(how[1]), how[0]) for row in x]
    kind = how.split("-")[0]
    scales = [f32(max(abs(v) for v in row) / (127 if kind == "i8" else 448)) for row in x]
    if how.endswith("ue8m0"):
        scales = [_power_of_two(s) for s in scales]
    return [_scaled(row, s, kind) for row, s in zip(x, scales)]


def product(x, w, how, bias=None):
    rows = quantized(x, how)
    return [[sum(a * b for a, b in zip(row, column)) + (bias[n] if bias else 0.0) for n, column in enumerate(w)] for row in rows]

# SPDX-License-Identifier: Apache-2.0
"""How far a product may be from the exact one, element by element, computed by torch in float64.

The bound is that of docs/numerics.md: (G + ceil(K / G) + 3) 2^-24 times the sum of the products' magnitudes, and one rounding of
the result. The quantised activations are the Ironwood model's, the exact product is torch's: neither is what is checked.
"""
from __future__ import annotations

import math

import torch

from . import _linear

_ROUNDING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def _spread(values: torch.Tensor, scales: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    rows, cols = (size if side == 0 else side for size, side in zip(values.shape, block))
    scales = scales.double().reshape(_linear.scale_shape(*values.shape, block))
    spread = scales.repeat_interleave(rows, 0).repeat_interleave(cols, 1)[: values.shape[0], : values.shape[1]]
    return values.double() * spread


def _gated(values: torch.Tensor, errors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """silu(gate) * up of both halves, with what becomes of their errors and what float32 adds (docs/numerics.md)."""
    (gate, up), (gate_error, up_error) = values.chunk(2, 1), errors.chunk(2, 1)
    silu = gate * torch.sigmoid(gate)
    own = (6 * torch.sigmoid(-gate) + 11) * 2.0**-24 * (silu * up).abs() + 2.0**-120 * up.abs().clamp(min=1)
    through = 1.1 * gate_error * (up.abs() + up_error) + silu.abs() * up_error
    return silu * up, (1 + 2.0**-10) * (through + own)


def error_over_bound(layer: _linear.Linear, x: torch.Tensor, y: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor,
                     bias: torch.Tensor | None = None) -> float:
    """The largest error of ``y`` = ``layer(x)`` as a share of its element's bound; ``codes``, ``scales``: of one matrix. Where ``y`` has half
    of the layer's columns, it is silu(gate) * up."""
    rounding = _ROUNDING[y.dtype]
    x, y = x.reshape(-1, layer.in_features), y.reshape(-1, y.shape[-1]).double()
    if not len(x):
        return 0.0
    group = (1, layer.block[1])
    made, made_scales = _linear.quantize(x.contiguous(), block=group, dtype=layer.dtype, device="ironwood:0",
                                         scale_dtype="e8m0" if layer.power_of_two else "f32")
    a, w = _spread(made.float(), made_scales.float(), group), _spread(codes.float(), scales.float(), layer.block)
    exact, magnitude = a @ w.T, a.abs() @ w.abs().T
    if bias is not None:
        exact, magnitude = exact + bias.double(), magnitude + bias.double().abs()
    k = layer.in_features
    length = layer.block[1] or k
    bound = (min(length, k) + math.ceil(k / length) + 3) * 2.0**-24 * magnitude
    if y.shape[1] != layer.out_features:
        exact, bound = _gated(exact, bound)
    bound = bound + rounding * exact.abs()
    error = (y - exact).abs()
    ratio = torch.where(error == 0, 0.0, error / bound)
    return float("inf") if not torch.isfinite(y).all() else ratio.max().item()


# SPDX-License-Identifier: Apache-2.0
"""Layers of experts out of arrays. Next door: _checkpoint.py (those of a checkpoint, with their router)."""
from __future__ import annotations

from typing import Any

from . import _arrays as arrays
from ._linear import Linear


class Experts:
    """Experts ``down(silu(gate(x)) * up(x))`` on a device: two grouped products per call.

    Parameters
    ----------
    gate_up : array [experts, 2 * width, hidden], or [experts, width, hidden] twice in a pair (gate, up)
        Codes, as of ``ironcl.Linear``; the rows of gate come first.
    gate_up_scale : array, or a pair
    down : array [experts, hidden, width]
    down_scale : array
    options
        ``block``, ``dtype``, ``device``, ``accuracy``, ``weight_only`` and ``scale_rounding``, as of ``ironcl.Linear``.

    Examples
    --------
    >>> import numpy as np, ironcl
    >>> ones, scales = np.full((4, 256, 128), 0x38, np.uint8), np.full((4, 2, 1), 2.0**-7, np.float32)
    >>> experts = ironcl.Experts(ones, scales, ones[:, :128], scales[:, :1], dtype="e4m3fn", device="ironwood:0")
    >>> ids, weights = np.array([[0, 3], [1, 0]], np.int32), np.full((2, 2), 0.5, np.float32)
    >>> round(float(experts(np.ones((2, 128), np.float32), ids, weights)[0, 0]), 4)
    0.7311
    """

    def __init__(self, gate_up: Any, gate_up_scale: Any, down: Any, down_scale: Any, **options: Any) -> None:
        if "bias" in options:
            raise TypeError("experts have no bias")
        pair = isinstance(gate_up, (tuple, list))
        self._gate_up = [Linear(w, s, **options) for w, s in (zip(gate_up, gate_up_scale) if pair else [(gate_up, gate_up_scale)])]
        self._down = Linear(down, down_scale, **options)
        self.experts, self.hidden, self.width = self._down.matrices, self._down.out_features, self._down.in_features
        rows = sum(one.out_features for one in self._gate_up)
        if self.experts is None or any(one.matrices != self.experts or one.in_features != self.hidden for one in self._gate_up) or rows != 2 * self.width:
            shapes = [(one.matrices, one.out_features, one.in_features) for one in [*self._gate_up, self._down]]
            raise ValueError(f"gate_up and down have shapes {shapes}; expected [experts, 2 * width, hidden] and [experts, hidden, width]")

    @property
    def device(self) -> str:
        """The URI of the device."""
        return self._down.device

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared weights on the device."""
        return sum(one.nbytes for one in [*self._gate_up, self._down])

    def __call__(self, x: Any, ids: Any, weights: Any) -> Any:
        """``x`` [tokens, hidden] gives the same shape and type: of each token the sum over its ``ids`` [tokens, top_k] (int32), each
        times its ``weights`` (float32). Between the products, and in the sum, values are float32."""
        import numpy as np
        a = arrays.take(x, "x", ndim=2)
        i, w = arrays.take(ids, "ids", allowed=("s32",), ndim=2), arrays.take(weights, "weights", allowed=("f32",), ndim=2)
        if a.shape[1] != self.hidden:
            raise ValueError(f"x has shape {a.shape}; expected [tokens, {self.hidden}]")
        if i.shape[0] != a.shape[0] or w.shape != i.shape:
            raise ValueError(f"ids and weights have shapes {i.shape} and {w.shape}; expected ({a.shape[0]}, top_k) both")
        slots = np.asarray(i.owner).reshape(-1)
        if len(slots) and not 0 <= slots.min() <= slots.max() < self.experts:
            raise ValueError(f"ids has values from {slots.min()} to {slots.max()}; expected 0 to {self.experts - 1}")
        order = np.argsort(slots, kind="stable")
        rows = np.bincount(slots, minlength=self.experts).astype(np.int32)
        if not a.torch and not isinstance(a.owner, np.ndarray):
            raise TypeError(f"x is a {type(x).__name__}; expected an array of torch or numpy")
        gathered = a.owner[order // max(i.shape[1], 1)]
        both = [np.asarray(one(gathered, out_dtype="float32", rows=rows)) for one in self._gate_up]
        gate, up = both if len(both) == 2 else np.split(both[0], 2, axis=1)
        with np.errstate(over="ignore"):
            y = self._down(np.ascontiguousarray(gate / (1 + np.exp(-gate)) * up), rows=rows)
        of_slots = np.empty_like(y)
        of_slots[order] = y * np.asarray(w.owner).reshape(-1)[order, None]
        result = of_slots.reshape(*i.shape, self.hidden).sum(1)
        if a.torch:
            import torch
            return torch.from_numpy(result).to(arrays.torch_type(a.type))
        return result.astype(arrays._numpy_type(a.type))

    def __reduce__(self) -> Any:
        raise TypeError("an ironcl.Experts lives on a device and cannot be pickled or copied")

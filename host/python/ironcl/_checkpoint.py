# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on disk: which quantised layers there are, and each of them on a device."""
from __future__ import annotations

import os
from typing import Any, NamedTuple

from . import _arrays as arrays
from . import _core
from ._arrays import REALS, TYPES
from ._linear import Linear, accuracy_class, open_device, scale_shape

_NAMES = {number: name for name, number in TYPES.items()} | {10: "e2m1"}


class LayerInfo(NamedTuple):
    """A quantised layer. ``problem`` says why it cannot be used; empty where it can."""

    n: int
    k: int
    dtype: str
    block: tuple[int | None, int | None]
    activations: str
    problem: str
    nbytes: int


class ExpertsInfo(NamedTuple):
    """A layer of experts: ``experts`` matrices of each kind, ``top_k`` for a token."""

    experts: int
    top_k: int
    hidden: int
    width: int
    problem: str
    nbytes: int


class CheckpointExperts:
    """A whole layer of experts on a device, router and shared expert included; made by ``Checkpoint.experts``."""

    def __init__(self, core: _core.Experts, dtype: str) -> None:
        self._core, self._dtype = core, dtype
        self.hidden, self.top_k, self.tokens = core.hidden, core.top_k, core.tokens

    @property
    def device(self) -> str:
        return self._core.device.uri

    def __call__(self, x: Any, ids: Any = None, weights: Any = None) -> Any:
        """``x`` [tokens, hidden] gives the same shape; ``ids`` int32 and ``weights`` float32 [tokens, top_k] in place of those
        that the router gives."""
        a = arrays.take(x, "x", allowed=(self._dtype,), ndim=2)
        if a.shape[1] != self.hidden or a.shape[0] > self.tokens:
            raise ValueError(f"x has shape {a.shape}; expected at most {self.tokens} rows of {self.hidden}")
        routed = (0, 0)
        if (ids is None) != (weights is None):
            raise ValueError("ids and weights come together")
        if ids is not None:
            i, w = arrays.take(ids, "ids", allowed=("s32",)), arrays.take(weights, "weights", allowed=("f32",))
            for name, array in (("ids", i), ("weights", w)):
                if array.shape != (a.shape[0], self.top_k):
                    raise ValueError(f"{name} has shape {array.shape}; expected {(a.shape[0], self.top_k)}")
            routed = (i.address, w.address)
        y, address = arrays.empty(a.shape, self._dtype, torch=a.torch)
        self._core.run(a.address, a.shape[0], *routed, address, a.torch)
        return y

    def __reduce__(self) -> Any:
        raise TypeError("a layer of experts lives on a device and cannot be pickled or copied")


class Checkpoint:
    """A folder with safetensors files and a config.json, or one safetensors file.

    ``layers`` maps the names of quantised layers to what they are, ``expert_layers`` those of layers of experts.
    ``block`` is the weight block of layers for which no file says one.
    """

    def __init__(self, path: str | os.PathLike[str], *, block: tuple[int, int] = (0, 0)) -> None:
        self.path = os.fspath(path)
        self._core = _core.Checkpoint(self.path, block)
        activations = ("none", "dynamic", "static")
        layers = self._core.layers()
        self.layers = {name: LayerInfo(n, k, _NAMES.get(dtype, ""), tuple(side or None for side in shape), activations[kind], problem, nbytes)
                       for name, n, k, dtype, _, shape, kind, problem, nbytes in layers}
        self._scales = {name: scale for name, _, _, _, scale, *_ in layers}
        self.expert_layers = {name: ExpertsInfo(*rest) for name, *rest in self._core.expert_layers()}

    def linear(self, name: str, *, device: Any = "auto", accuracy: str = "f32") -> Linear:
        """The layer on a device; quantised, or not, as the checkpoint says."""
        core = self._core.linear(name, open_device(device), accuracy_class(accuracy))
        info = self.layers[name]
        block = tuple(side or 0 for side in info.block)
        return Linear._of(core, block, info.dtype, (_NAMES[self._scales[name]], scale_shape(info.n, info.k, block)))

    def experts(self, name: str, *, device: Any = "auto", tokens: int = 1, dtype: Any = "bfloat16", accuracy: str = "f32") -> CheckpointExperts:
        """The layer of experts on a device, for calls of at most ``tokens`` tokens of ``dtype``."""
        kind = arrays.type_name(dtype)
        if kind not in REALS:
            raise TypeError(f"dtype is {kind}; expected float32, float16 or bfloat16")
        return CheckpointExperts(self._core.experts(name, open_device(device), tokens, TYPES[kind], accuracy_class(accuracy)), kind)

    def __repr__(self) -> str:
        return f"<ironcl.Checkpoint {self.path}: {len(self.layers)} layers, {len(self.expert_layers)} of experts>"

# SPDX-License-Identifier: Apache-2.0
"""torch modules over ``ironcl.Linear``, and the operator ``torch.ops.ironcl.linear`` that ``torch.compile`` sees.

CPU tensors only. Inference only: an input that needs a gradient is refused.
"""
from __future__ import annotations

import array
import ctypes
import itertools
import math
import mmap
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import _linear

_linears: weakref.WeakValueDictionary[int, Callable[[torch.Tensor], torch.Tensor]] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


@torch.library.custom_op("ironcl::linear", mutates_args=(), device_types="cpu")
def _linear_op(x: torch.Tensor, handle: int, out_features: int) -> torch.Tensor:
    layer = _linears.get(handle)
    if layer is None:
        raise RuntimeError(f"ironcl::linear: layer {handle} is gone; compile the model again")
    return layer(x)


@_linear_op.register_fake
def _(x: torch.Tensor, handle: int, out_features: int) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], out_features)


#: Called with each product of a module, while somebody verifies: (layer, x, y, rows).
observer: Callable[[_linear.Linear, torch.Tensor, torch.Tensor, torch.Tensor | None], None] | None = None


def handle_of(layer: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """A new number for ``torch.ops.ironcl.linear(x, handle, layer.out_features)``; it lives as long as the layer."""
    handle = next(_numbers)
    _linears[handle] = layer
    return handle


class Shared:
    """One product for several layers of the same input, such as q, k and v. The first layer that is called with an input
    computes all parts; each part is handed out once, and per thread. While torch.compile traces, likewise per trace."""

    def __init__(self, parts: int) -> None:
        self.parts, self._local = parts, threading.local()
        self._traced: tuple[torch.Tensor, int, torch.Tensor, list[int]] | None = None

    def part(self, weights: Weights, x: torch.Tensor) -> torch.Tensor:
        compiling = torch.compiler.is_compiling()
        kept = self._traced if compiling else getattr(self._local, "kept", None)
        if kept is None or kept[0] is not x or kept[1] != _version(x) or weights.index in kept[3]:
            kept = (x, _version(x), weights.run(x), [])
        kept[3].append(weights.index)
        rest = None if len(kept[3]) == self.parts else kept
        if compiling:
            self._traced = rest
        else:
            self._local.kept = rest
        return kept[2][..., weights.start : weights.start + weights.size]


def _version(x: torch.Tensor) -> int:
    """Counts changes in place. Tensors of inference mode and of a trace do not count, and layers that share them do not change
    them."""
    return 0 if torch.compiler.is_compiling() or x.is_inference() else x._version


def _refuse_gradients(x: torch.Tensor) -> None:
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError("ironcl computes no gradients: call the model under torch.no_grad() or torch.inference_mode()")


class Weights:
    """The prepared weights of one module: alone, or as a part of a ``Shared``; and what ``state_dict`` gives back."""

    def __init__(self, layer: _linear.Linear, shared: Shared | None = None, index: int = 0, start: int = 0, size: int | None = None) -> None:
        self.layer, self.shared, self.index, self.start = layer, shared, index, start
        self.size = layer.out_features if size is None else size
        self.handle = handle_of(layer)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        _refuse_gradients(x)
        return self.run(x) if self.shared is None else self.shared.part(self, x)

    def run(self, x: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The whole product of the layer, which the other parts share; ``rows`` as in ``ironcl.Linear``."""
        if torch.compiler.is_compiling():
            return torch.ops.ironcl.linear(x, self.handle, self.layer.out_features)
        y = self.layer(x, rows=rows)
        if observer is not None:
            observer(self.layer, x, y, rows)
        return y

    def export(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The codes and scales that the module had."""
        codes, scales = self.layer.export(like=torch.empty(0))
        if self.shared is None:
            return codes, scales
        rows = self.layer.block[0]
        first, last = self.start // rows, math.ceil((self.start + self.size) / rows)
        return codes[self.start : self.start + self.size].clone(), scales[first:last].clone()

    def __reduce__(self) -> Any:
        raise TypeError("weights of ironcl live on a device and cannot be pickled or copied: save the model with save_pretrained or state_dict")


class GatedMlp:
    """down(silu(gate(x)) * up(x)) as one call of two products; between them float32 that nobody sees."""

    def __init__(self, gate: Weights, down: Weights) -> None:
        self.gate, self.down, self.handle = gate, down, handle_of(self)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        _refuse_gradients(x)
        gate_up, down = self.gate.layer, self.down.layer
        if torch.compiler.is_compiling():
            return torch.ops.ironcl.linear(x, self.handle, down.out_features)
        if observer is None:
            return gate_up._run(x, gated=True, down=down)
        h = gate_up._run(x, gated=True, out_dtype=torch.float32)
        y = down(h, out_dtype=x.dtype)
        observer(gate_up, x, h, None)
        observer(down, h, y, None)
        return y


class Linear(torch.nn.Module):
    """``ironcl.Linear`` as a module; the same parameters."""

    def __init__(self, weight: torch.Tensor, weight_scale: torch.Tensor, **options: Any) -> None:
        super().__init__()
        self.weights = Weights(_linear.Linear(weight, weight_scale, **options))
        self.in_features, self.out_features = self.weights.layer.in_features, self.weights.layer.out_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weights(x)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "weight_scale"] = self.weights.export()

    def extra_repr(self) -> str:
        return repr(self.weights.layer)


def release_pages(tensor: torch.Tensor) -> None:
    """Gives back the memory of a tensor that lies in a mapped file and is not read again. Its pages come back from the file
    if they are; memory that is no file's, or was written to, is left alone."""
    page, shared_or_file = mmap.PAGESIZE, 1 << 61  # as /proc/self/pagemap says of a page (Linux: admin-guide/mm/pagemap)
    present_or_swapped = 3 << 62
    first, last = -(-tensor.data_ptr() // page), (tensor.data_ptr() + tensor.nbytes) // page
    if last <= first:
        return
    with open("/proc/self/pagemap", "rb") as pages:
        pages.seek(8 * first)
        flags = array.array("Q", pages.read(8 * (last - first)))
    if all(flag & shared_or_file or not flag & present_or_swapped for flag in flags):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first * page), ctypes.c_size_t((last - first) * page), mmap.MADV_DONTNEED)

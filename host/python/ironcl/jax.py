# SPDX-License-Identifier: Apache-2.0
"""``ironcl.Linear`` in programs of jax on the CPU, under ``jit`` and ``vmap``.

    layer = ironcl.Linear(codes, scales)
    y = jax.jit(lambda x: ironcl.jax.linear(x, layer))(x)
"""
from __future__ import annotations

import weakref
from typing import Any

import jax
import numpy as np

from . import _arrays as arrays
from . import _core
from ._linear import Linear

if not hasattr(_core, "jax_target"):
    raise ImportError("this build of ironcl has no jax: it was made where jaxlib was not installed; the wheels have it")

_TARGET = "ironcl_linear"
jax.ffi.register_ffi_target(_TARGET, _core.jax_target(), platform="cpu")
_numbers: weakref.WeakKeyDictionary[Linear, int] = weakref.WeakKeyDictionary()


def linear(x: jax.Array, layer: Linear, *, out_dtype: Any = None) -> jax.Array:
    """``layer(x)`` as an operation of XLA: ``x`` [..., in_features] gives [..., out_features] of ``out_dtype`` (x's).

    Compiled programs do not keep ``layer`` alive: one that outlives it fails when it is called. No gradient is defined.
    """
    if layer.matrices is not None:
        raise ValueError("layer has several matrices, which need rows; ironcl.jax.linear takes a single one")
    if x.ndim == 0 or x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {x.shape}; expected [..., {layer.in_features}]")
    for name, dtype in (("x", x.dtype), ("out_dtype", out_dtype or x.dtype)):
        if arrays.type_name(jax.numpy.dtype(dtype).name, name) not in arrays.REALS:
            raise TypeError(f"{name} is {dtype}; expected float32, float16 or bfloat16")
    number = _numbers.get(layer) or _numbers.setdefault(layer, _core.jax_number(layer._core))
    y = jax.ShapeDtypeStruct(x.shape[:-1] + (layer.out_features,), out_dtype or x.dtype)
    return jax.ffi.ffi_call(_TARGET, y, vmap_method="broadcast_all")(x, layer=np.int64(number))

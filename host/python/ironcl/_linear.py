# SPDX-License-Identifier: Apache-2.0
"""Linear layers: weights prepared for a device, and one call of them."""
from __future__ import annotations

import math
from typing import Any

from . import _arrays as arrays
from . import _core
from ._arrays import CODES, REALS, TYPES
from ._driver import use_packaged_driver

_ACCURACY = {"f32": 0, "tensor14": 1}


def accuracy_class(name: str) -> int:
    if name not in _ACCURACY:
        raise ValueError(f"accuracy is {name!r}; expected 'f32' or 'tensor14'")
    return _ACCURACY[name]


def block_of(block: Any) -> tuple[int, int]:
    """(rows, columns) of a block, 0 for all of them: None is the whole matrix, and so is a None in a pair."""
    rows, cols = (0, 0) if block is None else (block, block) if isinstance(block, int) else block
    sides = tuple(0 if side in (None, -1) else int(side) for side in (rows, cols))
    if min(sides) < 0 or max(sides) >= 2**32:
        raise ValueError(f"block is {block!r}; expected (rows, columns), with None for all")
    return sides


def scale_shape(rows: int, cols: int, block: tuple[int, int]) -> tuple[int, int]:
    return tuple(1 if side == 0 else math.ceil(size / side) for size, side in zip((rows, cols), block))


def open_device(device: Any) -> _core.Device:
    if isinstance(device, _core.Device):
        return device
    use_packaged_driver()
    return _core.Device.open("auto" if device is None else str(device))


class Linear:
    """A linear layer ``y = x @ weight.T (+ bias)`` on a device, its weights prepared once.

    Parameters
    ----------
    weight : array [out_features, in_features]
        Codes: float8_e4m3fn, float8_e5m2 or int8, or uint8 with ``dtype``. With three dimensions: the matrices of a layer
        of experts, which are called with ``rows``.
    weight_scale : array
        Multiplies; one value per block: [ceil(out_features / rows), ceil(in_features / columns)] (for several matrices
        [matrices, ...]). float32, float16, bfloat16 or float8_e8m0fnu.
    block : (rows, columns) or None
        Of a scale; None in place of a number spans the dimension: (1, None) is per channel, None per tensor.
    bias : array [out_features], optional
    dtype : optional
        What the bytes of a uint8 weight are: "e4m3fn" or "e5m2".
    device : str
        "auto", "opencl:cpu", "opencl:gpu:1", ... (``ironcl.devices()``).
    accuracy : "f32" or "tensor14"
        The weakest arithmetic that is allowed; "tensor14" allows tensor cores that add in about 14 bits.
    weight_only : bool
        x enters unquantised. Else it is quantised to the type of the weights in groups of 1 x the block's columns.
    scale_rounding : "exact" or "power_of_two"
        Of the scales of x ("power_of_two": what the field calls ue8m0).

    Notes
    -----
    Calls from several threads take turns. The weights are copied: the arrays may go.

    Examples
    --------
    >>> import numpy as np, ironcl
    >>> codes = np.full((256, 128), 0x38, np.uint8)  # 1.0
    >>> layer = ironcl.Linear(codes, np.full((2, 1), 0.5, np.float32), dtype="e4m3fn", device="ironwood:0")
    >>> layer(np.ones((3, 128), np.float32))[0, :2]
    array([64., 64.], dtype=float32)
    """

    def __init__(self, weight: Any, weight_scale: Any, *, block: Any = (128, 128), bias: Any = None, dtype: Any = None,
                 device: Any = "auto", accuracy: str = "f32", weight_only: bool = False, scale_rounding: str = "exact",
                 _gated: bool = False) -> None:
        if scale_rounding not in ("exact", "power_of_two"):
            raise ValueError(f"scale_rounding is {scale_rounding!r}; expected 'exact' or 'power_of_two'")
        block = block_of(block)
        w = arrays.take(weight, "weight", dtype=dtype, allowed=CODES)
        if len(w.shape) not in (2, 3) or 0 in w.shape:
            raise ValueError(f"weight has shape {w.shape}; expected [out_features, in_features], none of them 0")
        matrices = w.shape[:-2]
        expected = matrices + scale_shape(*w.shape[-2:], block)
        s = arrays.take(weight_scale, "weight_scale", allowed=("f32", "f16", "bf16", "e8m0"))
        if s.shape != expected and not (s.count == math.prod(expected) and s.shape in ((), (1,), expected[:-1])):
            raise ValueError(f"weight_scale has shape {s.shape}; expected {expected} for weight {w.shape} and block {block}")
        b = None
        if bias is not None:
            b = arrays.take(bias, "bias")
            if b.shape != w.shape[:-1]:
                raise ValueError(f"bias has shape {b.shape}; expected {w.shape[:-1]}")
        scale_bytes = s.count * {"f32": 4, "e8m0": 1}.get(s.type, 2)
        self._init(_core.Linear(
            open_device(device), w.address, s.address, w.shape[-2], w.shape[-1], matrices[0] if matrices else 0, TYPES[w.type],
            TYPES[s.type], block, w.count, scale_bytes, b.address if b else 0, TYPES[b.type] if b else 0, weight_only,
            scale_rounding == "power_of_two", accuracy_class(accuracy), _gated))
        self.block, self.dtype, self.matrices = block, w.type, matrices[0] if matrices else None
        self._scale = s.type, s.shape
        self.bias = bias
        self.power_of_two = scale_rounding == "power_of_two"

    def _init(self, core: _core.Linear) -> None:
        self._core = core
        self.in_features, self.out_features = core.k, core.n
        self.matrices = None

    @classmethod
    def _of(cls, core: _core.Linear, block: tuple[int, int], dtype: str, scale: tuple[str, tuple[int, int]]) -> Linear:
        self = cls.__new__(cls)
        self._init(core)
        self.block, self.dtype, self._scale = block, dtype, scale
        return self

    @property
    def device(self) -> str:
        """The URI of the device."""
        return self._core.device.uri

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared weights on the device, scales and padding included."""
        return self._core.nbytes

    def __call__(self, x: Any, *, out: Any = None, out_dtype: Any = None, rows: Any = None) -> Any:
        """``x`` [..., in_features] of float32, float16 or bfloat16 gives [..., out_features] of ``out_dtype`` (x's).

        ``rows`` [matrices] int32, of a layer of several matrices: how many rows of ``x``, sorted by matrix, each has.
        """
        return self._run(x, out=out, out_dtype=out_dtype, rows=rows)

    def _run(self, x: Any, *, out: Any = None, out_dtype: Any = None, rows: Any = None, gated: bool = False, down: Linear | None = None) -> Any:
        """``gated``, of weights with the rows of gate and then those of up: silu(gate) * up. ``down``: its product of that in
        float32, in the same call."""
        a = arrays.take(x, "x")
        if not a.shape or a.shape[-1] != self.in_features:
            raise ValueError(f"x has shape {a.shape}; expected [..., {self.in_features}]")
        name = a.type if out_dtype is None else arrays.type_name(out_dtype, "out_dtype")
        if name not in REALS:
            raise TypeError(f"out_dtype is {name}; expected float32, float16 or bfloat16")
        counts = 0
        if (rows is None) != (self.matrices is None):
            raise ValueError("rows is for layers of several matrices, and they need it")
        if rows is not None:
            r = arrays.take(rows, "rows", allowed=("s32",))
            if r.shape != (self.matrices,):
                raise ValueError(f"rows has shape {r.shape}; expected ({self.matrices},)")
            counts = r.address
        columns = down.out_features if down else self.out_features // 2 if gated else self.out_features
        shape = a.shape[:-1] + (columns,)
        if out is None:
            out, address = arrays.empty(shape, name, torch=a.torch)
        else:
            address = arrays.out_array(out, shape, name)
        self._core.run(a.address, TYPES[a.type], a.count // self.in_features, address, TYPES[name], counts, a.torch, gated, down and down._core)
        return out

    def export(self, like: Any = None) -> tuple[Any, Any]:
        """The codes and scales that the layer was made of, bit for bit: tensors where ``like`` is one, else numpy's."""
        torch = arrays.is_torch(like)
        shape = (self.out_features, self.in_features) if self.matrices is None else (self.matrices, self.out_features, self.in_features)
        codes, data = arrays.empty(shape, self.dtype, torch=torch)
        scales, address = arrays.empty(self._scale[1], self._scale[0], torch=torch)
        self._core.export(data, *self._core.sizes[:1], address, *self._core.sizes[1:])
        return codes, scales

    def __reduce__(self) -> Any:
        raise TypeError("an ironcl.Linear lives on a device and cannot be pickled or copied; export() gives its weights")

    def __repr__(self) -> str:
        many = "" if self.matrices is None else f"{self.matrices} x "
        block = "x".join(str(side or "all") for side in self.block)
        return f"<ironcl.Linear {many}{self.out_features}x{self.in_features} {self.dtype} {block} on {self.device}, {self._core.form}, {self.nbytes / 1e6:.1f} MB>"


def linear(x: Any, weight: Any, weight_scale: Any, *, block: Any = (128, 128), bias: Any = None, dtype: Any = None, out_dtype: Any = None,
           device: Any = "auto", accuracy: str = "f32", out: Any = None) -> Any:
    """``x @ weight.T`` with block-scaled weights, once. Weights that are used again are better an ``ironcl.Linear``, which
    has the same parameters and prepares them once.

    Examples
    --------
    >>> import numpy as np, ironcl
    >>> y = ironcl.linear(np.ones((1, 128), np.float32), np.full((128, 128), 0x38, np.uint8), np.ones((1, 1), np.float32),
    ...                   dtype="e4m3fn", device="ironwood:0")
    >>> y.shape, float(y[0, 0])
    ((1, 128), 128.0)
    """
    layer = Linear(weight, weight_scale, block=block, bias=bias, dtype=dtype, device=device, accuracy=accuracy)
    return layer(x, out=out, out_dtype=out_dtype)


def quantize(x: Any, *, block: Any = (1, 128), dtype: Any = "e4m3fn", scale_dtype: Any = "float32", device: Any = "auto") -> tuple[Any, Any]:
    """Codes and scales of ``x`` [rows, columns]: ``x`` is about ``codes * scales``, a scale per block.

    ``scale_dtype`` float8_e8m0fnu rounds the scales up to powers of two first. Results are of the kind of ``x``.
    """
    block = block_of(block)
    a = arrays.take(x, "x", ndim=2)
    code, scale = arrays.type_name(dtype), arrays.type_name(scale_dtype, "scale_dtype")
    if code not in CODES or scale not in ("f32", "e8m0"):
        raise TypeError(f"quantize to {code} with scales of {scale}; expected codes of {', '.join(CODES)} and scales of f32 or e8m0")
    codes, code_address = arrays.empty(a.shape, code, torch=a.torch)
    scales, scale_address = arrays.empty(scale_shape(*a.shape, block), "f32", torch=a.torch)
    if a.count:
        _core.quantize(open_device(device), a.address, TYPES[a.type], *a.shape, TYPES[code], block, scale == "e8m0", code_address, a.count,
                       scale_address, 4 * math.prod(scales.shape))
    if scale == "e8m0":
        scales = scales.to(arrays.torch_type("e8m0")) if a.torch else scales.astype(arrays._numpy_type("e8m0"))
    return codes, scales


def dequantize(codes: Any, scales: Any, *, block: Any = (1, 128), dtype: Any = None) -> Any:
    """float32 values of ``codes`` [rows, columns] times their ``scales``; exact but for one rounding."""
    block = block_of(block)
    c = arrays.take(codes, "codes", dtype=dtype, allowed=CODES, ndim=2)
    s = arrays.take(scales, "scales", allowed=("f32", "f16", "bf16", "e8m0"))
    expected = scale_shape(*c.shape, block)
    if s.count != math.prod(expected):
        raise ValueError(f"scales has shape {s.shape}; expected {expected} for codes {c.shape} and block {block}")
    rows, cols = (size if side == 0 else side for size, side in zip(c.shape, block))
    if c.torch:
        spread = scales.float().reshape(expected).repeat_interleave(rows, 0).repeat_interleave(cols, 1)
        return codes.view(arrays.torch_type(c.type)).float() * spread[: c.shape[0], : c.shape[1]]
    spread = s.owner.astype("float32").reshape(expected).repeat(rows, 0).repeat(cols, 1)
    return c.owner.view(arrays._numpy_type(c.type)).astype("float32") * spread[: c.shape[0], : c.shape[1]]

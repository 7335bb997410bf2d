# SPDX-License-Identifier: Apache-2.0
"""Arrays of torch, numpy and ml_dtypes, and of anything with DLPack or a buffer: as tight host memory, and back."""
from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core

if TYPE_CHECKING:
    import numpy as np

#: Numbers of ``ironcl_dtype`` (plugin.h) by the names that options and reports use.
TYPES = {"f32": 1, "f16": 2, "bf16": 3, "e4m3fn": 4, "e5m2": 5, "e8m0": 6, "i8": 7, "s32": 8}
CODES = ("e4m3fn", "e5m2", "i8")
REALS = ("f32", "f16", "bf16")
_LONG = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu",
         "i8": "int8", "s32": "int32"}
_SHORT = {long: short for short, long in _LONG.items()} | {name: name for name in TYPES} | {"e4m3": "e4m3fn"}
#: (code, bits) of DLPack 1.1.
_DLPACK = {(2, 32): "f32", (2, 16): "f16", (4, 16): "bf16", (10, 8): "e4m3fn", (12, 8): "e5m2", (14, 8): "e8m0", (0, 8): "i8", (0, 32): "s32",
           (1, 8): "uint8"}


class Array(NamedTuple):
    """Tight, row-major host memory; ``owner`` keeps it alive, ``torch`` says whether results are tensors."""

    address: int
    type: str
    shape: tuple[int, ...]
    owner: Any
    torch: bool

    @property
    def count(self) -> int:
        return math.prod(self.shape)


_known: dict[Any, str] = {}


def type_name(dtype: Any, argument: str = "dtype") -> str:
    """The short name ("bf16") of a dtype of torch, numpy, ml_dtypes, or of its name."""
    name = _known.get(dtype)
    if name is None:
        name = _known[dtype] = _type_name(dtype, argument)
    return name


def _type_name(dtype: Any, argument: str) -> str:
    name = dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")
    if not isinstance(dtype, str) and name not in _SHORT:
        name = getattr(dtype, "__name__", name) if isinstance(dtype, type) else name
    if name in _SHORT:
        return _SHORT[name]
    if "fnuz" in name:
        raise TypeError(f"{argument} is {name}, whose bytes mean other numbers than those of float8_e4m3fn and float8_e5m2; convert it")
    raise TypeError(f"{argument} is {name}; expected one of {', '.join(_LONG.values())}")


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def torch_type(name: str) -> Any:
    return getattr(sys.modules["torch"], _LONG[name])


def _take_torch(x: Any, argument: str) -> tuple[int, str, tuple[int, ...], Any]:
    if not x.is_cpu:
        raise ValueError(f"{argument} is on {x.device}; expected a CPU tensor: ironcl's devices are OpenCL's, and hold no memory of torch's")
    x = (x.detach() if x.requires_grad else x).contiguous()
    name = _known.get(x.dtype)
    if name is None:
        name = "uint8" if x.dtype == sys.modules["torch"].uint8 else type_name(x.dtype, argument)
    return x.data_ptr(), name, x.shape, x


def _is_numpy(x: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def _take_numpy(x: np.ndarray, argument: str) -> tuple[int, str, tuple[int, ...], Any]:
    import numpy as np
    x = np.require(x, requirements="CA")
    name = x.dtype.name
    return x.__array_interface__["data"][0], name if name == "uint8" else type_name(name, argument), x.shape, x


def _take_other(x: Any, argument: str) -> tuple[int, str, tuple[int, ...], Any]:
    try:
        address, code, bits, device, shape, tight = _core.look(x)
    except TypeError:
        raise TypeError(f"{argument} is a {type(x).__name__}; expected an array: torch, numpy, DLPack or a buffer") from None
    if device != 1:
        raise ValueError(f"{argument} is not in host memory (DLPack device {device}); expected a CPU array")
    if (code, bits) not in _DLPACK:
        raise TypeError(f"{argument} has DLPack type {code} of {bits} bits; expected a float of 16 or 32 bits, e4m3fn, e5m2 or int8")
    if not tight:
        raise ValueError(f"{argument} is not contiguous; expected row-major memory without gaps")
    return address, _DLPACK[code, bits], tuple(shape), x


def take(x: Any, argument: str, *, dtype: Any = None, allowed: tuple[str, ...] = REALS, ndim: int | None = None) -> Array:
    """``x`` as tight memory, copied where it is not. ``dtype`` names the codes of uint8, which are never guessed."""
    torch = is_torch(x)
    take_one = _take_torch if torch else _take_numpy if _is_numpy(x) else _take_other
    address, name, shape, owner = take_one(x, argument)
    if name == "uint8":
        if dtype is None:
            raise TypeError(f"{argument} is uint8, which does not say what its bytes mean; pass dtype='e4m3fn' or 'e5m2'")
        name = type_name(dtype)
    elif dtype is not None and type_name(dtype) != name:
        raise TypeError(f"{argument} is {_LONG[name]}, but dtype says {_LONG[type_name(dtype)]}")
    if name not in allowed:
        raise TypeError(f"{argument} is {_LONG[name]}; expected {', '.join(_LONG[t] for t in allowed)}")
    if ndim is not None and len(shape) != ndim:
        raise ValueError(f"{argument} has shape {tuple(shape)}; expected {ndim} dimensions")
    return Array(address, name, tuple(shape), owner, torch)


def _numpy_type(name: str) -> np.dtype:
    import numpy as np
    if name in ("f32", "f16", "i8", "s32"):
        return np.dtype(_LONG[name])
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"numpy has no {_LONG[name]}: install ml_dtypes, or ask for float32") from None
    return np.dtype(getattr(ml_dtypes, _LONG[name]))


def empty(shape: tuple[int, ...], name: str, *, torch: bool) -> tuple[Any, int]:
    """A new array of torch or numpy, and its address."""
    if torch:
        y = sys.modules["torch"].empty(*(shape or ((),)), dtype=torch_type(name))  # torch takes a tuple of sizes more slowly
        return y, y.data_ptr()
    import numpy as np
    y = np.empty(shape, dtype=_numpy_type(name))
    return y, y.__array_interface__["data"][0]


def out_array(out: Any, shape: tuple[int, ...], name: str) -> int:
    """The address of the caller's ``out``, which must be just what would have been made."""
    if not is_torch(out) and not _is_numpy(out):
        raise TypeError(f"out is a {type(out).__name__}; expected a tensor of torch or an array of numpy")
    if tuple(out.shape) != shape or type_name(out.dtype, "out") != name:
        raise ValueError(f"out is {tuple(out.shape)} {out.dtype}; expected {shape} {_LONG[name]}")
    if is_torch(out):
        if out.device.type != "cpu" or not out.is_contiguous() or out.requires_grad:
            raise ValueError("out must be a contiguous CPU tensor that needs no gradient")
        return out.data_ptr()
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out must be C-contiguous and writable")
    return out.__array_interface__["data"][0]

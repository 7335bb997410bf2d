# SPDX-License-Identifier: Apache-2.0
"""What there is to compute on, what it takes, and why something is missing."""
from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

from . import _core
from ._arrays import TYPES, type_name
from ._driver import use_packaged_driver
from ._linear import accuracy_class, block_of, open_device


class Device(NamedTuple):
    """A device: ``uri`` is what ``device=`` takes. A "model" computes right results in the times of a machine that is not
    there, and is never chosen by "auto"."""

    uri: str
    type: str
    name: str
    driver: str
    memory_bytes: int


class Support(NamedTuple):
    """Whether a device runs a layer: true or false, with the ``reason`` where it does not."""

    ok: bool
    reason: str

    def __bool__(self) -> bool:
        return self.ok


def devices() -> list[Device]:
    """Every device of every plugin."""
    use_packaged_driver()
    return [Device(*device) for device in _core.devices()]


def supports(out_features: int, in_features: int, *, rows: int = 1, block: Any = (128, 128), dtype: Any = "e4m3fn", x_dtype: Any = "bfloat16",
             out_dtype: Any = None, device: Any = "auto", accuracy: str = "f32") -> Support:
    """Whether ``device`` runs a linear layer of so many features, with its reason where it does not.

    Examples
    --------
    >>> import ironcl
    >>> bool(ironcl.supports(4096, 4096, device="ironwood:0"))
    True
    """
    code, x = type_name(dtype), type_name(x_dtype, "x_dtype")
    out = x if out_dtype is None else type_name(out_dtype, "out_dtype")
    return Support(*open_device(device).supports(rows, out_features, in_features, TYPES[x], TYPES[code], TYPES[code], block_of(block), TYPES[out],
                                                 accuracy_class(accuracy)))


def _loads(library: str) -> str:
    import ctypes
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return "ok"


def diagnose() -> str:
    """What was looked for and found: the OpenCL loader, its drivers, the plugins, the devices; and what would help."""
    import glob
    use_packaged_driver()
    lines = [f"python       {sys.version.split()[0]}, {sys.executable}", f"OpenCL       libOpenCL.so.1: {_loads('libOpenCL.so.1')}"]
    folders = os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors"
    files = sorted(glob.glob(os.path.join(folders, "*.icd"))) if os.path.isdir(folders) else [folders]
    for file in files:
        try:
            library = file  # A variable may name the library itself.
            if file.endswith(".icd"):
                with open(file, encoding="utf-8", errors="replace") as text:
                    library = text.readline().strip()
            lines.append(f"driver       {file}: {library}: {_loads(library)}")
        except OSError as error:
            lines.append(f"driver       {file}: {error.strerror}")
    if not files:
        lines.append(f"driver       none: {folders} has no .icd file")
    for path, plugin, ok, reason in _core.report():
        lines.append(f"plugin       {plugin or path}: {'loaded' if ok else reason}")
    found = devices()
    lines += [f"device       {d.uri}  {d.type}  {d.name} ({d.driver})" for d in found]
    if all(d.type == "model" for d in found):
        lines.append("what helps   a driver: 'apt install pocl-opencl-icd' or 'pip install intel-opencl-rt intel-cmplr-lib-rt' for the CPU; for a GPU, its vendor's OpenCL package")
    return "\n".join(lines)

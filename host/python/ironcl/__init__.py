# SPDX-License-Identifier: Apache-2.0
"""Block-scaled fp8 linear layers on every device that OpenCL reaches.

>>> import numpy as np, ironcl
>>> codes, scales = ironcl.quantize(np.ones((128, 256), np.float32), block=(128, 128), device="ironwood:0")
>>> layer = ironcl.Linear(codes, scales, device="ironwood:0")
>>> layer(np.ones((4, 256), np.float32)).shape
(4, 128)

Importing opens no driver: the first call that needs a device does.
"""
from ._checkpoint import Checkpoint
from ._command import Report, compare, model
from ._devices import Device, Support, devices, diagnose, supports
from ._errors import BuildFailed, DeviceLost, Error, InvalidArgument, OutOfMemory, Timeout, Unavailable, Unsupported
from ._experts import Experts
from ._linear import Linear, dequantize, linear, quantize

__version__ = "0.1.0"
__all__ = ["BuildFailed", "Checkpoint", "Device", "DeviceLost", "Error", "Experts", "InvalidArgument", "Linear", "OutOfMemory", "Report",
           "Support", "Timeout", "Unavailable", "Unsupported", "compare", "dequantize", "devices", "diagnose", "linear", "model", "quantize",
           "supports"]

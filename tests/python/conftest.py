# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python package's tests: each runs on the model of the TPU, and on a CPU's OpenCL where there is one."""
import numpy as np
import pytest

import ironcl

DEVICES = ["ironwood:0"] + (["opencl:cpu"] if any(d.uri.startswith("opencl") and d.type == "cpu" for d in ironcl.devices()) else [])


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def layer():
    """A weight [256, 384] with blocks of unlike scales, as quantised codes, and x [5, 384]."""
    random = np.random.default_rng(7)
    weight = random.standard_normal((256, 384)).astype(np.float32) * np.exp2(random.integers(-6, 6, (256, 1))).astype(np.float32)
    codes, scales = ironcl.quantize(weight, block=(128, 128), device="ironwood:0")
    return codes, scales, random.standard_normal((5, 384)).astype(np.float32)


def exact(x, codes, scales, *, block=(128, 128), bias=None):
    """The product in float64 of numpy and the largest error that each element may have, before it is rounded."""
    made, made_scales = ironcl.quantize(x, block=(1, block[1]), device="ironwood:0")
    a = ironcl.dequantize(made, made_scales, block=(1, block[1])).astype(np.float64)
    w = ironcl.dequantize(codes, scales, block=block).astype(np.float64)
    k = x.shape[1]
    length = block[1] or k
    value, magnitude = a @ w.T, np.abs(a) @ np.abs(w).T
    if bias is not None:
        value, magnitude = value + bias, magnitude + np.abs(bias)
    # dequantize rounds once more in each operand than the product does
    return value, (length + -(-k // length) + 3 + 2) * 2.0**-24 * magnitude


def assert_right(y, x, codes, scales, *, unit=2.0**-24, **options):
    value, slack = exact(x, codes, scales, **options)
    error, bound = np.abs(np.asarray(y, np.float64) - value), slack + unit * np.abs(value)
    assert y.shape == value.shape and (error <= bound).all(), f"{(error / bound).max()} bounds at {np.unravel_index((error / bound).argmax(), error.shape)}"

# SPDX-License-Identifier: Apache-2.0
"""Every door gives the same bits; every wrong one is refused."""
import numpy as np
import pytest
from conftest import assert_right

import ironcl

ml_dtypes = pytest.importorskip("ml_dtypes")


class Capsule:
    """An array that only knows DLPack."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def doors(codes, scales, x):
    yield "ml_dtypes", codes, scales, x, None
    yield "uint8", codes.view(np.uint8), scales, x, "e4m3fn"
    yield "dtype object", codes.view(np.uint8), scales, x, ml_dtypes.float8_e4m3fn
    yield "dlpack", Capsule(codes.view(np.uint8)), Capsule(scales), Capsule(x), "e4m3"
    yield "buffer", memoryview(codes.view(np.uint8)), memoryview(scales), memoryview(x), "float8_e4m3fn"
    torch = pytest.importorskip("torch") if "torch" in __import__("sys").modules else None
    if torch is not None:
        c, s, t = torch.from_numpy(codes.view(np.uint8)), torch.from_numpy(scales), torch.from_numpy(x)
        yield "torch", c.view(torch.float8_e4m3fn), s, t, None
        yield "torch uint8", c, s, t, torch.float8_e4m3fn
        yield "torch by dlpack", Capsule(c.view(torch.float8_e4m3fn)), Capsule(s), Capsule(t), None


def test_every_door_gives_the_same_bits(layer, device):
    codes, scales, x = layer
    want = ironcl.linear(x, codes, scales, device=device)
    assert_right(want, x, codes, scales)
    for name, c, s, t, dtype in doors(codes, scales, x):
        got = np.asarray(ironcl.linear(t, c, s, dtype=dtype, device=device))
        assert got.tobytes() == want.tobytes(), name


@pytest.mark.parametrize("form", ["fortran", "strided", "reversed", "read-only", "misaligned", "three dimensions", "one dimension"])
def test_memory_of_any_form_is_right(layer, device, form):
    codes, scales, x = layer
    lin = ironcl.Linear(codes, scales, device=device)
    want = lin(x)
    if form == "fortran":
        got = lin(np.asfortranarray(x))
    elif form == "strided":
        got = lin(np.repeat(x, 2, axis=1)[:, ::2])
    elif form == "reversed":
        got = lin(x[::-1])[::-1]
    elif form == "read-only":
        x.flags.writeable = False
        got = lin(x)
    elif form == "misaligned":
        raw = np.zeros(x.nbytes + 1, np.uint8)
        raw[1:] = x.view(np.uint8).ravel()
        got = lin(raw[1:].view(np.float32).reshape(x.shape))
    elif form == "three dimensions":
        got = lin(x.reshape(1, 5, 384))[0]
    else:
        got, want = lin(x[0]), lin(x[:1])[0]
    assert np.array_equal(got, want)


def test_no_rows_give_no_rows(layer, device):
    codes, scales, x = layer
    assert ironcl.Linear(codes, scales, device=device)(x[:0]).shape == (0, 256)
    assert ironcl.quantize(x[:0], device=device)[0].shape == (0, 384)


@pytest.mark.parametrize("wrong, words", [
    (lambda c, s, x: (x, c.view(np.uint8), s, {}), "does not say what its bytes mean"),
    (lambda c, s, x: (x, c.view(np.uint8).view(ml_dtypes.float8_e4m3fnuz), s, {}), "other numbers"),
    (lambda c, s, x: (x, c, s, {"dtype": "e5m2"}), "weight is float8_e4m3fn, but dtype says float8_e5m2"),
    (lambda c, s, x: (x, c.view(np.uint8), s, {"dtype": "e4m3fnuz"}), "float8_e4m3fn"),
    (lambda c, s, x: (x.astype(np.float64), c, s, {}), "x is float64"),
    (lambda c, s, x: (x[:, :-1], c, s, {}), r"x has shape \(5, 383\); expected \[\.\.\., 384\]"),
    (lambda c, s, x: (x, c, s[:, :2], {}), r"weight_scale has shape \(2, 2\); expected \(2, 3\)"),
    (lambda c, s, x: (x, c[0], s, {}), r"weight has shape \(384,\)"),
    (lambda c, s, x: (x, c, s, {"bias": np.zeros(255, np.float32)}), r"bias has shape \(255,\); expected \(256,\)"),
    (lambda c, s, x: (x, c, s, {"out": np.zeros((5, 255), np.float32)}), r"expected \(5, 256\)"),
    (lambda c, s, x: (x, c, s, {"out": np.zeros((256, 5), np.float32).T}), "C-contiguous"),
    (lambda c, s, x: (x, c, s, {"accuracy": "f16"}), "'f32' or 'tensor14'"),
    (lambda c, s, x: (x, c, s, {"block": (128, -2)}), "block is"),
    (lambda c, s, x: ([1, 2], c, s, {}), "x is a list"),
])
def test_wrong_arguments_are_named(layer, wrong, words):
    x, codes, scales, options = wrong(*layer)
    with pytest.raises((TypeError, ValueError), match=words):
        ironcl.linear(x, codes, scales, **({"device": "ironwood:0"} | options))


def test_float_of_eight_bits_without_a_kind_is_refused(layer):
    """DLPack's kDLFloat with 8 bits may be any of them."""
    torch = pytest.importorskip("torch")
    codes, scales, x = layer
    fnuz = torch.from_numpy(codes.view(np.uint8)).view(torch.float8_e5m2fnuz)
    with pytest.raises(TypeError, match="DLPack type 13"):
        ironcl.linear(x, Capsule(fnuz), scales)

# SPDX-License-Identifier: Apache-2.0
"""Layers are right on every device, from threads, and say what is wrong."""
import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from conftest import assert_right

import ironcl

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize("rows", [1, 3, 16, 129])
def test_every_number_of_rows_is_right(layer, device, rows):
    codes, scales, _ = layer
    x = np.random.default_rng(rows).standard_normal((rows, 384)).astype(np.float32)
    lin = ironcl.Linear(codes, scales, device=device)
    assert_right(lin(x), x, codes, scales)
    assert_right(lin(x, out_dtype="bfloat16"), x, codes, scales, unit=2.0**-8)


@pytest.mark.parametrize("block", [(128, 128), (1, None), None, (1, 128)])
@pytest.mark.parametrize("dtype", ["e4m3fn", "e5m2", "int8"])
def test_every_block_and_type_is_right(device, block, dtype):
    random = np.random.default_rng(3)
    weight, x = random.standard_normal((128, 256)).astype(np.float32), random.standard_normal((4, 256)).astype(np.float32)
    codes, scales = ironcl.quantize(weight, block=block, dtype=dtype, device=device)
    lin = ironcl.Linear(codes, scales, block=block, device=device)
    cols = 0 if block is None or block[1] is None else block[1]
    a, s = ironcl.quantize(x, block=(1, cols or None), dtype=dtype, device=device)
    value = ironcl.dequantize(a, s, block=(1, cols or None)).astype(np.float64) @ ironcl.dequantize(codes, scales, block=block).astype(np.float64).T
    np.testing.assert_allclose(lin(x), value, rtol=0, atol=2e-4 * np.abs(value).max())
    assert lin.export()[0].tobytes() == codes.tobytes() and lin.export()[1].tobytes() == scales.tobytes()


def test_bias_is_added_before_rounding(layer, device):
    codes, scales, x = layer
    bias = np.linspace(-100, 100, 256).astype(np.float32)
    y = ironcl.Linear(codes, scales, bias=bias, device=device)(x)
    assert_right(y, x, codes, scales, bias=bias.astype(np.float64))


def test_the_callers_output_is_written(layer, device):
    codes, scales, x = layer
    lin, out = ironcl.Linear(codes, scales, device=device), np.full((5, 256), np.nan, np.float32)
    assert lin(x, out=out) is out and np.array_equal(out, lin(x))


def test_weight_only_leaves_activations_alone(layer, device):
    codes, scales, x = layer
    lin = ironcl.Linear(codes, scales, device=device, weight_only=True)
    value = x.astype(np.float64) @ ironcl.dequantize(codes, scales, block=(128, 128)).astype(np.float64).T
    np.testing.assert_allclose(lin(x), value, rtol=1e-4, atol=1e-4 * np.abs(value).max())


def test_matrices_of_experts_take_their_own_rows(device):
    random = np.random.default_rng(5)
    weight, x = random.standard_normal((3 * 128, 128)).astype(np.float32), random.standard_normal((6, 128)).astype(np.float32)
    codes, scales = ironcl.quantize(weight, block=(128, 128), device=device)
    lin = ironcl.Linear(codes.reshape(3, 128, 128), scales.reshape(3, 1, 1), device=device)
    y = lin(x, rows=np.array([4, 0, 2], np.int32))
    for rows, matrix in ((slice(0, 4), 0), (slice(4, 6), 2)):
        assert_right(y[rows], x[rows], codes[matrix * 128 : (matrix + 1) * 128], scales[matrix : matrix + 1])
    with pytest.raises(ValueError, match="rows"):
        lin(x)


def test_experts_of_arrays_are_the_sum_over_those_chosen(device):
    random = np.random.default_rng(6)
    x = random.standard_normal((9, 256)).astype(np.float32)
    ids, weights = random.integers(0, 3, (9, 2)).astype(np.int32), random.random((9, 2)).astype(np.float32)
    ids[:4, 1] = 2
    quantized = [ironcl.quantize(random.standard_normal((4 * n, k)).astype(np.float32), block=(128, 128), device=device)
                 for n, k in ((128, 256), (128, 256), (256, 128))]  # four experts: nobody chooses the last
    (gate, gs), (up, us), (down, ds) = [(codes.reshape(4, -1, codes.shape[1]), scales.reshape(4, -1, scales.shape[1])) for codes, scales in quantized]
    apart = ironcl.Experts((gate, up), (gs, us), down, ds, device=device)
    fused = ironcl.Experts(np.concatenate([gate, up], 1), np.concatenate([gs, us], 1), down, ds, device=device)
    y = apart(x, ids, weights)
    assert y.dtype == x.dtype and np.array_equal(y, fused(x, ids, weights))
    want = np.zeros_like(x)
    for token, (chosen, of) in enumerate(zip(ids, weights)):
        for expert, weight in zip(chosen, of):
            g, u = (ironcl.linear(x[token], w[expert], s[expert], device=device) for w, s in ((gate, gs), (up, us)))
            want[token] += weight * ironcl.linear(g / (1 + np.exp(-g)) * u, down[expert], ds[expert], device=device)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert apart(x[:0], ids[:0], weights[:0]).shape == (0, 256)
    for wrong, words in (((x, ids + 2, weights), "expected 0 to 3"), ((x[:, :-1], ids, weights), "256"), ((x, ids, weights[:, :1]), "top_k")):
        with pytest.raises(ValueError, match=words):
            apart(*wrong)
    with pytest.raises(ValueError, match="expected .experts, 2"):
        ironcl.Experts(gate, gs, down, ds, device=device)


def test_threads_take_turns(layer, device):
    codes, scales, x = layer
    lin = ironcl.Linear(codes, scales, device=device)
    want, wrong = lin(x), []

    def work():
        wrong.extend(1 for _ in range(20) if not np.array_equal(lin(x), want))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_python_goes_on_while_a_call_runs(device):
    """The GIL is released: another thread counts while one call computes."""
    codes = np.zeros((2048, 2048), np.uint8)
    lin = ironcl.Linear(codes, np.ones((16, 16), np.float32), dtype="e4m3fn", device=device)
    x, done, counted = np.ones((256, 2048), np.float32), threading.Event(), []

    def count():
        while not done.is_set():
            counted.append(1)
            done.wait(1e-4)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    lin(x)
    after = len(counted)
    done.set()
    thread.join()
    assert after > before


def test_a_layer_is_not_copied_or_pickled(layer):
    lin = ironcl.Linear(*layer[:2], device="ironwood:0")
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            act(lin)


def test_errors_have_a_status_and_a_class():
    with pytest.raises(ironcl.Unavailable, match="there are") as caught:
        ironcl.linear(np.ones((1, 128), np.float32), np.zeros((128, 128), np.uint8), np.ones((1, 1), np.float32), dtype="e4m3fn", device="nowhere:7")
    assert caught.value.status == "UNAVAILABLE" and isinstance(caught.value, ironcl.Error)
    assert str(caught.value).startswith("UNAVAILABLE: ")
    assert issubclass(ironcl.InvalidArgument, ValueError) and issubclass(ironcl.OutOfMemory, MemoryError) and issubclass(ironcl.Timeout, TimeoutError)


def test_supports_says_why_not(device):
    assert ironcl.supports(256, 256, device=device)
    answer = ironcl.supports(256, 256, block=(128, 100), device=device)
    assert not answer and "100" in answer.reason


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_forked_child_gets_an_error(layer, device, kind):
    """Of the driver, and before it waits for OpenMP's workers, which it does not have."""
    lin = ironcl.Linear(*layer[:2], device=device)
    x = layer[2] if kind == "numpy" else pytest.importorskip("torch").from_numpy(layer[2])
    lin(x)
    if device.startswith("ironwood"):
        pytest.skip("the model computes in the process itself")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            lin(x)
            os.write(writing, b"no error")
        except ironcl.Error as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    assert b"UNAVAILABLE" in os.read(reading, 1000)


def test_quantize_and_back(device):
    x = np.random.default_rng(1).standard_normal((7, 300)).astype(np.float32)
    for scale_dtype in ("float32", "float8_e8m0fnu"):
        codes, scales = ironcl.quantize(x, block=(1, 128), scale_dtype=scale_dtype, device=device)
        assert codes.dtype == ml_dtypes.float8_e4m3fn and scales.shape == (7, 3)
        back = ironcl.dequantize(codes, scales)
        amax = np.abs(x).max()
        assert np.abs(back - x).max() <= amax * 2.0**-3
        if scale_dtype == "float32":
            groups = np.pad(np.abs(x), ((0, 0), (0, 84))).reshape(7, 3, 128).max(2)
            assert np.array_equal(scales, (groups / np.float32(448)).astype(np.float32))

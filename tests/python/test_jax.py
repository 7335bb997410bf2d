# SPDX-License-Identifier: Apache-2.0
"""Layers in programs of jax: the bits of a plain call, under jit and vmap; what cannot be done refused."""
import gc

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import ironcl  # noqa: E402
import ironcl.jax  # noqa: E402


def test_a_program_gives_the_bits_of_a_call(layer, device):
    codes, scales, x = layer
    linear = ironcl.Linear(codes, scales, device=device)
    program = jax.jit(lambda x: ironcl.jax.linear(x, linear))
    assert np.array_equal(program(x), linear(x))
    assert np.array_equal(jax.vmap(lambda row: ironcl.jax.linear(row, linear))(x), linear(x))
    half = jax.numpy.asarray(x, jax.numpy.bfloat16)
    assert np.array_equal(ironcl.jax.linear(half, linear), linear(np.asarray(half)))
    wide = ironcl.jax.linear(half, linear, out_dtype="float32")
    assert wide.dtype == np.float32 and np.array_equal(wide, linear(np.asarray(half), out_dtype="float32"))


def test_wrong_inputs_are_refused(layer):
    codes, scales, x = layer
    linear = ironcl.Linear(codes, scales, device="ironwood:0")
    with pytest.raises(ValueError, match=r"x has shape \(5, 383\); expected \[\.\.\., 384\]"):
        ironcl.jax.linear(x[:, :-1], linear)
    with pytest.raises(TypeError, match="x is int8"):
        ironcl.jax.linear(x.astype(np.int8), linear)
    with pytest.raises(ValueError, match="several matrices"):
        ironcl.jax.linear(x, ironcl.Linear(codes.reshape(2, 128, 384), scales.reshape(2, 1, 3), device="ironwood:0"))


def test_a_program_that_outlives_its_layer_says_so(layer):
    codes, scales, x = layer
    linear = ironcl.Linear(codes, scales, device="ironwood:0")
    program = jax.jit(lambda x: ironcl.jax.linear(x, linear)).lower(x).compile()
    program(x)
    del linear
    gc.collect()
    with pytest.raises(Exception, match="ironcl.Linear of this program is gone"):
        jax.block_until_ready(program(x))

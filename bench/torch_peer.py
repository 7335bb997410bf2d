#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch on this CPU for bench/cpu_peers.py: a line "M N K WARM_UP_NS TURN_NS LEAST MOST" in, a line of JSON out.

Linear in f32 and bf16; torch._scaled_mm on e4m3fn (one scale an operand, bf16 out) and torch._int_mm on int8, each an
empty list where this PyTorch has none for CPUs. Their operands are quantised beforehand: products alone are timed.

Weights rotate through 256 MB, and a turn is as on the other sides: calls that are not counted for
WARM_UP_NS, at least one, then timed ones for TURN_NS, at least LEAST (two above 20 ms, one above 100) and at most MOST.
Of _scaled_mm and _int_mm, of which some take minutes, a first call of 200 ms and more is the answer of all rounds, and
after one of a second calls of more rows with such weights are not made.
"""
import itertools
import json
import sys

import torch

from cpu_peers import turn

ONCE_NS = 200_000_000
LONG_NS = 1_000_000_000


def call_of(kind: str):
    """How operands of a kind are made from f32, and how they are multiplied."""
    if kind in ("f32", "bf16"):
        dtype = torch.float32 if kind == "f32" else torch.bfloat16
        return lambda t: t.to(dtype), torch.nn.functional.linear
    if kind == "scaled":
        one = torch.tensor(1.0)
        return (
            lambda t: t.to(torch.float8_e4m3fn),
            lambda x, w: torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16),
        )
    return lambda t: (t * 32).clamp(-127, 127).to(torch.int8), lambda x, w: torch._int_mm(x, w.t())


def weights_of(make, n: int, k: int) -> list:
    """Copies of the same weights, 256 MB of them."""
    first = make(torch.randn(n, k, dtype=torch.float32))
    return [first] + [first.clone() for _ in range(min(64, (256 << 20) // (n * k * first.element_size())) - 1)]


class Product:
    """A kind of product with its operands, which stay from turn to turn."""

    def __init__(self, kind: str):
        self.make, self.multiply = call_of(kind)
        self.must_be_made = kind in ("f32", "bf16")
        self.sizes, self.x, self.weights = (0, 0, 0), None, None
        self.long = {}  # By n and k: m and the time of a long call.

    def hold(self, m: int, n: int, k: int) -> None:
        if self.sizes == (m, n, k):
            return
        of_weights, self.sizes = self.sizes[1:], (0, 0, 0)
        self.x = self.make(torch.randn(m, k, dtype=torch.float32))
        if of_weights != (n, k):
            self.weights = None  # Before there are others.
            self.weights = itertools.cycle(weights_of(self.make, n, k))
        self.sizes = m, n, k

    def times(self, m: int, n: int, k: int, pace: list) -> tuple:
        """Nanoseconds of a turn's calls, and how many of these were made just now."""
        long_m, long_ns = self.long.get((n, k), (m, 0))
        if m > long_m and long_ns >= LONG_NS:
            return [], 0
        if m == long_m and long_ns != 0:
            return [long_ns], 0
        self.hold(m, n, k)
        once_ns = sys.maxsize if self.must_be_made else ONCE_NS
        with torch.inference_mode():
            result = turn(lambda: self.multiply(self.x, next(self.weights)), *pace, once_ns)
        if result[0] >= once_ns:
            self.long[n, k] = m, result[0]
        return result, len(result)


def main() -> None:
    print(json.dumps({"torch": torch.__version__}), flush=True)
    products = {kind: Product(kind) for kind in ("f32", "bf16", "scaled", "int")}
    for line in sys.stdin:
        m, n, k, *pace = map(int, line.split())
        answer = {}
        for kind, product in products.items():
            try:
                answer[kind + "_ns"], answer[kind + "_calls"] = product.times(m, n, k, pace)
            except (RuntimeError, NotImplementedError, AttributeError, ValueError) as error:
                if product.must_be_made:
                    raise
                print(f"torch_peer: {kind}: {error}", file=sys.stderr)
                answer[kind + "_ns"], answer[kind + "_calls"] = [], 0
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

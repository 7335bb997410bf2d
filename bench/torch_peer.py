#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch on this CPU for bench/cpu_peers: a line "M N K CALLS" in, a line of JSON out.

Linear in f32 and bf16; torch._scaled_mm on e4m3fn (one scale an operand, bf16 out) and torch._int_mm on int8, each an
empty list where this PyTorch has none for CPUs. Their operands are quantised beforehand: products alone are timed.

Weights rotate through 256 MB, as on the other side; one call that is not counted precedes the timed ones. Where that
one takes longer than a second it is the answer; of _scaled_mm and _int_mm, of which some take minutes then, calls of
more rows with such weights are not made.
"""
import json
import sys
import time

import torch

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


def times(kind: str, m: int, n: int, k: int, calls: int, cache: dict, long_calls: dict) -> list:
    long_m, long_times = long_calls.get((kind, n, k), (m, []))
    if m > long_m and kind not in ("f32", "bf16"):
        return []
    if long_times and m == long_m:
        return long_times
    make, multiply = call_of(kind)
    if (n, k) not in cache:
        cache.clear()
        first = make(torch.randn(n, k, dtype=torch.float32))
        copies = max(1, min(16, (256 << 20) // (n * k * first.element_size())))
        cache[n, k] = [first] + [make(torch.randn(n, k, dtype=torch.float32)) for _ in range(copies - 1)]
    weights = cache[n, k]
    x = make(torch.randn(m, k, dtype=torch.float32))
    result = []
    with torch.inference_mode():
        for i in range(calls + 1):
            before = time.perf_counter_ns()
            multiply(x, weights[i % len(weights)])
            result.append(time.perf_counter_ns() - before)
            if i == 0 and result[0] > LONG_NS:
                long_calls[kind, n, k] = m, result
                return result
    return result[1:]


def main() -> None:
    print(json.dumps({"torch": torch.__version__}), flush=True)
    long_calls = {}
    caches = {"f32": {}, "bf16": {}, "scaled": {}, "int": {}}
    for line in sys.stdin:
        m, n, k, calls = map(int, line.split())
        answer = {}
        for kind, cache in caches.items():
            try:
                answer[kind + "_ns"] = times(kind, m, n, k, calls, cache, long_calls)
            except (RuntimeError, NotImplementedError, AttributeError, ValueError) as error:
                if kind in ("f32", "bf16"):
                    raise
                print(f"torch_peer: {kind}: {error}", file=sys.stderr)
                answer[kind + "_ns"] = []
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

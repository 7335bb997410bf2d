#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's linear on this CPU in f32 and bf16 for bench/cpu_peers: a line "M N K CALLS" in, a line of JSON out.

Weights rotate through 256 MB, as on the other side; one call that is not counted precedes the timed ones.
"""
import json
import sys
import time

import torch


def times(m: int, n: int, k: int, calls: int, dtype: torch.dtype, cache: dict) -> list:
    key = (n, k, dtype)
    if key not in cache:
        cache.clear()
        bytes_each = n * k * torch.finfo(dtype).bits // 8
        copies = max(1, min(16, (256 << 20) // bytes_each))
        cache[key] = [torch.randn(n, k, dtype=torch.float32).to(dtype) for _ in range(copies)]
    weights = cache[key]
    x = torch.randn(m, k, dtype=torch.float32).to(dtype)
    result = []
    with torch.inference_mode():
        for i in range(calls + 1):
            before = time.perf_counter_ns()
            torch.nn.functional.linear(x, weights[i % len(weights)])
            result.append(time.perf_counter_ns() - before)
    return result[1:]


def main() -> None:
    print(json.dumps({"torch": torch.__version__}), flush=True)
    f32, bf16 = {}, {}
    for line in sys.stdin:
        m, n, k, calls = map(int, line.split())
        answer = {
            "f32_ns": times(m, n, k, calls, torch.float32, f32),
            "bf16_ns": times(m, n, k, calls, torch.bfloat16, bf16),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

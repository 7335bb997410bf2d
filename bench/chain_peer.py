#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The linears of a model's layers one after another on this machine's CPU: IronCL's fp8 beside PyTorch's bf16.

    ./dev bench cpu-peers --chain [--model NAME] [--layers N] [--m LIST] [--rounds N] [--torch PYTHON]

IronCL's rows are `ironcl bench --model NAME --chain N` (checked against the oracle before they are timed); PyTorch runs
torch.nn.functional.linear over weights of the same shapes, each layer with its own. The sides take turns, a process for
each turn; medians over all rounds, milliseconds per layer.
"""

import argparse
import json
import statistics
import subprocess
import sys

# Rows and columns of the weights of a layer: as `ironcl bench` has them.
SHAPES = {
    "qwen3-0.6b": [(4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072)],
    "qwen3-8b": [(6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)],
}

# Run by PYTHON: [layers, shapes, list of rows] on the command line, milliseconds per layer for each number of rows out.
PEER = r"""
import json, sys, time, torch
layers, shapes, rows = json.loads(sys.argv[1])
linear = torch.nn.functional.linear
chain = [[torch.randn(n, k).bfloat16() for n, k in shapes] for _ in range(layers)]
times = []
with torch.no_grad():
    for m in rows:
        xs = [torch.randn(m, k).bfloat16() for _, k in shapes]
        taken = []
        while len(taken) < 3 or sum(taken) < 2 and len(taken) < 50:
            start = time.perf_counter()
            for weights in chain:
                for x, w in zip(xs, weights):
                    linear(x, w)
            taken.append(time.perf_counter() - start)
        times.append(sorted(taken[1:])[(len(taken) - 1) // 2] * 1e3 / layers)
print(json.dumps(times))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ironcl")
    parser.add_argument("--chain", action="store_true", help="this benchmark, for `./dev bench cpu-peers`")
    parser.add_argument("--model", default="qwen3-8b", choices=sorted(SHAPES))
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--m", default="1,4,16,64", help="rows: a list with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="a Python that has PyTorch")
    args = parser.parse_args()
    rows = [int(m) for m in args.m.split(",")]
    command = [args.ironcl, "bench", "--model", args.model, "--chain", str(args.layers), "--m", args.m]
    command += ["--device", "opencl:cpu", "--json", "-"]
    peer = [args.torch, "-c", PEER, json.dumps([args.layers, SHAPES[args.model], rows])]
    ours, theirs, worst = [[] for _ in rows], [[] for _ in rows], 0.0
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        for i, row in enumerate(report["rows"]):
            ours[i].append(row["layer_ns"] / 1e6)
            worst = max(worst, row["max_error_over_bound"])
        for i, time in enumerate(json.loads(subprocess.run(peer, check=True, stdout=subprocess.PIPE).stdout)):
            theirs[i].append(time)
    print(f"{args.model}, {args.layers} layers, medians of {args.rounds} rounds; largest error over its bound {worst:.3f}")
    print(f"{'M':>4} {'IronCL fp8, ms':>15} {'PyTorch bf16, ms':>17} {'times as fast':>14}")
    for m, a, b in zip(rows, ours, theirs):
        a, b = statistics.median(a), statistics.median(b)
        print(f"{m:4} {a:15.2f} {b:17.2f} {b / a:14.2f}")


if __name__ == "__main__":
    main()

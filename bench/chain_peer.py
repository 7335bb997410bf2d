#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The linears of a model's layers one after another on this machine: IronCL's fp8 beside PyTorch.

    ./dev bench cpu-peers --chain [--model NAME] [--layers N] [--m LIST] [--rounds N] [--torch PYTHON]
    bench/chain_peer.py IRONCL --gpu [...]

IronCL's rows are `ironcl bench --model NAME --chain N` (checked against the oracle before they are timed). PyTorch runs
torch.nn.functional.linear in bf16 over weights of the same shapes, each layer with its own; on a GPU in a CUDA graph,
and beside it fp8 with scales of 1x128 by 128x128 (torch._scaled_mm), whose activations a compiled function quantises.
The sides take turns, a process for each turn; medians over all rounds, time per layer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

# Rows and columns of the weights of a layer: as `ironcl bench` has them.
SHAPES = {
    "qwen3-0.6b": [(4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072)],
    "qwen3-8b": [(6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)],
}

# Run by PYTHON: [layers, shapes, list of rows] on the command line; out come, for each number of rows, milliseconds per
# layer by the name of what was timed, or why it was not.
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
        times.append({"bf16": sorted(taken[1:])[(len(taken) - 1) // 2] * 1e3 / layers})
print(json.dumps(times))
"""

PEER_ON_GPU = r"""
import json, sys, torch
layers, shapes, rows = json.loads(sys.argv[1])
linear, fp8 = torch.nn.functional.linear, torch.float8_e4m3fn
def quantise(x):
    groups = x.float().view(x.shape[0], -1, 128)
    scale = groups.abs().amax(2).clamp(min=1e-12) / 448
    return (groups / scale[:, :, None]).to(fp8).view(x.shape), scale.t().contiguous().t()
torch._dynamo.config.recompile_limit = 64  # Each number of rows and each width is another one.
compiled = torch.compile(quantise, dynamic=False)
def times_of(step):
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    taken = []
    for _ in range(25):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(start.elapsed_time(end) / layers)
    return sorted(taken[5:])[10]
def weights_of(n, k):
    codes = torch.randn(n, k, device="cuda").to(fp8)
    scales = torch.rand(n // 128, k // 128, device="cuda") + 0.5
    # Rows of scales are padded to a multiple of four.
    return codes, torch.nn.functional.pad(scales, (0, -scales.shape[1] % 4))[:, : scales.shape[1]]
chain = [[torch.randn(n, k, device="cuda").bfloat16() for n, k in shapes] for _ in range(layers)]
quantised = [[weights_of(n, k) for n, k in shapes] for _ in range(layers)]
out = []
with torch.no_grad():
    for m in rows:
        xs = [torch.randn(m, k, device="cuda").bfloat16() for _, k in shapes]
        def bf16():
            for weights in chain:
                for x, w in zip(xs, weights):
                    linear(x, w)
        def block_fp8():
            for weights in quantised:
                for x, (w, scales) in zip(xs, weights):
                    codes, scale = compiled(x)
                    torch._scaled_mm(codes, w.t(), scale, scales.t(), out_dtype=torch.bfloat16)
        row = {}
        for name, step in (("bf16", bf16), ("block fp8", block_fp8)):
            try:
                row[name] = times_of(step)
            except Exception as error:
                row[name] = str(error).splitlines()[0]
        out.append(row)
print(json.dumps(out))
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
    parser.add_argument("--gpu", action="store_true", help="on the GPU, whose queue takes no times")
    args = parser.parse_args()
    rows = [int(m) for m in args.m.split(",")]
    command = [args.ironcl, "bench", "--model", args.model, "--chain", str(args.layers), "--m", args.m]
    command += ["--device", "opencl:gpu" if args.gpu else "opencl:cpu", "--json", "-"]
    environment = {**os.environ, "IRONCL_OPENCL_PROFILING": "0"} if args.gpu else None
    peer = [args.torch, "-c", PEER_ON_GPU if args.gpu else PEER, json.dumps([args.layers, SHAPES[args.model], rows])]
    times, shares, refused, worst = {}, {}, {}, 0.0  # By number of rows and name.
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)
        for row in report["rows"]:
            times.setdefault((row["m"], "IronCL"), []).append(row["layer_ns"] / 1e6)
            shares.setdefault(row["m"], []).append(row["enqueue_ns"] / 1e6)
            worst = max(worst, row["max_error_over_bound"])
        for m, of_peer in zip(rows, json.loads(subprocess.run(peer, check=True, stdout=subprocess.PIPE).stdout)):
            for name, time in of_peer.items():
                if isinstance(time, str):
                    refused[name, m] = time
                else:
                    times.setdefault((m, "PyTorch " + name), []).append(time)
    names = list(dict.fromkeys(name for _, name in times))
    scale, unit = (1e3, "us") if args.gpu else (1, "ms")
    print(f"{args.model}, {args.layers} layers, medians of {args.rounds} rounds, {unit} per layer; largest error over its bound {worst:.3f}")
    print(f"{'M':>4} {'enqueueing':>11}" + "".join(f"{name:>18}" for name in names) + f"{'times as fast':>16}")
    for m in rows:
        medians = [statistics.median(times[m, name]) if (m, name) in times else None for name in names]
        cells = "".join(f"{'-' if time is None else format(time * scale, '.2f'):>18}" for time in medians)
        print(f"{m:4} {statistics.median(shares[m]) * scale:11.2f}{cells}{min(filter(None, medians[1:])) / medians[0]:16.2f}")
    for (name, m), why in refused.items():
        print(f"{name}, M = {m}: {why}")


if __name__ == "__main__":
    main()

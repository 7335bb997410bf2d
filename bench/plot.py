#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `ironcl bench --csv` measured: throughput over M, memory of the weights, cost over the size of the problem.

    bench/plot.py bench.csv -o bench.png [--peers cpu-peers.json]
    bench/plot.py scaling.csv -o scaling.png --scaling 128,2048,2048

With --peers (rows of `./dev bench cpu-peers`) it also draws how many times faster than the peers each shape is.
With --scaling M,N,K (rows of `./dev bench cpu-scaling`) it draws cost over each of M, N and K, the other two at these
values, beside the line of a cost that is proportional, and prints the slope between neighbours.
Rows whose check failed are left out, and said so.
"""
import argparse
import csv
import json
import math
import statistics
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def read_rows(path):
    """The rows that passed their check, numbers as numbers; grouped by (device, n, k), ascending in m."""
    groups, refused = defaultdict(list), 0
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["verdict"] != "pass":
                refused += 1
                continue
            for key in ("m", "n", "k"):
                row[key] = int(row[key])
            for key in ("time_ns", "gflops", "weights_bytes", "of_fma_ceiling"):
                row[key] = float(row[key]) if row[key] else None
            groups[row["device"], row["n"], row["k"]].append(row)
    if refused:
        print(f"{path}: {refused} rows without a passed check are not drawn", file=sys.stderr)
    if not groups:
        sys.exit(f"{path}: no row to draw")
    return {key: sorted(rows, key=lambda r: r["m"]) for key, rows in sorted(groups.items())}


def label(key):
    device, n, k = key
    return f"{device} {n}x{k}"


def draw_throughput(axis, groups):
    ceilings = {}
    for key, rows in groups.items():
        axis.plot([r["m"] for r in rows], [r["gflops"] for r in rows], marker="o", ms=3, label=label(key))
        for row in rows:
            if row["of_fma_ceiling"]:
                ceilings.setdefault(key[0], []).append(row["gflops"] / row["of_fma_ceiling"])
    for device, of_rows in ceilings.items():
        ceiling = statistics.median(of_rows)  # Each row's was measured between its own calls.
        axis.axhline(ceiling, ls="--", lw=1, color="gray")
        axis.annotate(f"{device}: measured f32 multiply-adds", (1, ceiling), fontsize=7, va="bottom")
    axis.set(xscale="log", yscale="log", xlabel="M (rows of A)", ylabel="GFLOP/s", title="Throughput")
    axis.legend(fontsize=7)


def draw_cost(axis, groups):
    for key, rows in groups.items():
        axis.plot([r["m"] * r["n"] * r["k"] for r in rows], [r["time_ns"] / 1e6 for r in rows], marker="o", ms=3,
                  label=label(key))
    axis.set(xscale="log", yscale="log", xlabel="M N K (multiply-adds)", ylabel="ms", title="Cost")


def draw_memory(axis, groups):
    shapes, ours, bf16, f32 = [], [], [], []
    for (_, n, k), rows in groups.items():
        shapes.append(f"{n}x{k}")
        ours.append(rows[-1]["weights_bytes"] / 2**20)
        bf16.append(n * k * 2 / 2**20)
        f32.append(n * k * 4 / 2**20)
    places = range(len(shapes))
    for shift, values, name in ((-0.27, ours, "prepared fp8"), (0, bf16, "bf16 copy"), (0.27, f32, "f32 copy")):
        axis.bar([p + shift for p in places], values, width=0.25, label=name)
    axis.set_xticks(list(places), shapes, rotation=30, fontsize=7)
    axis.set(ylabel="MiB", title="Weights in memory")
    axis.legend(fontsize=7)


def draw_speed_up(axis, path):
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    groups = defaultdict(list)
    for row in rows:
        if row["verdict"] == "pass":
            groups[row["n"], row["k"]].append(row)
    for (n, k), found in sorted(groups.items()):
        found.sort(key=lambda r: r["m"])
        for field, style, peer in (("ratio", "-", "OpenBLAS"), ("ratio_torch_bf16", ":", "PyTorch bf16")):
            points = [(r["m"], r[field]) for r in found if field in r]
            if points:
                axis.plot(*zip(*points), style, marker="o", ms=3, label=f"{n}x{k} / {peer}")
    axis.axhline(1, color="gray", lw=1)
    axis.set(xscale="log", yscale="log", xlabel="M (rows of A)", ylabel="times faster", title="Speed-up over peers")
    axis.legend(fontsize=7)


def draw_scaling(groups, base, out):
    """Cost over one dimension at a time, log-log, with the proportional line through the largest size."""
    figure, axes = plt.subplots(1, 3, figsize=(15, 4), layout="constrained", sharey=True)
    rows = [row for found in groups.values() for row in found]
    for axis, (name, others) in zip(axes, (("m", ("n", "k")), ("n", ("m", "k")), ("k", ("m", "n")))):
        # Of a problem measured more than once the best median.
        points = {r[name]: r for r in sorted(rows, key=lambda r: -r["time_ns"]) if all(r[o] == base[o] for o in others)}
        sizes = sorted(points)
        times = [points[size]["time_ns"] / 1e3 for size in sizes]
        for variant in sorted({r["variant"] for r in points.values()}):
            chosen = [(s, t) for s, t in zip(sizes, times) if points[s]["variant"] == variant]
            axis.plot(*zip(*chosen), "o", ms=4, label=variant)
        axis.plot(sizes, times, lw=1, color="gray")
        axis.plot(sizes, [times[-1] * s / sizes[-1] for s in sizes], ls=":", color="gray", label="proportional")
        fixed = ", ".join(f"{o.upper()} = {base[o]}" for o in others)
        axis.set(xscale="log", yscale="log", xlabel=name.upper(), title=f"Cost over {name.upper()} ({fixed})")
        axis.legend(fontsize=8)
        print(f"{name.upper()}: " + "  ".join(
            f"{a}-{b}: {math.log(tb / ta) / math.log(b / a):.2f}"
            for a, b, ta, tb in zip(sizes, sizes[1:], times, times[1:])))
    axes[0].set(ylabel="µs")
    figure.savefig(out, dpi=110)
    print(f"{out}: {len(rows)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", help="rows of `ironcl bench --csv`")
    parser.add_argument("-o", "--out", default="bench.png", help="picture to write (default bench.png)")
    parser.add_argument("--peers", help="cpu-peers.json")
    parser.add_argument("--scaling", metavar="M,N,K", help="draw cost over each dimension around this problem")
    arguments = parser.parse_args()
    groups = read_rows(arguments.csv)
    if arguments.scaling:
        draw_scaling(groups, dict(zip("mnk", map(int, arguments.scaling.split(",")))), arguments.out)
        return
    count = 4 if arguments.peers else 3
    figure, axes = plt.subplots(1, count, figsize=(5 * count, 4), layout="constrained")
    draw_throughput(axes[0], groups)
    draw_cost(axes[1], groups)
    draw_memory(axes[2], groups)
    if arguments.peers:
        draw_speed_up(axes[3], arguments.peers)
    figure.savefig(arguments.out, dpi=130)
    print(f"{arguments.out}: {sum(map(len, groups.values()))} rows")


if __name__ == "__main__":
    main()

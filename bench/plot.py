#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `ironcl bench --csv` measured: throughput over M, memory of the weights, cost over the size of the problem.

    bench/plot.py bench.csv -o bench.png [--peers cpu-peers.json]

With --peers (rows of `./dev bench cpu-peers`) it also draws how many times faster than the peers each shape is.
Rows whose check failed are left out, and said so.
"""
import argparse
import csv
import json
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
                ceilings[key[0]] = row["gflops"] / row["of_fma_ceiling"]
    for device, ceiling in ceilings.items():
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", help="rows of `ironcl bench --csv`")
    parser.add_argument("-o", "--out", default="bench.png", help="picture to write (default bench.png)")
    parser.add_argument("--peers", help="cpu-peers.json")
    arguments = parser.parse_args()
    groups = read_rows(arguments.csv)
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

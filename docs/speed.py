#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/speed.svg, the README's picture of speed, from the tables of performance/h200.md and performance/cpu.md.

    docs/speed.py        needs matplotlib (pip install matplotlib)
"""
import pathlib
import re

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = pathlib.Path(__file__).parent
GREY, BLUE, LIGHT = "#9aa3ad", "#1f5fa8", "#7fb0e0"


def table(page, first):
    """The rows of the table whose head begins with `first`, as lists of cells."""
    lines = (HERE / page).read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[:1] + rows[2:]


def number(text):
    found = re.search(r"\d+(\.\d+)?", text)
    return float(found.group()) if found else None


def gpu(axis):
    """TFLOP/s of every side at many rows."""
    rows = table("performance/h200.md", "µs")
    shapes = [row for row in rows[1:] if row[0].startswith(("4096", "512"))]
    sides = {"IronCL, class f32": (1, LIGHT), "IronCL, class tensor14": (2, BLUE), "DeepGEMM": (3, "#555d66"),
             "PyTorch blockwise": (4, GREY), "cuBLAS fp8, one scale": (5, "#c5cbd2")}
    for at, (name, (column, colour)) in enumerate(sides.items()):
        rates = []
        for row in shapes:
            m, n, k = (int(part) for part in row[0].split(" x "))
            rates.append(2e-6 * m * n * k / number(row[column]))
        axis.barh([i + 0.16 * (at - 2) for i in range(len(shapes))], rates, 0.15, label=name, color=colour)
    axis.set_yticks(range(len(shapes)), [row[0] for row in shapes])
    axis.invert_yaxis()
    axis.set(title="H200, M x N x K, cold L2", xlabel="TFLOP/s", xlim=(0, 2200))
    axis.legend(fontsize=7, loc="upper right")


def cpu(axis):
    """Speed-up over OpenBLAS and PyTorch of 7168 x 2048."""
    row = next(row for row in table("performance/cpu.md", "N x K") if row[0] == "7168 x 2048")
    marks, over = [1, 16, 128, 1024], {"OpenBLAS, f32 weights": [], "PyTorch, bf16 weights": []}
    for cell in row[1:]:
        parts = [number(part) for part in cell.split("/")]
        over["OpenBLAS, f32 weights"].append(parts[0])
        over["PyTorch, bf16 weights"].append(parts[1])
    for at, (name, values) in enumerate(over.items()):
        bars = axis.bar([i + 0.36 * (at - 0.5) for i in range(4)], values, 0.34, label=f"over {name}", color=[BLUE, LIGHT][at])
        axis.bar_label(bars, fmt="%.1f", fontsize=7)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xticks(range(4), [f"M = {m}" for m in marks])
    axis.set(title="Xeon with AMX, 4 cores, 7168 x 2048", ylabel="speed-up", ylim=(0, 9))
    axis.legend(fontsize=7, loc="upper left")


def main():
    plt.rcParams.update({"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "ironcl"})
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=[3, 2], layout="constrained")
    gpu(axes[0])
    cpu(axes[1])
    figure.savefig(HERE / "speed.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

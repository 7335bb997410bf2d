#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures stand once, in the tables of performance/h200.md, performance/cpu.md and numerics.md. This makes of them the README's
table, and the pictures speed.svg and errors.svg.

    docs/pictures.py        needs matplotlib (pip install matplotlib); a test compares the README's table
"""
import pathlib
import re

HERE = pathlib.Path(__file__).parent
GREY, BLUE, LIGHT = "#9aa3ad", "#1f5fa8", "#7fb0e0"


def table(page, first, number_of=0):
    """The rows of the table whose head begins with `first`, as lists of cells; number_of: how many such tables come before."""
    lines = (HERE / page).read_text().splitlines()
    begin = [i for i, line in enumerate(lines) if line.startswith(f"| {first} |")][number_of]
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


def errors(axis):
    """The range of errors over the bound, one bar per row."""
    rows = table("numerics.md", "errors over the bound")[1:]
    for at, row in enumerate(rows):
        least, most = float(row[1]), float(row[2])
        axis.plot([least, most], [at, at], linewidth=8, solid_capstyle="butt", color=BLUE if most <= 1 else GREY)
        axis.text(most * 1.15, at, f"{row[1]} to {row[2]}", va="center", fontsize=7)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_yticks(range(len(rows)), [row[0] for row in rows])
    axis.invert_yaxis()
    axis.set(xscale="log", xlim=(1e-3, 60), title="Error of real layers as a share of the bound; right of the line is wrong")


def readme_rows():
    """The rows of the README's table for the H200: times."""
    h200 = {row[0]: row for row in table("performance/h200.md", "µs")[1:]}
    lines = []
    for shape in ("4096 x 4096 x 4096", "4096 x 7168 x 16384", "128 x 7168 x 16384", "16 x 7168 x 16384", "1 x 4096 x 4096"):
        times = [re.sub(r" \(.*", "", h200[shape][column]) for column in (1, 2, 3, 5, 4)]
        lines.append(f"| H200, {shape} | {' | '.join(times)} |")
    return lines


def readme_cpu_rows():
    """The rows of the README's table for CPUs: least and most speed-up over all N x K, by peer and M. Older runs, in italics, are left out."""
    def row(label, rows, peers):
        """peers: of a cell the texts whose figures make a span each."""
        spans = []
        for peer in range(2):
            for column in (1, 3, 4):  # M = 1, 128, 1024
                cells = [peers(line[column])[peer] for line in rows[1:] if not line[column].startswith("*")]
                values = [float(found) for cell in cells for found in re.findall(r"\d+\.\d+", cell)]
                spans.append(f"{min(values):.1f} to {max(values):.1f}" if values else "-")
        return f"| {label} | {' | '.join(spans)} |"

    cpu = "performance/cpu.md"
    return [row("Xeon with AMX, 4 cores", table(cpu, "N x K"), lambda cell: cell.split("/")),
            row("EPYC (Zen 4), 2 cores", table(cpu, "N x K", 1), lambda cell: cell.partition(";")[2].split("/")),
            row("Xeons with neither, 2 cores", table(cpu, "N x K, over OpenBLAS: Emerald; Sapphire"), lambda cell: [cell, ""])]


def write_readme():
    readme = HERE.parent / "README.md"
    lines = readme.read_text().splitlines()
    for mark, rows in (("| H200, ", readme_rows()), (("| Xeon", "| EPYC"), readme_cpu_rows())):
        begin = next(i for i, line in enumerate(lines) if line.startswith(mark))
        end = next(i for i in range(begin, len(lines)) if not lines[i].startswith(mark))
        lines[begin:end] = rows
    readme.write_text("\n".join(lines) + "\n")


def main():
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    write_readme()
    plt.rcParams.update({"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "ironcl"})
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=[3, 2], layout="constrained")
    gpu(axes[0])
    cpu(axes[1])
    figure.savefig(HERE / "speed.svg", metadata={"Date": None})
    figure, axis = plt.subplots(figsize=(8, 2.6), layout="constrained")
    errors(axis)
    figure.savefig(HERE / "errors.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A picture of what `ironcl accuracy --json FILE` measured: bits per value against what is lost, a point per method.

    accuracy_plot.py accuracy.json picture.svg
"""

import json
import statistics
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def main(source, picture):
    with open(source, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    methods = defaultdict(list)
    for row in rows:
        methods[row["method"]].append(row)
    order = sorted(methods, key=lambda name: statistics.median(float(row["snr_db"]) for row in methods[name]))
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 0.32 * len(order) + 1.5), sharey=True, layout="constrained")
    for axis, key, label in ((left, "snr_db", "SNR of the weights, dB"),
                             (right, "output_nmse_both", "error of the product (NMSE), activations quantised too")):
        for place, name in enumerate(order):
            values = [float(row[key]) for row in methods[name]]
            axis.plot(values, [place] * len(values), "o", color="tab:blue", alpha=0.5)
            axis.plot(statistics.median(values), place, "|", color="black", markersize=14)
        axis.set_xlabel(label)
        axis.grid(axis="x", alpha=0.3)
    right.set_xscale("log")
    bits = {name: statistics.median(float(row["bits_per_value"]) for row in methods[name]) for name in order}
    left.set_yticks(range(len(order)), [f"{name} ({bits[name]:.2f} bits)" for name in order])
    figure.suptitle(f"{len({row['layer'] for row in rows})} layers; a point each, the mark is the median")
    figure.savefig(picture)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

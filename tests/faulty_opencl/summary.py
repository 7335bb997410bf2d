#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up tables that ironcl_faulty_walk wrote (--table), of whole walks or of their parts, as docs/trust.md adds them up.

usage: summary.py PROBLEM=TABLE[,TABLE...]...     for example: summary.py stream=faulty-opencl-stream.md
A table has a row for each kind of failure, step and call: what the plugin answered and how often.
"""
import collections
import pathlib
import re
import sys

ORDER = ["OUT_OF_DEVICE_MEMORY", "OUT_OF_HOST_MEMORY", "BUILD_FAILED", "DEVICE_LOST", "INTERNAL", "UNAVAILABLE", "refused with the reason", "no device", "no effect"]


def answers(files):
    """How it failed -> what came of it -> how often."""
    table = collections.defaultdict(collections.Counter)
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) != 4 or cells[0] in ("how", "---"):
                continue
            for count, what in re.findall(r"(\d+) × ((?:no device, logged|[^,])+)", cells[3]):
                what = "no device" if what.startswith("no device") else re.sub(r" from .*", "", what)
                table[cells[0]][what] += int(count)
    return table


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    total = 0
    for argument in sys.argv[1:]:
        problem, _, files = argument.partition("=")
        table = answers(files.split(","))
        lives = sum(sum(counts.values()) for counts in table.values())
        total += lives
        print(f"| problem `{problem}`, {lives:,} lives | what came of them |\n|---|---|")
        for how, counts in sorted(table.items(), key=lambda item: ["refused", "fails later", "device lost"].index(item[0])):
            known = [f"{counts[what]} {what}" for what in ORDER if counts[what]]
            other = [f"**{count} {what}**" for what, count in counts.items() if what not in ORDER]
            print(f"| {how} | {', '.join(known + other)} |")
        print()
    print(f"{total:,} in all", file=sys.stderr)


if __name__ == "__main__":
    main()

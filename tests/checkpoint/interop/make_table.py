#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `ironcl` over the folders of make_folders.py, here or in ../foreign, and writes their table as CSV, which docs/checkpoints.md shows.

    make_table.py FOLDERS --ironcl build/release/bin/ironcl [--write docs/tables/tools.csv] [--foreign] [--device URI]...

A row is a tool: the schemes that run, with the largest error over the bound of all their layers on any device, against
torch's float64; the schemes that are refused. The lines with which they are refused are printed. Exit status 1 where a
folder of a readable scheme does not run or is beyond its bound, and where one of another scheme is not refused.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time


def run(command):
    return subprocess.run(command, capture_output=True, text=True)


def largest_error(report, device):
    errors = [float(e["max_error_over_bound"]) for case in report["cases"] for e in case["expect"] if e["uri"] == device]
    return max(errors) if errors else None


def compare(options, folder, expect, layers):
    """(verdict text, in order) of comparing every layer with the expected result."""
    worst = {}
    for index, layer in enumerate(layers):
        command = [options.ironcl, "compare", folder, "--layer", layer, "--input", f"{expect}:x{index}"]
        command += ["--expect", f"{expect}:y{index}", "--json", "-"]
        for device in options.device:
            command += ["--device", device]
        outcome = run(command)
        if not outcome.stdout.startswith("{"):
            return f"**not run**: {first_line(outcome.stderr, folder)}", False
        report = json.loads(outcome.stdout)
        for case in report["cases"]:
            for result in case["devices"]:
                if result["verdict"] in ("unsupported", "error"):
                    worst[result["uri"]] = "not supported" if result["verdict"] == "unsupported" else "**failed**"
            for expected in case["expect"]:
                error = float(expected["max_error_over_bound"])
                before = worst.get(expected["uri"], 0.0)
                if not isinstance(before, str):
                    worst[expected["uri"]] = max(before, error)
    numbers = [error for error in worst.values() if not isinstance(error, str)]
    good = bool(numbers) and all(error <= 1 for error in numbers)
    text = ", ".join(f"{uri} {error if isinstance(error, str) else f'{error:.2g}'}" for uri, error in worst.items() if uri != "oracle")
    return f"runs: {text}", good


def first_line(text, folder):
    line = next((line for line in text.splitlines() if line.strip()), "(nothing was said)")
    line = line.replace(folder + "/", "").replace(folder, "PATH").replace(os.path.dirname(folder) + "/", "")
    return re.sub(r"^ironcl \w+: ", "", line)


def table_of(results):
    """The rows of [(tool, scheme, text)], one a tool, in order."""
    tools = {}
    for tool, scheme, text in results:
        read, refused, errors = tools.setdefault(tool, ([], [], []))
        if text.startswith("runs: "):
            read.append(scheme)
            errors += [float(number) for number in re.findall(r":\d+ ([\d.e+-]+)", text)]
            if "not supported" in text or "**" in text:
                read[-1] += f" ({text[6:]})"
        elif not re.match("the same|one shard", scheme):  # variants: their lines are printed, and asked for by the tests
            refused.append(scheme if text.startswith("refused: ") else f"{scheme} ({text})")
    rows = [[tool, "; ".join(read), f"{max(errors, default=0):.2g}", "; ".join(refused)]
            for tool, (read, refused, errors) in tools.items() if read]
    others = "; ".join("; ".join(refused) for read, refused, _ in tools.values() if not read and refused)
    return rows + ([["others", "", "", others]] if others else [])


def row_of(options, entry):
    folder = os.path.join(options.folders, entry.get("path", entry["name"]))
    if "failed" in entry:
        return f"not made: {entry['failed']}", True
    if entry["supported"]:
        return compare(options, folder, os.path.join(options.folders, entry["name"] + ".expect.safetensors"), entry["layers"])
    outcome = run([options.ironcl, "inspect", folder])
    said = f"refused: {first_line(outcome.stderr, folder)}"
    return said, outcome.returncode == 3 and entry.get("says", "") in outcome.stderr


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders")
    arguments.add_argument("--ironcl", required=True)
    arguments.add_argument("--device", action="append", default=[])
    arguments.add_argument("--foreign", action="store_true", help="the folders are those of ../foreign")
    arguments.add_argument("--write", help="the file of the table")
    options = arguments.parse_args()
    options.device = options.device or ["ironwood:0", "opencl:0"]
    start, results, wrong = time.time(), [], []
    for entry in json.load(open(os.path.join(options.folders, "folders.json"))):
        text, good = row_of(options, entry)
        results.append((entry["tool"], entry["scheme"], text))
        print(("ok   " if good else "WRONG"), entry["name"], text, flush=True)
        if not good:
            wrong.append(entry["name"])
    if options.write:
        with open(options.write, "w", newline="") as file:
            head = ["#" if options.foreign else "tool", "read", "error, of the bound", "refused"]
            csv.writer(file, lineterminator="\n").writerows([head, *table_of(results)])
    print(f"{len(results)} folders, {len(wrong)} wrong {wrong or ''}, {time.time() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

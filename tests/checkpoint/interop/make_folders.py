#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint folder for each scheme of each tool, and beside it what its layers' products must be.

    python -m venv venv && venv/bin/pip install torch transformers accelerate llmcompressor torchao optimum-quanto \
        nvidia-modelopt amd-quark bitsandbytes gguf convert-to-quant prodigy-plus-schedule-free comfy-kitchen
    venv/bin/pip install --no-deps fireworks-prequant
    venv/bin/python make_folders.py OUT [--only REGEX]

OUT/NAME is the folder, OUT/NAME.expect.safetensors holds x<i> (bf16) and y<i> (float64) of some layers, OUT/folders.json
lists all of them, also those that could not be made, with the reason. No GPU is needed. See ../../../docs/checkpoints.md.
"""

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import re
import shutil
import time
import traceback

PACKAGES = {"compressed-tensors": ("llmcompressor", "compressed-tensors"), "modelopt": ("nvidia-modelopt",),
            "quanto": ("optimum-quanto",), "quark": ("amd-quark",), "convert_to_quant": ("convert_to_quant",)}


def tool_with_version(tool):
    if tool.startswith("by hand"):
        return tool
    versions = [f"{package} {importlib.metadata.version(package)}" for package in PACKAGES.get(tool, (tool,))]
    return " / ".join(versions)


def make(entry, out, queue):
    import expectation

    name, _, _, how, write = entry
    folder = os.path.join(out, name)
    try:
        write(folder)
        layers = []
        if how is not None:
            tensors = expectation.read_tensors(folder)
            stacked = expectation.stacked_layers(tensors, how["block"])
            layers = expectation.layers_of(tensors) + stacked
            if not layers:
                raise RuntimeError(f"no layer to check among {sorted(tensors)[:6]}")
            expectation.save(folder + ".expect.safetensors", how, layers, folder)
        queue.put(dict(layers=[layer[0] for layer in layers]))
    except BaseException as error:  # of any tool: it becomes a row of the table
        traceback.print_exc()
        queue.put(dict(failed=f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out")
    arguments.add_argument("--only", default="", help="make the folders whose names match")
    arguments.add_argument("--suffix", default="", help="after each name: the same schemes of another version")
    options = arguments.parse_args()
    from schemes import SCHEMES

    os.makedirs(options.out, exist_ok=True)
    listing = os.path.join(options.out, "folders.json")
    rows = {row["name"]: row for row in json.load(open(listing))} if os.path.exists(listing) else {}
    context = multiprocessing.get_context("fork")  # tools patch each other's classes: each folder has its own process
    start = time.time()
    for entry in SCHEMES:
        name, tool, words, how, write = entry
        if not re.search(options.only, name):
            continue
        name += options.suffix
        entry = (name, tool, words, how, write)
        for path in (name, name + ".source"):
            shutil.rmtree(os.path.join(options.out, path), ignore_errors=True)
        queue = context.Queue()
        process = context.Process(target=make, args=(entry, options.out, queue))
        process.start()
        result = queue.get(timeout=300)
        process.join()
        shutil.rmtree(os.path.join(options.out, name + ".source"), ignore_errors=True)
        rows[name] = dict(name=name, tool=tool_with_version(tool), scheme=words, supported=how is not None, **result)
        print(f"{time.time() - start:6.1f} s  {name:20} {result.get('failed') or ', '.join(result['layers']) or 'made'}", flush=True)
        with open(listing, "w") as file:
            json.dump(list(rows.values()), file, indent=1)


if __name__ == "__main__":
    main()

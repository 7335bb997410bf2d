#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folders of folders.py into OUT, as tests/data/foreign holds them: plain Python, the same bytes each time.

    make_folders.py OUT

OUT/NAME is the folder, OUT/NAME.expect.safetensors holds x0 (bf16) and y0 (float64) where it is read, and OUT/folders.json
lists them for make_table.py and for tests/checkpoint/foreign_test.cpp.
"""

import json
import os
import shutil
import sys

from folders import FOLDERS
from numbers_ import product, save, tensor


def activations(k):
    """3 rows of numbers that bf16 holds."""
    return [[((5 * r + 3 * c) % 17 - 8) * 2.0 ** ((r + c) % 4 - 1) for c in range(k)] for r in range(3)]


def write(out, folder):
    path = os.path.join(out, folder["name"])
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for name, content in folder["files"].items():
        if name.endswith(".safetensors"):
            save(os.path.join(path, name), content, {"format": "pt"})
        else:
            with open(os.path.join(path, name), "w") as file:
                json.dump(content, file, indent=1)
                file.write("\n")
    row = dict(name=folder["name"], tool=str(folder["row"]), scheme=folder["convention"], supported=folder["refused"] is None,
               layers=[folder["layer"]])
    if folder["path"]:
        row["path"] = folder["name"] + "/" + folder["path"]
    if folder["refused"] is not None:
        return dict(row, says=folder["refused"])
    x = activations(len(folder["w"][0]))
    y = product(x, folder["w"], folder["how"], folder["bias"])
    save(path + ".expect.safetensors", {"x0": tensor("BF16", x), "y0": tensor("F64", y)})
    return row


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    rows = [write(out, folder) for folder in FOLDERS]
    with open(os.path.join(out, "folders.json"), "w") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()

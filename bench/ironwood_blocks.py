#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes cl/tuned/ironwood.json, the tuned table of kernel blocks: `ironcl model --search` for every line "n k q" of
backends/ironwood/tuned_shapes.txt at every batch, x in bf16 quantised in the kernel, in bf16 as it is, and in e4m3fn.

    bench/ironwood_blocks.py build/release/bin/ironcl cl/tuned/ironwood.json [--tpu 7x]
"""

import argparse
import json
import pathlib
import subprocess

BATCHES = [2**i for i in range(14)]


def blocks(options, m, n, k, q, x, quantize):
    words = [options.ironcl, "model", "--search", "--json", "-", "--tpu", options.tpu, "--x-dtype", x]
    sizes = {"--m": m, "--n": n, "--k": k, "--block": q, "--x-block": f"1x{q}"}
    words += [str(word) for pair in sizes.items() for word in pair]
    words += ["--quantize-activations", "on" if quantize else "off"]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)["best"]["kernel_blocks"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("out")
    parser.add_argument("--tpu", default="7x")
    parser.add_argument("--shapes", default=pathlib.Path(__file__).parent.parent / "backends/ironwood/tuned_shapes.txt")
    options = parser.parse_args()
    entries = []
    for line in pathlib.Path(options.shapes).read_text().splitlines():
        if not (words := line.split("#")[0].split()):
            continue
        n, k, q = map(int, words)
        for x, quantize in (("bf16", True), ("bf16", False), ("e4m3fn", False)):
            at = {m: blocks(options, m, n, k, q, x, quantize) for m in BATCHES}
            entry = {"tpu": options.tpu, "n": n, "k": k, "q": q, "x": x, "quantize": quantize}
            batches = ", ".join(f'"{m}": {json.dumps(b, separators=(",", ":"))}' for m, b in at.items())
            entries.append(f'    {json.dumps(entry)[:-1]},\n     "batches": {{{batches}}}}}')
    head = {
        "made_by": "bench/ironwood_blocks.py",
        "time_kind": "modelled",
        "meaning": "batch (largest m) to kernel blocks [B, O, I]; x scaled 1xq, w q x q, out bf16",
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    with open(options.out, "w") as out:
        out.write("\n".join(["{", *lines, '  "entries": [', ",\n".join(entries), "  ]", "}"]) + "\n")


if __name__ == "__main__":
    main()

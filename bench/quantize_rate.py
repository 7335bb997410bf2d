#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes of input a second of `ironcl quantize`, beside `cp` of the same folder, taking turns; and its own memory.

    quantize_rate.py build/release/bin/ironcl [--gib 4] [--rounds 3] [--work DIR] [-- --scheme nvfp4]

cp does not wait for the disk, quantize does (it makes sure of each file before its rename): "cp, synced" does too. Memory
is the most of RssAnon, what the process has itself; pages of mapped files, which the system takes back at will, are not
in it. Standard library only.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "quantize"))
from checkpoint_file import write_shard  # noqa: E402


def write_model(folder, gib):
    """Shards of 1 GiB, 64 matrices of 4096 x 2048 each, in bf16; random but for their exponents."""
    folder.mkdir()
    block = bytearray(random.Random(1).randbytes(4096 * 2048 * 2))
    for i in range(1, len(block), 2):
        block[i] = block[i] & 0x83 | 0x3C
    index = {}
    for shard in range(gib):
        name = f"model-{shard + 1:05}-of-{gib:05}.safetensors"
        names = [f"model.layers.{shard * 64 + i}.mlp.down_proj.weight" for i in range(64)]
        write_shard(folder / name, {tensor: ("BF16", [4096, 2048], block) for tensor in names})
        index |= dict.fromkeys(names, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text('{"model_type": "llama"}')


def own_memory(process):
    """The most of RssAnon, in MiB, until the process ends."""
    most = 0
    while process.poll() is None:
        try:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    most = max(most, int(line.split()[1]) // 1024)
        except OSError:
            pass
        time.sleep(0.02)
    return most


def main():
    argv = sys.argv[1:]
    more = argv[argv.index("--") + 1:] if "--" in argv else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="where to write (default: a temporary folder)")
    args = parser.parse_args(argv[:argv.index("--")] if "--" in argv else argv)
    with tempfile.TemporaryDirectory(dir=args.work) as scratch:
        work = Path(scratch)
        write_model(work / "in", args.gib)
        size = sum(path.stat().st_size for path in (work / "in").iterdir()) / 2**30
        os.sync()
        rates = {"cp": [], "cp, synced": [], "ironcl quantize": []}
        memory = 0
        for _ in range(args.rounds):
            for name, rate in rates.items():
                began = time.monotonic()
                if name == "ironcl quantize":
                    process = subprocess.Popen([args.ironcl, "quantize", work / "in", work / "out", *more], stdout=subprocess.DEVNULL)
                    memory = max(memory, own_memory(process))
                    assert process.returncode == 0
                else:
                    subprocess.run(["cp", "-r", work / "in", work / "out"], check=True)
                    if "synced" in name:
                        subprocess.run(["sync", "-f", work / "out"], check=True)
                rate.append(size / (time.monotonic() - began))
                shutil.rmtree(work / "out")
                os.sync()
        for name, rate in rates.items():
            print(f"{name:16} {statistics.median(rate):6.2f} GiB/s of {size:.1f} GiB  ({', '.join(f'{r:.2f}' for r in rate)})")
        print(f"quantize beside cp: {statistics.median(rates['ironcl quantize']) / statistics.median(rates['cp']):.2f}; "
              f"own memory {memory} MiB; {os.cpu_count()} processors")


if __name__ == "__main__":
    main()

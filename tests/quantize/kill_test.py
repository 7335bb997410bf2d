#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ironcl quantize`, killed at random moments again and again, ends with the same bytes as undisturbed.

    kill_test.py build/release/bin/ironcl [--kills 200] [--mib 96]

Each run is killed (SIGKILL) after a random part of the time that an undisturbed one takes; the next goes on with what is
there. Shards that were done are not written again (their inode stays). When a run ends before its kill, its bytes are
compared and everything begins anew. Standard library only.
"""

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checkpoint_file import write_shard

SHARDS, ROWS = 6, 512


def write_model(folder, mib):
    """Shards of bf16 matrices whose exponents are those of weights, and a file to come along."""
    folder.mkdir()
    cols = mib * 1024 * 1024 // SHARDS // 2 // ROWS // 128 * 128
    index = {}
    generator = random.Random(1)
    for shard in range(SHARDS):
        name = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        module = f"model.layers.{shard}.mlp.down_proj.weight"
        data = bytearray(generator.randbytes(ROWS * cols * 2))
        for i in range(1, len(data), 2):  # sign, and exponents of 2^-7 to 2^0
            data[i] = data[i] & 0x83 | 0x3C
        write_shard(folder / name, {module: ("BF16", [ROWS, cols], data)})
        index[module] = name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text('{"model_type": "llama", "rms_norm_eps": 1e-06}')
    (folder / "tokenizer.json").write_text("{}")


def digest(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mib", type=int, default=96)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    generator = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        write_model(work / "in", args.mib)
        command = [args.ironcl, "quantize", work / "in", work / "out"]
        part = work / "out.part"
        began = time.monotonic()
        subprocess.run([*command[:3], work / "undisturbed"], check=True, capture_output=True)
        took = time.monotonic() - began
        want = digest(work / "undisturbed")
        assert len(want) == SHARDS + 3, want
        kills = ends = kept = 0
        done = {}
        while kills < args.kills:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                _, errors = process.communicate(timeout=generator.uniform(0, took))
                if process.returncode != 0:
                    sys.exit(f"after {kills} kills: exit {process.returncode}: {errors.decode()}")
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
            if not (work / "out").exists():
                now = {path.name: path.stat().st_ino for path in (part / "out").glob("*.safetensors")}
                for name, inode in done.items():
                    assert now.get(name) == inode, f"after {kills} kills: {name} was done and is written again"
                kept += len(done)
                done = now
                continue
            if part.exists():  # killed after the rename: the next run clears away, and says so where that was nearly done
                after = subprocess.run(command, capture_output=True, text=True)
                assert after.returncode == 0 or "exists already" in after.stderr, after.stderr
            assert not part.exists(), list(part.iterdir())
            have = digest(work / "out")
            assert have == want, f"after {kills} kills: {[name for name in want if have.get(name) != want[name]]} differ"
            shutil.rmtree(work / "out")
            ends, done = ends + 1, {}
        if part.exists():
            subprocess.run(command, check=True, capture_output=True)
            assert digest(work / "out") == want, "the last run differs"
            ends += 1
        print(f"{kills} kills, {ends} times to the end, each with the bytes of an undisturbed run ({took:.2f} s); "
              f"shards found done {kept} times, none written again")


if __name__ == "__main__":
    main()

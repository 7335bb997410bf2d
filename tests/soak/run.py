#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soak: eight processes at once on one cold program cache, as often as said; then ironcl_soak on each plugin for the whole time, and beside it
commands that are killed at random moments of their lives. Results are checked, files that were left are whole or absent.

usage: run.py --bin FOLDER --plugins FOLDER --data CHECKPOINT --experts CHECKPOINT [--minutes M] [--cold-rounds N] [--seed N] [--where FOLDER]
Exit status: 0 all right, 1 not.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time


def whole(path):
    """True where the file is complete in its format."""
    try:
        data = path.read_bytes()
        if path.suffix == ".json":
            json.loads(data)
        elif path.suffix == ".safetensors":
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8:8 + length])
            end = max([v["data_offsets"][1] for k, v in header.items() if k != "__metadata__"], default=0)
            return len(data) == 8 + length + end
        else:
            return data.endswith(b"\n")
        return True
    except (ValueError, KeyError, IndexError, OSError):
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--plugins", required=True, type=pathlib.Path)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="a small checkpoint folder")
    parser.add_argument("--experts", required=True, type=pathlib.Path, help="a small checkpoint with a layer of experts")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cold-rounds", type=int, default=1, help="how often eight processes start at once on cold caches (default 1)")
    parser.add_argument("--where", type=pathlib.Path, default=pathlib.Path("soak"))
    options = parser.parse_args()
    # A shell that starts us in the background leaves it ignored, and our children would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    choose = random.Random(options.seed)
    where = options.where.resolve()
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    ironcl, soak = options.bin / "ironcl", options.bin / "ironcl_soak"
    environment = dict(os.environ, IRONCL_CACHE_DIR=str(where / "cache"), IRONCL_PLUGIN_DIRS=str(options.plugins),
                       POCL_CACHE_DIR=str(where / "pocl"))
    (where / "pocl").mkdir()
    problems = []
    begin = time.monotonic()

    # Eight processes at once, each the first to need the programs. The caches of the first round serve what follows.
    layer = "model.layers.0.self_attn.o_proj"
    compare = [str(ironcl), "compare", str(options.data), "--layer", layer]
    cold_processes = 0
    for cold_round in range(options.cold_rounds):
        caches = where if cold_round == 0 else where / "cold"
        (caches / "pocl").mkdir(parents=True, exist_ok=True)
        here = dict(environment, IRONCL_CACHE_DIR=str(caches / "cache"), POCL_CACHE_DIR=str(caches / "pocl"))
        cold = [subprocess.Popen(compare, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(8)]
        cold_processes += len(cold)
        for process in cold:
            output, _ = process.communicate()
            if process.returncode != 0:
                problems.append(f"one of eight on a cold cache, round {cold_round}: exit status {process.returncode}: {output[-500:]}")
        shutil.rmtree(where / "cold", ignore_errors=True)
        print(f"eight on a cold cache: round {cold_round + 1} ended at {time.monotonic() - begin:.0f} s, {len(problems)} failed of "
              f"{cold_processes}", file=sys.stderr, flush=True)
    cold_seconds = time.monotonic() - begin

    commands = {
        "compare": lambda d: compare + ["--json", str(d / "report.json")],
        "experts": lambda d: [str(ironcl), "compare", str(options.experts), "--layer", "model.layers.0.mlp", "--m", "3", "--json", str(d / "report.json")],
        "bench": lambda d: [str(ironcl), "bench", "--shape", "256x256", "--m", "1,5", "--runs", "3", "--min-ms", "5", "--rotate-mib",
                            "1", "--warm-up-ms", "1", "--json", str(d / "rows.json"), "--csv", str(d / "rows.csv")],
        "tune": lambda d: [str(ironcl), "tune", "--shape", "256x256", "--m", "1,2,4,8", "--budget", "20", "--rotate-mib", "1",
                           "--save", str(where / "tables"), "--json", str(d / "tune.json")],
        "run": lambda d: [str(ironcl), "run", str(options.data), "--layer", layer, "--input", str(where / "x.safetensors") + ":x",
                          "--output", str(d / "y.safetensors")],
    }
    inspected = subprocess.run([str(ironcl), "inspect", str(options.data), "--json"], env=environment, capture_output=True, text=True)
    k = next(entry["k"] for entry in json.loads(inspected.stdout)["layers"] if entry["name"] == layer)
    header = json.dumps({"x": {"dtype": "F32", "shape": [2, k], "data_offsets": [0, 8 * k]}}).encode()
    (where / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8 * k))

    def left_in_part(folder):
        files = list(folder.iterdir()) + list((where / "tables").glob("*.json"))
        return [path.name for path in files if path.suffix in (".json", ".csv", ".safetensors") and not whole(path)]

    # Each command once, unharmed: how long it lives, so that it is killed at any moment of its life.
    lives = {}
    for name in sorted(commands):
        folder = where / f"whole-{name}"
        folder.mkdir()
        start = time.monotonic()
        done = subprocess.run(commands[name](folder), env=environment, capture_output=True, text=True)
        lives[name] = time.monotonic() - start
        if done.returncode != 0: problems.append(f"{name}: exit status {done.returncode}: {done.stderr[-500:]}")
        if not list(folder.iterdir()): problems.append(f"{name} wrote nothing")
        problems += [f"{name}: {file} is there in part" for file in left_in_part(folder)]
    print("lives: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in lives.items()), file=sys.stderr, flush=True)

    seconds = options.minutes * 60
    begin = time.monotonic()
    soaks = {}
    for plugin in sorted(options.plugins.glob("libironcl_*.so")):
        name = plugin.stem.removeprefix("libironcl_")
        if name in ("opencl", "ironwood"):
            soaks[name] = subprocess.Popen([str(soak), "--plugin", str(plugin), "--seconds", str(round(seconds)), "--seed",
                                            str(options.seed), "--cache", str(where / "cache")],
                                           env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    kills, finished, ends, numbers = 0, 0, {}, {}
    while time.monotonic() - begin < seconds or kills < 4:
        name = choose.choice(sorted(commands))
        folder = where / f"{name}-{kills + finished}"
        folder.mkdir()
        process = subprocess.Popen(commands[name](folder), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        how = choose.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        try:
            # Beside the soak everything takes longer than alone.
            _, text = process.communicate(timeout=choose.uniform(0.0, 1.5 * lives[name]))
            finished += 1
            if process.returncode != 0:
                problems.append(f"{name} ended by itself with {process.returncode}: {text[-300:]!r}")
        except subprocess.TimeoutExpired:
            process.send_signal(how)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                # Not where it is this program that was stopped meanwhile.
                if process.poll() is None: problems.append(f"{name} does not end by {how.name}")
                process.kill()
                process.communicate()
            kills += 1
            ends[name] = ends.get(name, 0) + 1
            numbers[how.name] = numbers.get(how.name, 0) + 1
        problems += [f"{name}: {file} is there in part" for file in left_in_part(folder)]
        shutil.rmtree(folder)

    reports = {}
    for name, process in soaks.items():
        output, errors = process.communicate(timeout=seconds + 300)
        reports[name] = json.loads(output) if output.strip() else {}
        if process.returncode not in (0, 77):
            problems.append(f"ironcl_soak on {name}: exit status {process.returncode}: {output[-300:]} {errors[-600:]}")
    # Whatever the killed ones left in the cache and the tables is whole or is made again.
    after = subprocess.run(compare, env=dict(environment, IRONCL_TUNED_DIR=str(where / "tables")), capture_output=True, text=True)
    if after.returncode != 0: problems.append(f"compare after the kills: {after.returncode}: {after.stdout[-300:]} {after.stderr[-300:]}")
    rests = [p.name for p in where.rglob("*") if p.name.endswith((".tmp", ".partial"))]

    result = {"minutes": round((time.monotonic() - begin) / 60, 2), "seed": options.seed, "cold_processes": cold_processes,
              "cold_seconds": round(cold_seconds, 1), "lives": {name: round(life, 2) for name, life in lives.items()},
              "kills": kills, "killed": ends, "by": numbers, "finished": finished, "files_left_aside": len(rests), "soak": reports,
              "problems": problems}
    (where / "result.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers on this machine's CPU: their fp8 layers by IronCL beside transformers in bf16, in f32, and as it reads fp8 today.

    python bench/python_peer.py FOLDER [--model NAME ...] [--rounds N] [--new N] [--only REGEX]

Each run is a process of its own; the ways take turns, round by round. A table for each model (python_models.py makes them in FOLDER):
tokens per second of a prompt of 128 tokens and of decoding after it, with the range over the rounds, and memory. Then single calls.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

#: By the name of a row: how the model is loaded, and the variables of its process.
WAYS = {
    "bf16": ("bf16", {}),
    "f32": ("f32", {}),
    "fp8 as transformers reads it": ("fp8 today", {}),
    "IronCL": ("ironcl", {}),
    "IronCL, passive and pinned threads": ("ironcl", {"OMP_WAIT_POLICY": "passive", "POCL_AFFINITY": "1"}),
}


def memory() -> dict[str, float]:
    """Megabytes of this process: at its peak, now, and of these without a file behind them."""
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return {name: int(fields[key].split()[0]) / 1024 for name, key in (("peak", "VmHWM"), ("now", "VmRSS"), ("anonymous", "RssAnon"))}


def run_model(root: str, how: str, new: int) -> dict[str, float]:
    """One process: loads, reads a prompt three times, decodes; the first of each is not counted."""
    import torch
    from python_models import load, prompt
    before, start = memory(), time.perf_counter()
    model = load(pathlib.Path(root), how)
    result = {"load_s": time.perf_counter() - start}
    ids, prefill, steps = prompt(), [], []
    with torch.inference_mode():
        for _ in range(3):
            start = time.perf_counter()
            output = model(ids, use_cache=True)
            prefill.append(time.perf_counter() - start)
        for _ in range(new + 1):
            start = time.perf_counter()
            output = model(output.logits[:, -1:].argmax(-1), past_key_values=output.past_key_values, use_cache=True)
            steps.append(time.perf_counter() - start)
    after = memory()
    result |= {"prefill": ids.shape[1] / statistics.median(prefill[1:]), "decode": 1 / statistics.median(steps[1:]), "first_prefill_s": prefill[0],
               "peak_mb": after["peak"], "anonymous_mb": after["anonymous"] - before["anonymous"]}
    layers = {id(w.layer): w.layer for m in model.modules() for w in getattr(m, "_held", {}).values()}
    if layers:
        result["weights"] = sum(one.nbytes for one in layers.values()) / sum(sum(one._core.sizes) for one in layers.values())
    return result


def run_calls(n: int = 1024, k: int = 1024) -> dict[str, float]:
    """Microseconds of one call with one row of bf16: in Python as a user calls, in the extension module alone, and torch's bf16 and f32."""
    import torch
    import ironcl
    from ironcl._arrays import TYPES
    codes, scales = ironcl.quantize(torch.randn(n, k), block=(128, 128))
    layer, x, y = ironcl.Linear(codes, scales), torch.randn(1, k).to(torch.bfloat16), torch.empty(1, n, dtype=torch.bfloat16)
    weight = torch.randn(n, k)
    half = weight.to(torch.bfloat16)
    bf16, wide, addresses = TYPES["bf16"], x.float(), (x.data_ptr(), y.data_ptr())
    calls = {"python": lambda: layer(x), "library": lambda: layer._core.run(addresses[0], bf16, 1, addresses[1], bf16),
             "torch bf16": lambda: torch.nn.functional.linear(x, half), "torch f32": lambda: torch.nn.functional.linear(wide, weight)}
    times: dict[str, list[float]] = {name: [] for name in calls}
    with torch.inference_mode():
        for _ in range(21):
            for name, call in calls.items():
                time.sleep(0.01)  # until the threads of the side before have stopped waiting for more
                call()
                start = time.perf_counter()
                for _ in range(50):
                    call()
                times[name].append((time.perf_counter() - start) / 50 * 1e6)
    return {name: statistics.median(of) for name, of in times.items()}


def child(arguments: list[str], variables: dict[str, str]) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "--child", *arguments], env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)} ended with status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def spread(rows: list[dict[str, float]], field: str) -> str:
    values = [row[field] for row in rows]
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        what, *rest = sys.argv[2:]
        print(json.dumps(run_calls() if what == "calls" else run_model(rest[0], rest[1], int(rest[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", nargs="*", default=["qwen3-4096", "qwen3-0.6b"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--new", type=int, default=32, help="tokens that are decoded")
    parser.add_argument("--only", default="", help="the ways whose names this regular expression finds")
    parser.add_argument("--no-calls", action="store_true")
    options = parser.parse_args()
    from python_models import make
    ways = {name: way for name, way in WAYS.items() if re.search(options.only, name)}
    for model in options.model:
        root = make(model, options.folder)
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, (how, variables) in ways.items():
                rows[name].append(child(["model", str(root), how, str(options.new)], variables))
        print(f"\n{model}: median of {options.rounds} processes (range); tokens per second, MB\n")
        print("| way | prefill of 128 | decode | load, s | peak MB | anonymous MB | weights / their fp8 bytes |\n|---|---|---|---|---|---|---|")
        for name, of in rows.items():
            weights = f"{of[0]['weights']:.3f}" if "weights" in of[0] else ""
            print(f"| {name} | {spread(of, 'prefill')} | {spread(of, 'decode')} | {spread(of, 'load_s')} | {spread(of, 'peak_mb')} | "
                  f"{spread(of, 'anonymous_mb')} | {weights} |", flush=True)
    if options.no_calls:
        return
    print("\nOne call, 1 x 1024 x 1024, bf16: microseconds, median of 21 turns of 50 calls\n")
    print("| variables | `layer(x)` | of that the extension module | torch bf16 | torch f32 |\n|---|---|---|---|---|")
    for name, (how, variables) in ways.items():
        if how == "ironcl":
            row = child(["calls"], variables)
            print(f"| {name} | {row['python']:.0f} | {row['library']:.0f} | {row['torch bf16']:.0f} | {row['torch f32']:.0f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fp8 layers on this machine's CPU: IronCL beside OpenBLAS on weights of f32, and PyTorch where a Python with it is named.

    ./dev bench cpu-peers [--m LIST] [--shape LIST] [--x-dtype f32|bf16] [--out-dtype f32|bf16] [--torch PYTHON] [--rounds N]

IronCL's rows are `ironcl bench` (checked against the oracle before they are timed; quantising is part of the time, by the host's
clock). The sides take turns, IronCL and PyTorch in processes of their own; a ratio is of one round, and medians over the rounds
are printed and written. A turn is calls for --turn-ms after a quarter as long that is not counted. Weights rotate through 256 MB on
all sides. `./dev bench` also names OpenBLAS's kernels: its own detection takes new CPUs for old ones.
"""

import argparse
import array
import ctypes
import ctypes.util
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROTATE = 256 << 20
MOST = 500  # Calls of a turn.
TORCH = ("f32", "bf16", "scaled", "int")  # torch_peer.py's products: linear in f32 and bf16, _scaled_mm, _int_mm.


def turn(call, warm_up_ns: int, turn_ns: int, least: int, most: int, once_ns: int = sys.maxsize) -> list:
    """Nanoseconds of each timed call; of the first one alone where it takes `once_ns`."""

    def timed() -> int:
        before = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - before

    last = spent = timed()
    if last >= once_ns:
        return [last]
    count = 1
    while count < most and spent < warm_up_ns:
        last = timed()
        spent += last
        count += 1
    least = 1 if last > 100e6 else min(least, 2) if last > 20e6 else least
    result = []
    while len(result) < least or (len(result) < most and sum(result) < turn_ns):
        result.append(timed())
    return result


class OpenBlas:
    """y = x W^T in f32; with one row also as a matrix and a vector."""

    lib = None

    def __init__(self, m: int, n: int, k: int):
        numbers = array.array("f", (random.gauss(0, 1) for _ in range(1 << 16))).tobytes()
        floats = lambda count: (ctypes.c_float * count).from_buffer(bytearray((numbers * (count * 4 // len(numbers) + 1))[: count * 4]))
        self.m, self.n, self.k, self.x, self.y = m, n, k, floats(m * k), floats(m * n)
        self.weights = itertools.cycle([floats(n * k) for _ in range(max(1, min(64, ROTATE // (n * k * 4))))])

    def sgemm(self) -> None:
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self.lib.cblas_sgemm(101, 111, 112, self.m, self.n, self.k, one, self.x, self.k, next(self.weights), self.k, zero, self.y, self.n)

    def sgemv(self) -> None:
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self.lib.cblas_sgemv(101, 111, self.n, self.k, one, next(self.weights), self.k, self.x, 1, zero, self.y, 1)


def ours(options, m: int, n: int, k: int, pace: list) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rows.json"
        command = [options.ironcl, "bench", "--device", options.device, "--shape", f"{n}x{k}", "--m", str(m), "--json", str(file)]
        command += ["--x-dtype", options.x_dtype, "--out-dtype", options.out_dtype, "--runs", str(pace[2])]
        command += ["--warm-up-ms", str(pace[0] / 1e6), "--min-ms", str(pace[1] / 1e6)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        row = json.loads(file.read_text())["rows"][0] if file.exists() else {"verdict": "no row", "why": ""}
    if row["verdict"] != "pass":
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {row['verdict']} {row['why']}")
    return row


def measure(options, torch, m: int, n: int, k: int) -> dict:
    pace = [int(options.turn_ms * 250e3), int(options.turn_ms * 1e6), options.calls, MOST]
    blas, rows, times = OpenBlas(m, n, k), [], {}
    for _ in range(options.rounds):
        time.sleep(0.25)  # The peers' threads spin for a while after a call, and would be in the way.
        rows.append(ours(options, m, n, k, pace))
        of_round = {"sgemm": statistics.median(turn(blas.sgemm, *pace))}
        if m == 1:
            of_round["sgemv"] = statistics.median(turn(blas.sgemv, *pace))
        of_round["openblas"] = min(of_round.values())
        if torch:
            time.sleep(0.06)
            print(m, n, k, *pace, file=torch.stdin, flush=True)
            answer = json.loads(torch.stdout.readline() or sys.exit("PyTorch's side ended; its message is above"))
            of_round |= {f"torch_{kind}": statistics.median(answer[f"{kind}_ns"]) for kind in TORCH if answer[f"{kind}_ns"]}
        for name, ns in of_round.items():
            times.setdefault(name, []).append((ns, ns / rows[-1]["host_ns"]))
    row = {key: rows[-1][key] for key in ("m", "n", "k", "problem", "variant", "config", "verdict", "rows_checked", "weights_bytes")}
    row["max_error_over_bound"] = max(one["max_error_over_bound"] for one in rows)
    row["ironcl_ns"] = statistics.median(one["host_ns"] for one in rows)
    for name, pairs in times.items():
        row[f"{name}_ns"] = statistics.median(ns for ns, _ in pairs)
        row["ratio" if name == "openblas" else f"ratio_{name}"] = statistics.median(ratio for _, ratio in pairs)
    shares = [one["of_copy_ceiling"] for one in rows if one["of_copy_ceiling"]]
    if m == 1 and shares:  # One row reads its weights from memory and does little else.
        row["of_copy_rate"] = statistics.median(shares)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("--m", default="1,16,128,1024", help="rows of activations")
    parser.add_argument("--shape", default="4096x4096,3072x1024,7168x2048,576x7168", help="weights as NxK")
    parser.add_argument("--device", default="opencl:cpu")
    parser.add_argument("--x-dtype", default="f32", choices=("f32", "bf16"), help="what our activations come in; quantised in the plan")
    parser.add_argument("--out-dtype", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch; none: without these columns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn-ms", type=float, default=20)
    parser.add_argument("--calls", type=int, default=5, help="timed calls of a turn at the least; two above 20 ms, one above 100 ms")
    parser.add_argument("--json", default="cpu-peers.json")
    options = parser.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shape.split(",")]
    OpenBlas.lib = lib = ctypes.CDLL(ctypes.util.find_library("openblas") or "libopenblas.so.0")
    lib.openblas_get_corename.restype = ctypes.c_char_p
    core, threads = lib.openblas_get_corename().decode(), lib.openblas_get_num_threads()
    torch, version = None, None
    if options.torch:
        # Its threads stay where they are, as PoCL's do: two of them, woken for a short call, may share a core for milliseconds.
        script, env = pathlib.Path(__file__).with_name("torch_peer.py"), {"OMP_PROC_BIND": "true"} | os.environ
        torch = subprocess.Popen([options.torch, script], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        version = json.loads(torch.stdout.readline() or sys.exit(f"{options.torch}: is PyTorch there?"))["torch"]
    print(f"OpenBLAS ({core}, {threads} threads){f', PyTorch {version}' if version else ''}; ms, and how many times faster we are")
    print(f"{'M':>5} {'N':>6} {'K':>6}  {'variant':<18} {'ironcl':>10} {'OpenBLAS':>10} {'ratio':>7}", *(f"{'t ' + kind:>8}" for kind in TORCH), f"{'of copy':>8}")
    rows = []
    for n, k in shapes:
        for m in map(int, options.m.split(",")):
            row = measure(options, torch, m, n, k)
            rows.append(row)
            ratios = (row.get(key) for key in (*(f"ratio_torch_{kind}" for kind in TORCH), "of_copy_rate"))
            print(f"{m:5} {n:6} {k:6}  {row['variant']:<18} {row['ironcl_ns'] / 1e6:10.3f} {row['openblas_ns'] / 1e6:10.3f} {row['ratio']:7.2f}",
                  *(f"{ratio:8.2f}" if ratio else f"{'-':>8}" for ratio in ratios), flush=True)  # fmt: skip
    said = {"openblas_core": core, "openblas_threads": threads, "torch": version, "rounds": options.rounds, "turn_ms": options.turn_ms}
    pathlib.Path(options.json).write_text(json.dumps(said | {"rows": rows}, indent=1))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Times matrix products of others on the GPU beside which `ironcl bench` was run: PyTorch's block-scaled fp8, fp8 with one scale and
bf16, and DeepGEMM's block-scaled fp8 where it is installed (gpu_deepgemm.py).

    python3 bench/gpu_peers.py [--shape NxK,NxK] [--m M,M] [--grouped G,M,N,K[,CAPACITY]] [--json FILE]
    python3 bench/gpu_peers.py --table ours.csv peers.json [--clblast clblast.csv]     # one table of all; needs no PyTorch

Cold L2 (256 MiB written before every call), peers in turns, medians: of event times around one call, which carry some microseconds of
launch, and by PyTorch's profiler of its kernels alone. Operands are random and drawn anew for every shape; fp8 results are compared
with a product in f64, as a share of the bounds of class f32 and tensor14 (docs/numerics.md). What a peer refuses is printed as it
says it. Where DeepGEMM is not there, the table has its figures of another day (gpu_deepgemm.json), marked.
"""
import argparse
import csv
import json
import os
import statistics

import gpu_deepgemm
from gpu_judge import judge, quantised

RUNS = 11
DEEPGEMM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_deepgemm.json")


def in_turns(calls, flush, run):
    """Every call so many times, in turns, each with a cold L2."""
    import torch

    for _ in range(RUNS + 2):
        for name, call in calls.items():
            flush.fill_(1)
            run(name, call)
            torch.cuda.synchronize()


def timed(calls, flush):
    """Microseconds of each call by events around it."""
    import torch

    events = {name: [] for name in calls}

    def run(name, call):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        events[name].append((start, end))

    in_turns(calls, flush, run)
    return {name: statistics.median(start.elapsed_time(end) * 1e3 for start, end in seen[2:]) for name, seen in events.items()}


def alone(calls, flush):
    """Microseconds of each call's kernels, by PyTorch's profiler; nothing where it does not see them."""
    import torch

    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            in_turns(calls, flush, lambda name, call: call())
        kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    except Exception:
        return {}
    return of_turns(list(calls), [(e.time_range.start, e.name, e.time_range.elapsed_us()) for e in kernels])


def of_turns(names, kernels):
    """Medians of what kernels (start, name, microseconds) took after each filling of the flush buffer; fillings are of `names` in turns."""
    times = []
    for _, name, microseconds in sorted(kernels):
        if "FillFunctor" in name:
            times.append(0.0)
        elif times:
            times[-1] += microseconds
    if len(times) != len(names) * (RUNS + 2):
        return {}
    medians = {name: statistics.median(times[i + 2 * len(names) :: len(names)]) for i, name in enumerate(names)}
    return {name: median for name, median in medians.items() if median > 0}


def measure(m, n, k, flush, deepgemm):
    """A row of what the peers take. `deepgemm`: why that one is not asked, None if it is."""
    import torch

    row = {"m": m, "n": n, "k": k}
    a, sa = quantised(m, k, 1)
    b, sb = quantised(n, k, 128)
    column_major = sa.t().contiguous().t()
    # Rows of B's scales are padded to a multiple of four.
    padded = torch.nn.functional.pad(sb, (0, -sb.shape[1] % 4))[:, : sb.shape[1]]
    one = torch.ones((), device="cuda", dtype=torch.float32)
    x, w = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    peers = {
        "blockwise": lambda: torch._scaled_mm(a, b.t(), column_major, padded.t(), out_dtype=torch.bfloat16),
        "one_scale": lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16),
        "bf16": lambda: x @ w.t(),
    }
    if deepgemm is None:
        call, d_of_deepgemm = gpu_deepgemm.dense(a, sa, b, sb)
        peers["deepgemm"] = call
    else:
        row["deepgemm_refused"] = deepgemm
    working, errors = {}, judge(a, sa, b, sb, k)
    for name, call in peers.items():
        try:
            d = call()
            torch.cuda.synchronize()
            if name in ("blockwise", "deepgemm"):
                d = d_of_deepgemm if name == "deepgemm" else d
                row[name + "_error_f32"], row[name + "_error_tensor14"] = errors(d)
            working[name] = call
        except Exception as error:
            row[name + "_refused"] = (str(error).splitlines() or [repr(error)])[0]
    row |= {name + "_us": us for name, us in timed(working, flush).items()}
    row |= {name + "_alone_us": us for name, us in alone(working, flush).items()}
    return row


def rows_of_matrices(matrices, m):
    """Rows of each of `matrices` of about m: 0.7 to 1.3 times m."""
    import numpy

    random = numpy.random.RandomState(3).randint(0, 2**32, size=matrices, dtype=numpy.uint32)
    return [int(m * (0.7 + 0.6 * (int(r) % 1000) / 1000)) for r in random]


def measure_grouped(problem, flush):
    """DeepGEMM's product of many matrices beside its dense one of as many rows; problem: G, M, N, K and maybe a capacity (masked)."""
    import torch

    matrices, m, n, k, *capacity = problem
    counts = rows_of_matrices(matrices, m)
    row = {"matrices": matrices, "m": m, "n": n, "k": k, "capacity": capacity[0] if capacity else 0, "rows": sum(counts)}
    try:
        a, sa = quantised(sum(counts), k, 1)
        weights = [quantised(n, k, 128) for _ in counts]
        b = torch.stack([codes.view(torch.uint8) for codes, _ in weights]).view(a.dtype)
        sb = torch.stack([scales for _, scales in weights])
        if capacity:
            call, d = gpu_deepgemm.masked(a, sa, b, sb, counts, *capacity)
            rows_of = lambda g: d[g]
        else:
            call, d, first = gpu_deepgemm.contiguous(a, sa, b, sb, counts)
            rows_of = lambda g: d[first[g] :]
        calls = {"grouped": call, "dense": gpu_deepgemm.dense(a, sa, b[0], sb[0])[0]}
        for call in calls.values():
            call()
        torch.cuda.synchronize()
        errors = []
        for g in (0, matrices - 1):
            begin, end = sum(counts[:g]), sum(counts[: g + 1])
            errors.append(judge(a[begin:end], sa[begin:end], b[g], sb[g], k)(rows_of(g)[: counts[g]]))
        # Of two matrices, so that one which is NaN shows.
        row["error_f32"], row["error_tensor14"] = (max(e, key=lambda x: (x != x, x)) for e in zip(*errors))
        row |= {name + "_us": us for name, us in timed(calls, flush).items()}
        row |= {name + "_alone_us": us for name, us in alone(calls, flush).items()}
    except Exception as error:
        row["refused"] = (str(error).splitlines() or [repr(error)])[0]
    return row


def print_grouped(row):
    where = f"masked in {row['capacity']}" if row["capacity"] else "contiguous"
    begin = f"{row['matrices']} x {row['m']} of {row['n']} x {row['k']}, {where} ({row['rows']} rows), DeepGEMM: "
    if "refused" in row:
        print(begin + row["refused"])
        return
    kind = "_alone_us" if "grouped_alone_us" in row and "dense_alone_us" in row else "_us"
    grouped, dense, flops = row["grouped" + kind], row["dense" + kind], 2e-6 * row["rows"] * row["n"] * row["k"]
    print(
        begin + f"{grouped:.1f} us, {flops / grouped:.0f} TFLOP/s; dense of as many rows {flops / dense:.0f}, {100 * dense / grouped:.0f} %; "
        f"{'kernels alone' if kind == '_alone_us' else 'by events'}; errors {row['error_f32']:.2f} {row['error_tensor14']:.2f}"
    )


def table(ours_file, peers_file, clblast_file):
    """One row a problem: our kernel alone and our plans from bf16 in both classes, PyTorch's products, CLBlast's and DeepGEMM's kernel."""
    with open(ours_file) as file:
        ours = {(int(r["m"]), int(r["n"]), int(r["k"]), r["class"]): r for r in csv.DictReader(file)}
    peers = {}
    if os.path.exists(peers_file):
        with open(peers_file) as file:
            peers = {(r["m"], r["n"], r["k"]): r for r in json.load(file) if "matrices" not in r}
    clblast = {}
    if clblast_file and os.path.exists(clblast_file):
        with open(clblast_file) as file:
            clblast = {(int(r["m"]), int(r["n"]), int(r["k"])): float(r["us"]) for r in csv.DictReader(file)}
    with open(DEEPGEMM) as file:
        theirs = json.load(file)
    deepgemm = {(r["m"], r["n"], r["k"]): r for r in theirs["rows"]}
    starred = False
    print("microseconds, L2 cold; error: largest share of the class's bound (bf16 output: rounding alone takes up to 0.98 of f32's)")
    print("| M | N x K | kernel, f32 | error | plan of bf16 | kernel, tensor14 | error | plan of bf16 | blockwise fp8 | of f32, of tensor14 | fp8, one scale | bf16 | CLBlast, f32 | DeepGEMM: kernel alone, by events | of f32, of tensor14 |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for m, n, k in sorted({key[:3] for key in ours}, key=lambda p: (p[1] * p[2], p[1], p[0])):
        cells = [str(m), f"{n} x {k}"]
        for kind in ("f32", "tensor14"):
            row = ours.get((m, n, k, kind))
            if row is None:
                cells += ["", "", ""]
                continue
            wrong = "" if row["verdict"] == "pass" else " **FAIL**"
            cells += [f'{float(row["kernel_us"]):.1f}{wrong}', row["error_codes"], f'{float(row["bf16_us"]):.1f}']
        peer = peers.get((m, n, k), {})
        microseconds = lambda name: f'{peer[name + "_us"]:.1f}' if name + "_us" in peer else "refused" if name + "_refused" in peer else ""
        errors = lambda name: f'{peer[name + "_error_f32"]:.2f}, {peer[name + "_error_tensor14"]:.2f}' if name + "_error_f32" in peer else ""
        cells += [microseconds("blockwise"), errors("blockwise"), microseconds("one_scale"), microseconds("bf16")]
        cells.append(f"{clblast[m, n, k]:.1f}" if (m, n, k) in clblast else "")
        if "deepgemm_us" in peer:
            cells.append(", ".join([f'{peer["deepgemm_alone_us"]:.1f}' if "deepgemm_alone_us" in peer else "not seen", f'{peer["deepgemm_us"]:.1f}']))
        else:
            there = deepgemm.get((m, n, k))
            cells.append(f'{there["us"]:.1f}*, {there["event_us"]:.1f}*' if there else "")
            starred = starred or there is not None
        cells.append(errors("deepgemm"))
        print("| " + " | ".join(cells) + " |")
    if starred:
        print("* not of this run: " + theirs["source"])
    for refused in sorted({p["deepgemm_refused"] for p in peers.values() if "deepgemm_refused" in p}):
        print(refused)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="4096x4096,7168x16384,24576x1536,2112x7168", help="N x K, separated by commas")
    parser.add_argument("--m", default="1,16,64,128,512,4096")
    parser.add_argument("--grouped", action="append", default=[], metavar="G,M,N,K[,CAPACITY]", help="DeepGEMM's product of G matrices of about M rows; repeatable")
    parser.add_argument("--flush-mib", type=int, default=256, help="written before every call; 8192 as DeepGEMM's own test does, two milliseconds in which the GPU cools")
    parser.add_argument("--json", help="write the rows there as well")
    parser.add_argument("--table", nargs=2, metavar=("CSV", "JSON"), help="print one table of what ironcl_gpu_kernels and this script wrote")
    parser.add_argument("--clblast", metavar="CSV", help="with --table: what gpu_clblast.py wrote")
    options = parser.parse_args()
    if options.table:
        table(*options.table, options.clblast)
        return
    import torch

    flush = torch.empty(options.flush_mib << 20, device="cuda", dtype=torch.uint8)
    deepgemm = gpu_deepgemm.refusal()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}{'; ' + deepgemm if deepgemm else ''}")
    print("microseconds by events around a call and TFLOP/s; DeepGEMM: its kernel alone; errors: of the bound of f32 and of tensor14")
    print(f"{'M':>6} {'N':>6} {'K':>6} {'fp8 blockwise':>20} {'errors':>10} {'fp8 one scale':>20} {'bf16':>20} {'DeepGEMM':>20} {'errors':>10}")
    rows = []

    def keep(row):  # At once: a fault in a peer's kernel ends the process.
        rows.append(row)
        if options.json:
            with open(options.json + ".new", "w") as out:
                json.dump(rows, out, indent=1)
            os.replace(options.json + ".new", options.json)

    for shape in options.shape.split(","):
        n, k = (int(x) for x in shape.split("x"))
        for m in (int(x) for x in options.m.split(",")):
            row = measure(m, n, k, flush, deepgemm)
            keep(row)
            flops = 2e-6 * m * n * k
            cell = {}
            for peer, key in (("blockwise", "blockwise_us"), ("one_scale", "one_scale_us"), ("bf16", "bf16_us"), ("deepgemm", "deepgemm_alone_us")):
                key = key if key in row else peer + "_us"
                cell[peer] = f"{row[key]:.1f} us {flops / row[key]:.0f}" if key in row else "refused" if not deepgemm or peer != "deepgemm" else "-"
            error = lambda peer: f"{row[peer + '_error_f32']:.2f} {row[peer + '_error_tensor14']:.2f}" if peer + "_error_f32" in row else "-"
            print(
                f"{m:>6} {n:>6} {k:>6} {cell['blockwise']:>20} {error('blockwise'):>10} {cell['one_scale']:>20} {cell['bf16']:>20} "
                f"{cell['deepgemm']:>20} {error('deepgemm'):>10}", flush=True
            )
    for problem in options.grouped:
        if deepgemm is None:
            row = measure_grouped([int(x) for x in problem.split(",")], flush)
            keep(row)
            print_grouped(row)


if __name__ == "__main__":
    main()

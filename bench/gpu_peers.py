# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's matrix products on the GPU beside which `ironcl bench` was run: block-scaled fp8, fp8 with one scale, bf16.

    python3 bench/gpu_peers.py [--shape NxK,NxK] [--m M,M] [--json FILE]
    python3 bench/gpu_peers.py --table ours.csv peers.json [--clblast clblast.csv]     # one table of all, and of DeepGEMM's figures; needs no PyTorch

Cold L2 (256 MiB written before every call), median of event times around one call, which carry some microseconds of launch.
Operands are random and drawn anew for every shape; fp8 results are compared with a product in f64, as a share of the bounds of
class f32 and tensor14 (docs/numerics.md). What PyTorch refuses is printed as it says it.
"""
import argparse
import csv
import json
import os
import statistics

RUNS = 11
DEEPGEMM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_deepgemm.json")


def timed(call, flush):
    import torch

    times = []
    for _ in range(RUNS + 2):
        flush.fill_(1)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times[2:])


def quantised(rows, cols, block_rows):
    """Codes [rows, cols] and f32 scales, one for each block_rows x 128."""
    import torch

    padded = -(-rows // block_rows) * block_rows
    x = torch.randn(padded, cols, device="cuda", dtype=torch.float32)
    blocks = x.view(padded // block_rows, block_rows, cols // 128, 128)
    scale = blocks.abs().amax(dim=(1, 3)).clamp(min=1e-10) / 448.0
    codes = (blocks / scale[:, None, :, None]).view(padded, cols).to(torch.float8_e4m3fn)
    return codes[:rows], scale


# kOrdersOfRuns of backends/numerics/oracle_tile.h.
ORDERS_OF_RUNS = [
    list(range(16)),
    [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15],
]


def cut_in_14_bits(a, sa, b, sb):
    """What class tensor14 may lose of each element of a [m, k] times b [n, k] transposed, codes of e4m3 with the scales of their
    K blocks, [m, k/128] and [n, k/128]: tile_cut of backends/numerics/oracle_tile.cpp, which says why."""
    import torch

    room = 1 + 2.0**-5
    lost = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float64, device=a.device)
    for block in range(a.shape[1] // 128):
        x, y = (codes[:, 128 * block : 128 * block + 128].double().view(-1, 16, 8) for codes in (a, b))
        # Sizes of products, codes below the smallest normal number taken for that.
        raised = [torch.where(v == 0, 0.0, v.abs().clamp(min=2.0**-6)) for v in (x, y)]
        sizes, runs = raised[0][:, None] * raised[1][None], torch.einsum("mrk,nrk->mnr", x, y)
        most = torch.zeros_like(lost)
        for order in ORDERS_OF_RUNS:
            before, cut = torch.zeros_like(lost), torch.zeros_like(lost)
            for first in range(0, 16, 4):
                taken = order[first : first + 4]
                added = runs[:, :, taken].sum(2)
                of_these = sizes[:, :, taken].flatten(2)
                largest = torch.stack([of_these.amax(2), added.abs(), before.abs() + cut, (before + added).abs() + cut]).amax(0)
                terms = 2 + ((of_these > 0) & (of_these < room * 2.0**-6 * largest[..., None])).sum(2)
                cut += room * 2.0**-13 * terms * largest
                before += added
            most = torch.maximum(most, cut)
        lost += most * sa[:, block, None].double() * sb[None, :, block].double()
    return lost


def over_bound(d, a, sa, b, sb, k, rows=16):
    """Largest error over the bound of class f32 and of tensor14, of the first rows."""
    rows = min(rows, a.shape[0])
    left = a[:rows].double() * sa[:rows].double().repeat_interleave(128, 1)
    right = b.double() * sb.double().repeat_interleave(128, 0)[: b.shape[0]].repeat_interleave(128, 1)
    want, size = left @ right.t(), left.abs() @ right.abs().t()
    error = (d[:rows].double() - want).abs()
    f32 = 2.0**-8 * want.abs() + (128 + k / 128 + 3) * 2.0**-24 * size
    cut = cut_in_14_bits(a[:rows], sa[:rows], b, sb.repeat_interleave(128, 0)[: b.shape[0]])
    return (error / f32).max().item(), (error / (f32 + cut)).max().item()


def measure(m, n, k, flush):
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
    for name, call in peers.items():
        try:
            d = call()
            torch.cuda.synchronize()
            if name == "blockwise":
                row["blockwise_error_f32"], row["blockwise_error_tensor14"] = over_bound(d, a, sa, b, sb, k)
            row[name + "_us"] = timed(call, flush) * 1e6
        except RuntimeError as error:
            row[name + "_refused"] = str(error).splitlines()[0]
    return row


def table(ours_file, peers_file, clblast_file):
    """One row a problem: our kernel alone and our plans from bf16 in both classes, PyTorch's products, CLBlast's and DeepGEMM's kernel."""
    with open(ours_file) as file:
        ours = {(int(r["m"]), int(r["n"]), int(r["k"]), r["class"]): r for r in csv.DictReader(file)}
    peers = {}
    if os.path.exists(peers_file):
        with open(peers_file) as file:
            peers = {(r["m"], r["n"], r["k"]): r for r in json.load(file)}
    clblast = {}
    if clblast_file and os.path.exists(clblast_file):
        with open(clblast_file) as file:
            clblast = {(int(r["m"]), int(r["n"]), int(r["k"])): float(r["us"]) for r in csv.DictReader(file)}
    with open(DEEPGEMM) as file:
        theirs = json.load(file)
    deepgemm = {(r["m"], r["n"], r["k"]): r["us"] for r in theirs["rows"]}
    print("microseconds, L2 cold; error: largest share of the class's bound (bf16 output: rounding alone takes up to 0.98 of f32's)")
    print("| M | N x K | kernel, f32 | error | plan of bf16 | kernel, tensor14 | error | plan of bf16 | blockwise fp8 | of f32, of tensor14 | fp8, one scale | bf16 | CLBlast, f32 | DeepGEMM* |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
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
        error = f'{peer["blockwise_error_f32"]:.2f}, {peer["blockwise_error_tensor14"]:.2f}' if "blockwise_error_f32" in peer else ""
        cells += [microseconds("blockwise"), error, microseconds("one_scale"), microseconds("bf16")]
        for of_others in (clblast, deepgemm):
            cells.append(f"{of_others[m, n, k]:.1f}" if (m, n, k) in of_others else "")
        print("| " + " | ".join(cells) + " |")
    print("* not of this run: " + theirs["source"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="4096x4096,7168x16384,24576x1536,2112x7168", help="N x K, separated by commas")
    parser.add_argument("--m", default="1,16,64,128,512,4096")
    parser.add_argument("--json", help="write the rows there as well")
    parser.add_argument("--table", nargs=2, metavar=("CSV", "JSON"), help="print one table of what ironcl_gpu_kernels and this script wrote")
    parser.add_argument("--clblast", metavar="CSV", help="with --table: what ironcl_gpu_clblast wrote")
    options = parser.parse_args()
    if options.table:
        table(*options.table, options.clblast)
        return
    import torch

    flush = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)
    rows = []
    for shape in options.shape.split(","):
        n, k = (int(x) for x in shape.split("x"))
        for m in (int(x) for x in options.m.split(",")):
            rows.append(measure(m, n, k, flush))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; time and TFLOP/s; error: of the bound of f32 and of tensor14")
    print(f"{'M':>6} {'N':>6} {'K':>6} {'fp8 blockwise':>24} {'error':>12} {'fp8 one scale':>20} {'bf16':>20}")
    for row in rows:
        flops = 2e-6 * row["m"] * row["n"] * row["k"]
        cell = {p: f"{row[p + '_us']:.1f} us {flops / row[p + '_us']:.0f}" if p + "_us" in row else "refused" for p in ("blockwise", "one_scale", "bf16")}
        error = f"{row['blockwise_error_f32']:.2f} {row['blockwise_error_tensor14']:.2f}" if "blockwise_error_f32" in row else "-"
        print(f"{row['m']:>6} {row['n']:>6} {row['k']:>6} {cell['blockwise']:>24} {error:>12} {cell['one_scale']:>20} {cell['bf16']:>20}")
    if options.json:
        with open(options.json, "w") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""DeepGEMM's block-scaled fp8 products, where it is installed (module deep_gemm; of PyPI: sgl-deep-gemm). Next door: gpu_peers.py, which times them.

    python3 bench/gpu_deepgemm.py                    # whether it works here: one small product, checked
    python3 bench/gpu_deepgemm.py NxK,NxK M,M        # makes each of these once, so that their kernels are compiled

It compiles a kernel for each choice of tiles when it is first asked for, with nvcc; DG_JIT_CACHE_DIR says where they are kept. A wheel
is built for one release of PyTorch: with another it may not load, or end the process, so it is asked in a process of its own first.
"""
import importlib.util
import subprocess
import sys


def refusal(seconds=180):
    """Why DeepGEMM cannot be measured here, in a line; None if it can."""
    if importlib.util.find_spec("deep_gemm") is None:
        return "DeepGEMM is not installed"
    try:
        child = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"DeepGEMM took more than {seconds} s for a small product"
    if child.returncode == 0:
        return None
    said = (child.stderr.strip() or child.stdout.strip()).splitlines()
    how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit {child.returncode}"
    return f"DeepGEMM does not work here ({how}): {said[-1] if said else 'it says nothing'}"


def scales_of_rows(scales):
    """Scales of rows [..., m, k/128] as its kernels read them, one after another down m, of which there is a multiple of four: else each call
    would begin with a kernel that lays them out so."""
    import torch

    m, blocks = scales.shape[-2:]
    there = -(-m // 4) * 4
    laid = torch.zeros(*scales.shape[:-2], blocks, there, device=scales.device, dtype=torch.float32).transpose(-1, -2)[..., :m, :]
    laid.copy_(scales)
    return laid


def poisoned(*shape):
    import torch

    return torch.full(shape, float("nan"), device="cuda", dtype=torch.bfloat16)


def dense(a, sa, b, sb):
    """A call of a [m, k] by b [n, k] transposed with scales [m, k/128] and [n/128, k/128], and where its result goes."""
    import deep_gemm

    d, laid = poisoned(a.shape[0], b.shape[0]), scales_of_rows(sa)
    return lambda: deep_gemm.fp8_gemm_nt((a, laid), (b, sb), d), d


def contiguous(a, sa, b, sb, counts):
    """Many matrices b [g, n, k], of which each has counts[g] rows of a, one after another. Each one's rows begin at a multiple of its tiles, so
    rows of nothing lie between. Returns the call, its result and where each matrix's rows begin there."""
    import deep_gemm
    import torch

    tile = deep_gemm.get_mk_alignment_for_contiguous_layout()
    first, rows = [], 0
    for count in counts:
        first.append(rows)
        rows += -(-count // tile) * tile
    codes = torch.zeros(rows, a.shape[1], device=a.device, dtype=torch.uint8).view(a.dtype)
    scales = torch.ones(rows, sa.shape[1], device=a.device)
    matrix = torch.full((rows,), -1, device=a.device, dtype=torch.int32)
    begin = 0
    for g, count in enumerate(counts):
        to = slice(first[g], first[g] + count)
        codes[to], scales[to], matrix[to] = a[begin : begin + count], sa[begin : begin + count], g
        begin += count
    d, laid = poisoned(rows, b.shape[1]), scales_of_rows(scales)
    return lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous((codes, laid), (b, sb), d, matrix), d, first


def masked(a, sa, b, sb, counts, capacity):
    """The same with `capacity` rows for each matrix, result [g, capacity, n]."""
    import deep_gemm
    import torch

    codes = torch.zeros(len(counts), capacity, a.shape[1], device=a.device, dtype=torch.uint8).view(a.dtype)
    scales = torch.ones(len(counts), capacity, sa.shape[1], device=a.device)
    begin = 0
    for g, count in enumerate(counts):
        codes[g, :count], scales[g, :count] = a[begin : begin + count], sa[begin : begin + count]
        begin += count
    rows = torch.tensor(counts, device=a.device, dtype=torch.int32)
    d, laid, expected = poisoned(len(counts), capacity, b.shape[1]), scales_of_rows(scales), sum(counts) // len(counts)
    # Its name has changed between releases.
    names = ("m_grouped_fp8_gemm_nt_masked", "fp8_m_grouped_gemm_nt_masked", "m_grouped_fp8_fp4_gemm_nt_masked")
    product = next(getattr(deep_gemm, name) for name in names if hasattr(deep_gemm, name))
    return lambda: product((codes, laid), (b, sb), d, rows, expected), d


def main():
    import deep_gemm
    import torch

    from gpu_judge import judge, quantised

    shapes = sys.argv[1].split(",") if len(sys.argv) > 2 else ["256x256"]
    rows = sys.argv[2].split(",") if len(sys.argv) > 2 else ["128"]
    for n, k in (map(int, shape.split("x")) for shape in shapes):
        b, sb = quantised(n, k, 128)
        for m in map(int, rows):
            a, sa = quantised(m, k, 1)
            call, d = dense(a, sa, b, sb)
            call()
            torch.cuda.synchronize()
            if len(sys.argv) <= 2:
                error = judge(a, sa, b, sb, k)(d)[1]
                if not error <= 1:
                    sys.exit(f"its small product is wrong: {error:.3g} of the bound of tensor14")
    print(f"DeepGEMM {getattr(deep_gemm, '__version__', '')} works here")


if __name__ == "__main__":
    main()

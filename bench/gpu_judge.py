# SPDX-License-Identifier: Apache-2.0
"""Random operands of block-scaled fp8 products on a GPU, and how wrong a result of theirs is, as a share of the bounds of class f32 and
tensor14 (docs/numerics.md). For gpu_peers.py, which times products, and gpu_deepgemm.py, which tries one."""


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


def judge(a, sa, b, sb, k, rows=16):
    """What says of a product the largest errors of its first rows over the bounds of class f32 and of tensor14."""
    rows = min(rows, a.shape[0])
    left = a[:rows].double() * sa[:rows].double().repeat_interleave(128, 1)
    right = b.double() * sb.double().repeat_interleave(128, 0)[: b.shape[0]].repeat_interleave(128, 1)
    want, size = left @ right.t(), left.abs() @ right.abs().t()
    f32 = 2.0**-8 * want.abs() + (128 + k / 128 + 3) * 2.0**-24 * size
    tensor14 = f32 + cut_in_14_bits(a[:rows], sa[:rows], b, sb.repeat_interleave(128, 0)[: b.shape[0]])

    def errors(d):
        error = (d[:rows].double() - want).abs()
        return (error / f32).max().item(), (error / tensor14).max().item()

    return errors

# SPDX-License-Identifier: Apache-2.0
"""Layers over the processes of torch.distributed: the bits of one device, and of the sum in the order of ranks."""
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing was tested of ironcl.distributed")

RANK = """
import sys, torch, ironcl, ironcl.distributed
rank, folder, device = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
torch.manual_seed(7)
codes, scales = ironcl.quantize(torch.randn(300, 512) * torch.exp2(torch.randint(-6, 6, (300, 1)).float()), block=(128, 128), device=device)
x, bias = torch.randn(5, 512).bfloat16(), torch.randn(300)
whole = ironcl.Linear(codes, scales, device=device, bias=bias)
for chunks in 2, 1:
    options = dict(max_rows=8, device=device, bias=bias, chunks=chunks)
    column = ironcl.distributed.Linear(codes, scales, ragged=True, **options)
    assert column.ranges == "n 300 = 0..149 | 150..299, blocks of 128; ragged: 1", column.ranges
    assert torch.equal(column(x), whole(x)), "columns"
    row = ironcl.distributed.Linear(codes, scales, split="row", out_dtype=torch.float32, **options)
    parts = [ironcl.Linear(codes[:, at:at + 256].contiguous(), scales[:, at // 128:at // 128 + 2].contiguous(), device=device,
                           bias=bias if at == 0 else None)(x[:, at:at + 256].contiguous(), out_dtype=torch.float32) for at in (0, 256)]
    assert torch.equal(row(x), parts[0] + parts[1]), "rows"
try:
    column(x[: 3 + rank])
except ironcl.InvalidArgument as error:
    assert "rank 1 has a call of 4 rows, rank 0 has a call of 3 rows" in str(error), error
else:
    raise AssertionError("ranks that disagree")
torch.distributed.destroy_process_group()
print("right")
"""


def test_layers_over_two_processes(device, tmp_path):
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path), device], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for rank in (0, 1)]
    for rank in ranks:
        out = rank.communicate(timeout=120)[0]
        assert rank.returncode == 0 and "right" in out, out

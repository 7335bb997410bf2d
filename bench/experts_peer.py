#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole layers of experts on this machine's CPU: IronCL beside PyTorch.

    python3 bench/experts_peer.py IRONCL [--model NAME] [--experts N] [--tokens LIST] [--rounds N] [--torch PYTHON]

IronCL's rows are `ironcl bench --model NAME --tokens LIST` (checked against the oracle before they are timed), PyTorch's
are transformers' own eager experts, Qwen3MoeExperts, in bf16 with weights of the same sizes (where PYTHON has no
transformers, the same loop by hand), and the model's shared expert as its layer computes it. Both sides are given ids
and weights, and take turns for some rounds; medians over all rounds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

# E, k, H, I, I of the shared expert, whether that is gated: as `ironcl bench` has them.
SHAPES = {
    "deepseek-v3": (256, 8, 7168, 2048, 2048, 0),
    "qwen3-30b-a3b": (128, 8, 2048, 768, 0, 0),
    "qwen3-235b-a22b": (128, 8, 4096, 1536, 0, 0),
    "qwen3-next-80b-a3b": (512, 10, 2048, 512, 512, 1),
    "minimax-m2": (256, 8, 3072, 1536, 0, 0),
    "mixtral-8x7b": (8, 2, 4096, 14336, 0, 0),
}

# Run by PYTHON: sizes on the command line, a line of JSON for each line "T CALLS" of the standard input. Without
# transformers the same loop by hand: its eager experts visit each expert that is hit, and nothing else.
PEER = r"""
import json, sys, time, torch
experts, k, hidden, width, shared, gated = map(int, sys.argv[1:7])
try:
    from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts
    config = Qwen3MoeConfig(hidden_size=hidden, moe_intermediate_size=width, num_experts=experts, num_experts_per_tok=k)
    config._experts_implementation = "eager"
    block, kind = Qwen3MoeExperts(config).to(torch.bfloat16).eval(), "transformers"
    gate_up, down = block.gate_up_proj, block.down_proj
except ImportError:
    kind = "by hand"
    gate_up = torch.empty(experts, 2 * width, hidden, dtype=torch.bfloat16)
    down = torch.empty(experts, hidden, width, dtype=torch.bfloat16)

    def block(x, ids, weights):
        y = torch.zeros_like(x)
        for expert in ids.unique().tolist():
            token, slot = (ids == expert).nonzero(as_tuple=True)
            gate, up = (x[token] @ gate_up[expert].T).chunk(2, dim=-1)
            rows = (torch.nn.functional.silu(gate) * up) @ down[expert].T
            y.index_add_(0, token, rows * weights[token, slot, None])
        return y

shared_gate_up = torch.empty(2 * shared, hidden, dtype=torch.bfloat16)
shared_down = torch.empty(hidden, shared, dtype=torch.bfloat16)
shared_gate = torch.empty(1, hidden, dtype=torch.bfloat16)

def layer(x, ids, weights):
    y = block(x, ids, weights)
    if shared:
        gate, up = (x @ shared_gate_up.T).chunk(2, dim=-1)
        mlp = (torch.nn.functional.silu(gate) * up) @ shared_down.T
        y = y + (torch.sigmoid(x @ shared_gate.T) * mlp if gated else mlp)
    return y

with torch.no_grad():
    for parameter in (gate_up, down, shared_gate_up, shared_down, shared_gate):
        parameter.normal_(0, 0.02)
    for line in sys.stdin:
        tokens, calls = map(int, line.split())
        torch.manual_seed(1)
        x = torch.randn(tokens, hidden).to(torch.bfloat16)
        ids = torch.rand(tokens, experts).topk(k, dim=-1).indices
        weights = torch.rand(tokens, k).to(torch.bfloat16)
        layer(x, ids, weights)
        times = []
        for _ in range(calls):
            before = time.perf_counter_ns()
            layer(x, ids, weights)
            times.append(time.perf_counter_ns() - before)
        print(json.dumps({"tokens": tokens, "hit": len(ids.unique()), "times_ns": times, "torch": torch.__version__,
                          "kind": kind, "threads": torch.get_num_threads()}), flush=True)
"""


def ours(ironcl, options, tokens):
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows.json"
        command = [ironcl, "bench", "--device", "opencl:cpu", "--model", options.model, "--tokens", tokens,
                   "--json", str(rows)]  # fmt: skip
        if options.experts:
            command += ["--experts", str(options.experts)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if not rows.exists():
            sys.exit(f"{' '.join(command)} ended with {done.returncode} and wrote no rows")
        return {row["tokens"]: row for row in json.loads(rows.read_text())["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("--model", default="qwen3-30b-a3b", choices=SHAPES)
    parser.add_argument("--experts", type=int, default=0, help="so many experts (default: the model's)")
    parser.add_argument("--tokens", default="1,8,64,512")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=7, help="calls of PyTorch a round")
    parser.add_argument("--torch", help="a python with torch, and transformers if it can be; none: without that column")
    parser.add_argument("--json", default="experts-peer.json")
    options = parser.parse_args()
    experts, k, hidden, width, shared, gated = SHAPES[options.model]
    experts = options.experts or experts
    peer = None
    if options.torch:
        sizes = map(str, (experts, k, hidden, width, shared, gated))
        peer = subprocess.Popen([options.torch, "-c", PEER, *sizes], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    rows = {}
    for _ in range(options.rounds):
        for tokens, row in ours(options.ironcl, options, options.tokens).items():
            if row["verdict"] != "pass":
                sys.exit(f"T = {tokens}: {row['verdict']}: {row['why']}")
            at = rows.setdefault(tokens, {"ours": [], "torch": [], "row": row})
            at["ours"].append(row["time_ns"])
        for tokens in rows if peer else ():
            peer.stdin.write(f"{tokens} {options.calls}\n")
            peer.stdin.flush()
            answer = peer.stdout.readline()
            if not answer:
                sys.exit("PyTorch's side ended; its message is above")
            said = json.loads(answer)
            rows[tokens]["torch"].append(statistics.median(said["times_ns"]))
            rows[tokens]["peer"] = f"torch {said['torch']}, {said['kind']}, {said['threads']} threads"
    if peer:
        peer.stdin.close()
        peer.wait()
    what = f"{experts} experts of [{width}, {hidden}], {k} a token{', and a shared one' if shared else ''}"
    print(f"{options.model}, {what}; ms, medians of {options.rounds} rounds")
    print(f"{'T':>6} {'hit':>5} {'ours':>10} {'torch':>10} {'of torch':>9} {'GB/s':>7} {'of copy':>8}")
    for at in list(rows.values())[:1]:
        print(at.get("peer", "without PyTorch"))
    for tokens, at in sorted(rows.items()):
        mine = statistics.median(at["ours"])
        torch = statistics.median(at["torch"]) if at["torch"] else None
        copy = at["row"]["of_copy_ceiling"]
        print(f"{tokens:>6} {at['row']['hit']:>5} {mine / 1e6:>10.3f} "
              f"{f'{torch / 1e6:.3f}' if torch else '-':>10} "
              f"{f'{torch / mine:.2f}' if torch else '-':>9} {at['row']['gbytes_per_s']:>7.2f} "
              f"{f'{copy:.2f}' if copy else '-':>8}")  # fmt: skip
    pathlib.Path(options.json).write_text(json.dumps({"model": options.model, "experts": experts, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

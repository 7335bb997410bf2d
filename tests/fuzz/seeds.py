#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the inputs of corpus/ that stand for what hostile use once broke (docs/trust.md), where an input can: each byte is a
choice of the drivers in abi*.cpp and lines.cpp, so run this again where they choose otherwise. defect-* are its files.
"""
import pathlib

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
NO, YES, WHOLE = 1, 0, 0  # below(n) == 0 is what asks for the odd thing; a struct_size is right.

QUEUE = [0, WHOLE, NO]
DESTROY_QUEUE = [2, 0]


def described(m, n, k=None, split=True):
    """A product with usual types (bf16 activations, k = 256), or of any size where k is named; gemm_stream in 16 parts."""
    if k is None: sizes = [NO, m, n, 1, 0]
    else:
        grid = lambda rows: [NO, 1, rows, 4, NO, NO]
        sizes = [0, 0, m, 0, n, 0, k, NO, NO, 3, NO, 3, NO, 0, *grid(1), *grid(4)]
    return [WHOLE, *sizes, NO, NO, NO, NO, NO, NO, NO, NO, NO, *([YES, NO, 1, 0] if split else [NO])]


def plan(m, n): return [10, *described(m, n), WHOLE]
def supports(m, n, k): return [19, *described(m, n, k), WHOLE, WHOLE]
def weights(n): return [7, WHOLE, NO, n, NO, NO, 0, 0, NO, WHOLE]
def buffer(size, past=None): return [3, WHOLE, size, NO, *([NO] if past is None else [YES, past]), WHOLE]
def whole(at): return [NO, NO, at, NO, 0]
def call(m, workspace=None, wait=()):
    """One plan and one queue are there: compilers differ in which of two arguments they choose first."""
    others = [NO, *([NO] if workspace is None else [YES, *whole(workspace)]), *[NO] * 5]
    return [12, WHOLE, NO, m, NO, NO, 0, *whole(0), *whole(1), *others, len(wait), *[b for at in wait for b in (NO, at)],
            NO, WHOLE, NO, 0, NO, 0]
def wait(at): return [16, WHOLE, NO, at, 3]
def deep(waited): return [255, NO, 0, NO, 0, NO, ROWS, NO, 0, *whole(0), *whole(1), 63, *([YES, WHOLE] if waited else [NO])]


ROWS, COLUMNS, ANY_BUFFER = 2, 7, 3  # 5 rows, 200 columns, 65536 bytes
ready = [1, *QUEUE, *plan(ROWS, COLUMNS), *weights(COLUMNS), *buffer(ANY_BUFFER), *buffer(ANY_BUFFER)]
seeds = {
    # A plan's own workspace, used by queues of which one is destroyed with its call under way.
    "abi/defect-queue-destroyed": ready + (call(ROWS) + DESTROY_QUEUE + QUEUE) * 5 + call(ROWS) + wait(0),
    # Each call waits for the one before; deep enough to overflow a stack that follows them.
    "abi/defect-chain-waited": ready + deep(True),
    "abi/defect-chain-destroyed": ready + deep(False),
    # Memory of the caller's at 1, 4, 16 and 32 bytes past a page, as the workspace of a call.
    **{f"abi/defect-imported-{past}": ready + buffer(ANY_BUFFER, at) + call(ROWS, workspace=2) + wait(0)
       for at, past in enumerate((1, 4, 16, 32), 1)},
    # Workspaces of 16 parts whose bytes wrap around 2^64.
    "abi/defect-workspace-wraps": [1, *supports(13, 14, 0), *supports(15, 16, 0)],
    # A filter over a line of 100,000 characters (lines.cpp: where the words' length divides by 16).
    "lines/defect-filter": [4, *b"load,filter=.*a*"],
}
for name, choices in seeds.items(): (CORPUS / name).write_bytes(bytes(choices))

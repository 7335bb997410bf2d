# SPDX-License-Identifier: Apache-2.0
"""Linear layers over the processes of ``torch.distributed``, such as ``torchrun`` starts; CPU tensors, messages by gloo.

The library and the bits are those of ``ironcl ... --ranks``: docs/ranks.md says what is split how, and what travels.
"""
from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from . import _arrays as arrays
from . import _core
from ._arrays import CODES, TYPES
from ._linear import block_of, open_device, scale_shape


class _Message:
    """The works of a message, one after another."""

    def __init__(self, works: Iterable[Any]) -> None:
        self.works, self.ended, self.error = works, False, None

    def done(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.ended


_waiters: weakref.WeakKeyDictionary[threading.Thread, queue.SimpleQueue[_Message | None]] = weakref.WeakKeyDictionary()


@atexit.register
def _end_waiters() -> None:
    """A thread that gloo lets go while Python ends would end the process: only those whose message never comes are left."""
    end = time.monotonic() + 1
    for waiting in _waiters.values():
        waiting.put(None)
    for thread in list(_waiters):
        thread.join(max(0, end - time.monotonic()))


class _Messages:
    """Messages between the processes of a group. gloo says that one has ended only to who waits for it: a thread does, in order.
    Sizes travel first, since gloo ends a process that gets more than it expects."""

    def __init__(self, group: Any) -> None:
        self.group = dist.new_group(backend="gloo") if group is None else group
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self._waiting: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        thread = threading.Thread(target=self._wait, args=(self._waiting,), daemon=True)
        _waiters[thread] = self._waiting
        thread.start()
        weakref.finalize(self, self._waiting.put, None)

    @staticmethod
    def _wait(waiting: queue.SimpleQueue[_Message | None]) -> None:
        while (message := waiting.get()) is not None:
            try:
                for work in message.works:
                    work.wait()
                message.ended = True
            except RuntimeError as error:
                message.error = error

    def _start(self, works: Iterable[Any]) -> _Message:
        message = _Message(works)
        self._waiting.put(message)
        return message

    def send(self, rank: int, tensor: torch.Tensor) -> _Message:
        to = dist.get_global_rank(self.group, rank)
        size = torch.tensor([tensor.numel()])
        return self._start([dist.isend(part, to, group=self.group, tag=tag) for tag, part in enumerate((size, tensor))])

    def receive(self, rank: int, tensor: torch.Tensor) -> _Message:
        sender = dist.get_global_rank(self.group, rank)
        size = torch.empty(1, dtype=torch.int64)
        first = dist.irecv(size, sender, group=self.group, tag=0)

        def works() -> Iterator[Any]:
            yield first
            sent, expected = int(size), tensor.numel()
            room = tensor if sent == expected else torch.empty(sent, dtype=torch.uint8)
            yield dist.irecv(room, sender, group=self.group, tag=1)
            if room is not tensor:
                tensor[:sent] = room[:expected]
                raise RuntimeError(f"rank {rank} sent {sent} bytes where rank {self.rank} expects {expected}; "
                                   "every rank makes the same calls in the same order")

        return self._start(works())


class Linear:
    """``ironcl.Linear`` over ranks. Every process makes it, and calls it, in the same order with the same sizes.

    Parameters
    ----------
    weight, weight_scale, block, bias, device :
        As of ``ironcl.Linear``: of the whole layer, of which a rank reads its part (map the file).
    split : "column" or "row"
        Rows of the weight on each rank, and the bits of ``ironcl.Linear``; or its columns, and sums in the order of ranks.
    max_rows : int
        The most rows of a call.
    dtype, out_dtype :
        Of x and of y (x's).
    group :
        A gloo group that nobody else sends messages in; None: a new one of all processes, which all of them make here.
    chunks : int
        Parts in which rows go, one on its way while the next is computed.
    timeout : float
        Seconds after which a silent rank has hung: ``ironcl.Timeout`` names it.
    """

    def __init__(self, weight: Any, weight_scale: Any, *, split: str = "column", max_rows: int, dtype: Any = torch.bfloat16, out_dtype: Any = None,
                 block: Any = (128, 128), bias: Any = None, device: Any = "auto", group: Any = None, ragged: bool = False, chunks: int = 1,
                 timeout: float = 300) -> None:
        if split not in ("column", "row"):
            raise ValueError(f"split is {split!r}; expected 'column' or 'row'")
        w = arrays.take(weight, "weight", allowed=CODES, ndim=2)
        s = arrays.take(weight_scale, "weight_scale", allowed=("f32", "f16", "bf16", "e8m0"))
        block = block_of(block)
        if s.shape != scale_shape(*w.shape, block):
            raise ValueError(f"weight_scale has shape {s.shape}; expected {scale_shape(*w.shape, block)} for weight {w.shape} and block {block}")
        b = None if bias is None else arrays.take(bias, "bias")
        self.out_features, self.in_features = w.shape
        self._x, self._y = arrays.type_name(dtype), arrays.type_name(dtype if out_dtype is None else out_dtype)
        sizes = {"f32": 4, "f16": 2, "bf16": 2}
        self._x_size, self._y_size = sizes[self._x], sizes[self._y]
        self._core = _core.Spread(
            _Messages(group), open_device(device), w.address, w.count, s.address, s.count * {"e8m0": 1}.get(s.type, sizes.get(s.type, 1)),
            b.address if b else 0, b.count * sizes[b.type] if b else 0, max_rows, *w.shape, TYPES[self._x], TYPES[w.type], TYPES[s.type],
            TYPES[b.type] if b else 0, TYPES[self._y], block, split == "row", ragged, chunks, timeout)

    @property
    def ranges(self) -> str:
        """Who holds what, such as "n 1536 = 0..767 | 768..1535, blocks of 128"."""
        return self._core.ranges

    def __call__(self, x: Any) -> torch.Tensor:
        """y [..., out_features] of x [..., in_features], all of both on every rank."""
        a = arrays.take(x, "x", allowed=(self._x,))
        if not a.shape or a.shape[-1] != self.in_features:
            raise ValueError(f"x has shape {a.shape}; expected [..., {self.in_features}]")
        rows = a.count // self.in_features
        y, address = arrays.empty(a.shape[:-1] + (self.out_features,), self._y, torch=True)
        self._core.run(rows, a.address, a.count * self._x_size, address, rows * self.out_features * self._y_size)
        return y

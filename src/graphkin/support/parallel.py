"""Several processes that train one model together: torchrun starts them, PyTorch's collectives join them.

Every process holds the graph and the same parameters, draws the same random numbers, and works on its share of the nodes: of
the rows of similarity before training, of the anchors in every step, and of the nodes to encode. The losses and
gradients of all shares add up to those of one process. Without torchrun, or outside :func:`joined`, a process is alone and does
everything.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphkin.errors import InputError, SettingError
from graphkin.support.launch import LostError, Place, ToldElsewhereError, launched

stores: Any = dist
JOIN_WAIT = timedelta(minutes=5)
"""How long to wait for the other processes to start."""
WAIT = timedelta(days=1)
"""How long to wait for a process that has more to do; torchrun notices those that die."""
T = TypeVar("T")


@dataclass(frozen=True)
class Peers(Place):
    """The processes that train together, as seen from one of them."""

    def share(self, rows: Tensor) -> Tensor:
        first, last = self.bounds(len(rows))
        return rows[first:last]

    def complete(self, rows: Tensor) -> Tensor:
        """Where every process has filled in its share of the rows, give each all of them, in place."""
        if self.size > 1:
            for rank in range(self.size):
                first, last = self.bounds(len(rows), rank)
                if last > first:
                    rows[first:last] = self.broadcast(rows[first:last].contiguous(), rank)
        return rows

    def broadcast(self, tensor: Tensor, rank: int) -> Tensor:
        """Replace a tensor by the one of process ``rank``."""
        if self.size > 1:
            _all(dist.broadcast, tensor, src=rank)
        return tensor

    def gather(self, mine: Tensor, total: int, at: Tensor | None = None) -> Tensor:
        """``total`` rows from the shares of all processes, with gradient.

        Shares that do not follow each other have flags: ``at`` says of every row whether it is this process's.
        """
        if self.size == 1:
            return mine
        gathered: Tensor = _Gathered.apply(mine, self, total, at)  # type: ignore[no-untyped-call]
        return gathered

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Replace every tensor by its sum over all processes, in one call."""
        if self.size == 1:
            return
        listed = list(tensors)
        if len(listed) == 1 and listed[0].is_contiguous():
            _all(dist.all_reduce, listed[0])
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in listed])
        _all(dist.all_reduce, flat)
        for tensor, summed in zip(listed, flat.split([tensor.numel() for tensor in listed]), strict=True):
            tensor.copy_(summed.view_as(tensor))

    def any(self, holds: bool) -> bool:
        """Whether it holds in any process."""
        if self.size == 1:
            return holds
        count = torch.tensor(int(holds))
        _all(dist.all_reduce, count)
        return bool(count > 0)

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first process makes. If it finds a mistake of the user's, all processes end."""
        if self.size == 1:
            return make()
        made: list[Any] = [None, True]
        error = None
        if self.first:
            try:
                made = [make(), False]
            except InputError as found:
                error = found
        _all(dist.broadcast_object_list, made, src=0)
        if error is not None:
            raise error
        if made[1]:
            raise ToldElsewhereError
        value: T = made[0]
        return value

    def one_at_first(self, make: Callable[[], T]) -> T:
        """What each process makes. The first of a machine goes before the others: it may have something to download."""
        if self.local_rank == 0:
            try:
                return make()
            finally:
                self.any(False)
        self.any(False)
        return make()

    def check_same(self, value: object, message: str) -> None:
        """Refuse a value that differs from the first process's."""
        with self.same_fate():
            if self.from_first(lambda: value) != value:
                raise SettingError(message)

    @contextmanager
    def same_fate(self) -> Iterator[None]:
        """A mistake of the user's that any process finds in here ends all of them; the first that found one reports it."""
        if self.size == 1:
            yield
            return
        error = None
        try:
            yield
        except InputError as found:
            error = found
        failed: list[bool] = [False] * self.size
        _all(dist.all_gather_object, failed, error is not None)
        if error is not None and failed.index(True) == self.rank:
            raise error
        if any(failed):
            raise ToldElsewhereError


ALONE = Peers()
_current = ALONE


def peers() -> Peers:
    """The processes that train together, as seen from this one."""
    return _current


@contextmanager
def joined(backend: str | None = None) -> Iterator[Peers]:
    """Take part in the run that torchrun started (Gloo on a CPU, NCCL on a GPU); without torchrun, change nothing."""
    global _current
    found = Peers(**asdict(launched()))
    if found.size == 1:
        yield ALONE
        return
    if dist.is_initialized():
        raise SettingError("processes are joined once: PyTorch's process group exists already.")
    if torch.cuda.is_available() and found.local_rank < torch.cuda.device_count():
        torch.cuda.set_device(found.local_rank)
    store = _met(found)
    importlib.import_module("torch.distributed.nn")  # imported later, its default arguments would keep the group alive
    _all(dist.init_process_group, backend, store=store, rank=found.rank, world_size=found.size, timeout=WAIT)
    _current = found
    try:
        with _ended_in_words():
            yield found
    finally:
        _current = ALONE
    dist.destroy_process_group()  # which ends Gloo's threads; after an error it might wait for those who are gone


def _met(among: Peers) -> Any:
    """The store in which every process has registered; an error names the one that does not come in time."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    launcher_keeps_it = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    opens = among.first and not launcher_keeps_it
    try:
        store = stores.TCPStore(address, port, among.size, opens, JOIN_WAIT, wait_for_workers=False)
        met = stores.PrefixStore(f"graphkin/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        met.set(str(among.rank), "here")
    except (RuntimeError, ValueError) as error:
        what = "cannot be opened" if opens else "does not answer: was process 0 started?"
        raise LostError(f"process {among.rank} of {among.size}: {address}:{port} {what} ({_reason(error)})") from error
    for rank in range(among.size):
        try:
            met.wait([str(rank)], JOIN_WAIT)
        except RuntimeError as error:
            raise LostError(
                f"process {rank} of {among.size} (WORLD_SIZE) did not reach {address}:{port} within "
                f"{JOIN_WAIT.total_seconds():.0f} s: start it, or unset WORLD_SIZE to run alone"
            ) from error
    return met


def _reason(error: Exception) -> str:
    return re.sub(r"^\[.*?\] ", "", str(error)).partition(". ")[0].strip()[:100]


def _all(collective: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    try:
        collective(*arguments, **options)
    except (RuntimeError, ValueError) as error:
        raise LostError(f"another process ended or cannot be reached ({_reason(error)})") from error


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mine: Tensor, among: Peers, total: int, at: Tensor | None) -> Tensor:
        ctx.among, ctx.at = among, slice(*among.bounds(total)) if at is None else at
        rows = mine.new_zeros(total, *mine.shape[1:])
        rows[ctx.at] = mine
        if at is None:
            return among.complete(rows)
        among.add_up([rows])
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        summed = grads[0].clone()
        ctx.among.add_up([summed])
        return summed[ctx.at], None, None, None


@contextmanager
def _ended_in_words() -> Iterator[None]:
    """torchrun ends all processes by SIGTERM when one of them has died. The user should hear of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise LostError("torchrun ended this process: another one has died, or the run was cancelled")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

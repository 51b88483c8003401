"""Time and peak memory of a call."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from graphkin.bench.results import Row

STATM = Path("/proc/self/statm")
PAGE = 4096


def cost(
    problem: dict[str, Any],
    contender: str,
    call: Callable[[], object],
    device: torch.device,
    *,
    error: float | None = None,
    repeats: int = 10,
    at_most_seconds: float = 10.0,
    share: float = 1.0,
) -> Row:
    """Call once to warm up, then up to ``repeats`` times; ``share`` is the part of a call that counts (one epoch of many)."""
    try:
        with peak_memory(device) as peak:
            call()
            _wait(device)
        times: list[float] = []
        while len(times) < repeats and sum(times) < at_most_seconds:
            start = time.perf_counter()
            call()
            _wait(device)
            times.append(time.perf_counter() - start)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return Row(problem, contender, failure="out of memory")
    scaled = [share * seconds for seconds in times]
    return Row(problem, contender, error, statistics.median(scaled), min(scaled), max(scaled), peak[0])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def peak_memory(device: torch.device) -> Iterator[list[int | None]]:
    """On a GPU the most that PyTorch had allocated; on a CPU the largest resident size, sampled every two milliseconds."""
    peak: list[int | None] = [None]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield peak
        peak[0] = torch.cuda.max_memory_allocated(device)
    elif not STATM.exists():
        yield peak
    else:
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.002):
                peak[0] = max(peak[0] or 0, _resident())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield peak
        finally:
            done.set()
            watcher.join()
            peak[0] = max(peak[0] or 0, _resident())


def _resident() -> int:
    return int(STATM.read_text().split()[1]) * PAGE

"""How much memory a stretch of code takes at its peak, and memory that goes back to the system."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

STATM = Path("/proc/self/statm")
PAGE = 4096


@contextmanager
def peak_memory(device: torch.device, every: float = 0.002) -> Iterator[list[int | None]]:
    """On a GPU the most that PyTorch had allocated; on a CPU the process's largest resident size, sampled ``every`` seconds."""
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
            while not done.wait(every):
                peak[0] = max(peak[0] or 0, _resident())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield peak
        finally:
            done.set()
            watcher.join()
            peak[0] = max(peak[0] or 0, _resident())


def give_back() -> None:
    """Return to the system what is free: glibc keeps free memory that lies between blocks in use."""
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """None where the C library is another."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found


def _resident() -> int:
    return int(STATM.read_text().split()[1]) * PAGE

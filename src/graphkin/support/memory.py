"""How much memory a stretch of code takes at its peak."""

from __future__ import annotations

import threading
from collections.abc import Iterator
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


def _resident() -> int:
    return int(STATM.read_text().split()[1]) * PAGE

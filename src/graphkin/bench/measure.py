"""Time and peak memory of a call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from graphkin.bench.results import Row
from graphkin.support.memory import peak_memory


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

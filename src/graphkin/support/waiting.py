"""How PyTorch's threads wait for work on a CPU. Its OpenMP reads that from the environment once, when PyTorch is imported."""

from __future__ import annotations

import os
import sys

SAID_BY = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
CAME_TOO_LATE = sys.platform == "linux" and "torch" in sys.modules and not any(name in os.environ for name in SAID_BY)
"""PyTorch was imported before anyone said how to wait, so its threads spin for long"""
LOOKED_FOR = 0.1
"""seconds in which other programs are watched"""


def spin_for_a_moment() -> None:
    """And then sleep, unless the user says otherwise.

    Threads that spin for long starve other programs, and each other. But waking one takes longer than a moment's wait
    (docs/performance.md).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def spinning() -> str | None:
    """A warning where threads spin and other programs need the cores."""
    import psutil
    import torch

    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    if not CAME_TOO_LATE or threads == 1:
        return None
    busy = cores * psutil.cpu_percent(LOOKED_FOR) / 100
    if threads + busy < cores + 0.5:
        return None
    return (
        f"PyTorch was imported before graphkin, so its threads spin while they wait, and other programs use {busy:.1f} of "
        f"{cores} cores: training may take many times as long. Import graphkin first, set OMP_WAIT_POLICY=passive, or call "
        "torch.set_num_threads(1)."
    )

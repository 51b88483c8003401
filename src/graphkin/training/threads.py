"""Whether threads that train are in the way of other programs."""

from __future__ import annotations

import os

import psutil
import torch

from graphkin.support.waiting import CAME_TOO_LATE

LOOKED_FOR = 0.1
"""seconds in which other programs are watched"""


def spinning() -> str | None:
    """A warning where threads spin and other programs need the cores."""
    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    if not CAME_TOO_LATE or threads == 1:
        return None
    busy = cores * psutil.cpu_percent(LOOKED_FOR) / 100
    if threads + busy < cores + 0.5:
        return None
    return (
        f"PyTorch was imported before graphkin, so its threads spin while they wait, and other programs use {busy:.1f} of "
        f"{cores} cores: training may take much longer. Import graphkin first, set OMP_WAIT_POLICY=passive, or call "
        "torch.set_num_threads(1)."
    )

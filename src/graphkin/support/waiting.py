"""How PyTorch's threads wait for work on a CPU. Its OpenMP reads that from the environment once, when PyTorch is imported."""

from __future__ import annotations

import os
import sys

SAID_BY = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
CAME_TOO_LATE = sys.platform == "linux" and "torch" in sys.modules and not any(name in os.environ for name in SAID_BY)
"""PyTorch was imported before anyone said how to wait, so its threads spin for long"""


def spin_for_a_moment() -> None:
    """And then sleep, unless the user says otherwise.

    Threads that spin for long starve other programs, and each other. But waking one takes longer than a moment's wait
    (docs/performance.md).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")

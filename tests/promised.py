"""What the tests of docs/reliability.md share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphkin.commands.cli import run
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store

masked_array: Any = np.ma.array
Capture = pytest.CaptureFixture[str]
QUICK = ("--epochs", "2", "--splits", "1", "-q", "-s", "hidden=4")


def arrays(dtype: str = "float32", nodes: int = 60) -> dict[str, Any]:
    """Two communities with features that every type can hold."""
    draw = np.random.default_rng(0)
    y = np.arange(nodes) % 2
    x = (draw.random((nodes, 6)) < 0.3 + 0.4 * (np.arange(6) % 2 == y[:, None])).astype(dtype)
    edges = draw.integers(0, nodes // 2, (2, 4 * nodes)) * 2 + draw.integers(0, 2, 4 * nodes)
    return {"x": x, "edge_index": edges, "y": y}


def graphkin_run(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def complaint(capsys: Capture, *arguments: object) -> str:
    capsys.readouterr()
    assert graphkin_run(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("graphkin: ") and line.isprintable()
    return line


def a_store(path: Path) -> Path:
    task = {"graph": "synthetic-60", "content": "c", "protocol": "grace", "baseline": None, "method": {"name": "grace"}}
    environment = json.dumps({"machine": {"system": "s"}, "versions": {"torch": "2"}, "commit": None})
    with_runs = Store(path)
    for seed in range(2):
        run = Outcome(
            "t", seed, {"10 %": 80.0}, {"10 %": 81.0}, (1.0, 0.5), 1.5, None, "2026-01-01T00:00:00+00:00", environment
        )
        with_runs.add(run, json.dumps(task))
    with_runs.close()
    return path

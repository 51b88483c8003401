"""``graphkin bench``: what the objective and a whole epoch cost here, in time and memory, against the dense way, in one run.

A speed counts only where the result is right: every contender's loss and gradient are compared first, and one that disagrees
gets no time.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from graphkin.errors import OutputError
from graphkin.runs import commit, environment, write_json


@dataclass(frozen=True)
class Row:
    """One contender on one problem. Exactly one of ``seconds`` and ``failure`` is given."""

    problem: dict[str, Any]
    contender: str
    error: float | None = None
    """of the gradient, or of the loss curve, relative"""
    seconds: float | None = None
    fastest: float | None = None
    slowest: float | None = None
    peak_bytes: int | None = None
    """memory at its highest, inputs included"""
    failure: str | None = None


class Results:
    """A run in a file of runs, whole on disk after every row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.earlier = read(path) if path.exists() else []
        self.rows: list[Row] = []
        self.commit = commit()

    def add(self, row: Row) -> None:
        self.rows.append(row)
        run = {"commit": self.commit, **environment(), "rows": [asdict(row) for row in self.rows]}
        write_json(self.path, [*self.earlier, run])


def read(path: Path) -> list[dict[str, Any]]:
    try:
        runs = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} is no file of benchmark runs: {error}") from error
    names = {field.name for field in fields(Row)}
    for run in runs if isinstance(runs, list) else [runs]:
        rows = run.get("rows") if isinstance(run, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) and names <= set(row) for row in rows):
            raise OutputError(f"{path} is no file of benchmark runs: a list of runs with rows was expected.")
    return list(runs)

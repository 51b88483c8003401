"""``graphkin bench``: what the objective and a whole epoch cost here, in time and memory, against the dense way, in one run.

A speed counts only where the result is right: every contender's loss and gradient are compared first, and one that disagrees
gets no time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from graphkin.errors import OutputError
from graphkin.support.environment import commit, environment
from graphkin.support.files import read_json, reading, write_json
from graphkin.support.shapes import check_shape


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
    with reading(path, "is no file of benchmark runs", OutputError):
        runs = read_json(path)
        names = {field.name: object for field in fields(Row)}
        check_shape(runs, [{"rows": [names]}])
    return list(runs)

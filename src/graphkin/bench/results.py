"""What was measured, in files of runs under ``benchmarks/results``."""

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
    """One contender on one problem, with either its ``seconds`` or its ``failure``."""

    problem: dict[str, Any]
    contender: str
    error: float | None = None
    """Relative, of the gradient or of the loss curve."""
    seconds: float | None = None
    fastest: float | None = None
    slowest: float | None = None
    peak_bytes: int | None = None
    """The highest memory use, inputs included."""
    failure: str | None = None


class Results:
    """This run in a file of runs, which is written after every row."""

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
    with reading(path, "is not a file of benchmark runs", OutputError):
        runs = read_json(path)
        names = {field.name: object for field in fields(Row)}
        check_shape(runs, [{"rows": [names]}])
    return list(runs)

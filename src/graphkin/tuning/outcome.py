"""What a search gives: every trial, the best settings, and the files that hold them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphkin.methods import Method, write_settings
from graphkin.support.files import write_whole
from graphkin.tuning.space import Space

COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"
SETTINGS_FILE, TRIALS_FILE = "settings.toml", "trials.csv"


@dataclass(frozen=True)
class Tried:
    """One trial."""

    number: int
    """from 1"""
    state: str
    score: float | None
    """in percent; of a pruned trial, the last one before it was stopped"""
    settings: Mapping[str, Any]
    """those that were searched"""
    seconds: float
    defaults: bool = False
    """whether these are the settings without a search"""
    failure: str | None = None


@dataclass(frozen=True)
class Tuned:
    """What :func:`graphkin.tune` returns."""

    method: Method
    """with the best settings: ``graphkin.fit(graph, tuned.method)``"""
    graph: str
    criterion: str
    measure: str
    """what the scores are, in words"""
    seed: int
    space: Space
    """what was searched"""
    tried: tuple[Tried, ...]
    importance: Mapping[str, float] = field(default_factory=dict)
    """the share of each setting in what made trials good; empty after few trials"""
    interrupted: bool = False
    """by Ctrl-C"""

    def __repr__(self) -> str:
        best = f", best {self.best.score:.2f} %" if self.finished else ""
        return f"Tuned({self.method.name!r} on {self.graph!r}: {len(self.tried)} trials{best})"

    @property
    def finished(self) -> list[Tried]:
        """Complete trials, the best first."""
        return sorted((one for one in self.tried if one.state == COMPLETE), key=lambda one: (-(one.score or 0), one.number))

    @property
    def best(self) -> Tried:
        return self.finished[0]

    @property
    def default(self) -> Tried | None:
        """The trial with the settings that the method has without a search."""
        return next((one for one in self.tried if one.defaults), None)

    def counts(self) -> dict[str, int]:
        return {state: sum(one.state == state for one in self.tried) for state in (COMPLETE, PRUNED, FAILED)}

    def as_dict(self) -> dict[str, Any]:
        default = self.default
        return {
            "graph": self.graph,
            "method": self.method.name,
            "criterion": self.criterion,
            "measure": self.measure,
            "seed": self.seed,
            "score": self.best.score,
            "default_score": None if default is None else default.score,
            "settings": self.method.settings(),
            "searched": self.space.as_dict(),
            "importance": dict(self.importance),
            "trials": [_plain(one) for one in self.tried],
            "interrupted": self.interrupted,
        }

    def write(self, folder: Path) -> None:
        """settings.toml, which ``preset=`` and ``--preset`` take, and trials.csv."""
        number, best = len(self.tried), self.best
        comments = [
            f"The best of {number} trials of {self.method.name} on {self.graph}: {self.measure} {best.score:.2f} %.",
            f"graphkin fit GRAPH --preset {SETTINGS_FILE}",
        ]
        write_settings(folder / SETTINGS_FILE, self.method, comments)
        write_whole(folder / TRIALS_FILE, lambda file: file.write_text(self._table(), encoding="utf-8"))

    def _table(self) -> str:
        names = list(dict.fromkeys(name for one in self.tried for name in one.settings))
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["trial", "state", "score", "seconds", "defaults", *names, "failure"])
        for one in self.tried:
            score = "" if one.score is None else one.score
            values = [shown_setting(one.settings[name]) if name in one.settings else "" for name in names]
            rows.writerow([one.number, one.state, score, round(one.seconds, 2), one.defaults, *values, one.failure or ""])
        return text.getvalue()


def shown_setting(value: Any) -> str:
    """As ``--set`` takes it."""
    if isinstance(value, tuple | list):
        return ",".join(shown_setting(entry) for entry in value)
    return "none" if value is None else str(value)


def _plain(one: Tried) -> dict[str, Any]:
    settings = {name: list(value) if isinstance(value, tuple) else value for name, value in one.settings.items()}
    rest = {name: getattr(one, name) for name in ("number", "state", "score", "seconds", "defaults", "failure")}
    return {**rest, "settings": settings}

"""Accuracies of peers as they were published, with their sources and the habits of their evaluations."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Published:
    row: str
    """its name on the leaderboard"""
    mark: str
    """where the numbers were read: paper, code, readme, or 2nd (tables of others)"""
    source: str
    values: Mapping[str, float | list[float]]
    """by dataset; a list is a range"""
    protocol: str | None = None
    """the one of ours that evaluates as its authors did, where that is not the leaderboard's"""

    def shown(self, dataset: str) -> str:
        value = self.values[dataset]
        return " to ".join(f"{one:.2f}" for one in (value if isinstance(value, list) else [value]))


@functools.cache
def published() -> tuple[Published, ...]:
    text = resources.files("graphkin.experiments").joinpath("published.toml").read_text(encoding="utf-8")
    return tuple(Published(**entry) for entry in tomllib.loads(text)["published"])

"""What only some runs have, each in a table of its own that is made with its first line: earlier stores have none of them."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from graphkin.support.files import parse_json


@dataclass(frozen=True)
class SideTable:
    """A value for each run, by trial and seed."""

    name: str
    column: str

    def read(self, database: sqlite3.Connection) -> dict[tuple[str, int], Any]:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (self.name,)).fetchone()
        if not known:
            return {}
        found = database.execute(f"SELECT task, seed, {self.column} FROM {self.name} ORDER BY task, seed")
        return {(task, seed): parse_json(value) for task, seed, value in found}

    def add(self, database: sqlite3.Connection, task: str, seed: int, value: Any) -> None:
        """What the store has already stays as it is; an empty value leaves no line."""
        if value:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {self.name} "
                f"(task TEXT NOT NULL, seed INTEGER NOT NULL, {self.column} TEXT NOT NULL, PRIMARY KEY (task, seed))"
            )
            database.execute(f"INSERT OR IGNORE INTO {self.name} VALUES (?, ?, ?)", (task, seed, json.dumps(value)))


CHOICES = SideTable("choices", "chosen")
"""which row a run chose, by measure"""
PEAKS = SideTable("peaks", "bytes")
"""the peak memory of training"""

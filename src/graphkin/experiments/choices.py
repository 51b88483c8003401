"""Which row a run chose, by measure. The table is made with the first choice: stores of earlier versions have none."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from graphkin.support.files import parse_json

TABLE = """
CREATE TABLE IF NOT EXISTS choices (
  task TEXT NOT NULL, seed INTEGER NOT NULL, chosen TEXT NOT NULL, PRIMARY KEY (task, seed))
"""


def read_choices(database: sqlite3.Connection) -> dict[tuple[str, int], dict[str, str]]:
    if not database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'choices'").fetchone():
        return {}
    found = database.execute("SELECT task, seed, chosen FROM choices ORDER BY task, seed")
    return {(task, seed): parse_json(chosen) for task, seed, chosen in found}


def add_choice(database: sqlite3.Connection, task: str, seed: int, chosen: Mapping[str, str]) -> None:
    """What the store has already stays as it is; a run that chose nothing leaves no line."""
    if chosen:
        database.execute(TABLE)
        database.execute("INSERT OR IGNORE INTO choices VALUES (?, ?, ?)", (task, seed, json.dumps(chosen)))

"""A store as one .json file, which can be read back, or as .csv with one line for each measure of each run."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.side_tables import CHOICES, PEAKS
from graphkin.support.files import parse_json, read_json

FORMAT = "graphkin-results"
FORMAT_VERSION = 1
CSV_COLUMNS = (
    *("graph", "method", "protocol", "seed", "measure", "test", "val", "seconds", "kernel", "finished", "task", "settings"),
    *("chosen", "peak_bytes"),
)
RUN_COLUMNS = ("task", "seed", "test", "val", "losses", "seconds", "kernel", "finished", "environment")


def as_json(database: sqlite3.Connection) -> str:
    """One line for each task and run, so that a change of the file shows what was added."""
    environments = dict(database.execute("SELECT id, description FROM environments"))
    tasks = database.execute("SELECT key, description FROM tasks ORDER BY key")
    runs = database.execute(f"SELECT {', '.join(RUN_COLUMNS)} FROM runs ORDER BY task, seed")
    lines = [
        f'{{"format": "{FORMAT}", "version": {FORMAT_VERSION},',
        '"environments": {',
        ",\n".join(f'"{number}": {description}' for number, description in environments.items()),
        '}, "tasks": {',
        ",\n".join(f'"{key}": {description}' for key, description in tasks),
        f'}}, "columns": {json.dumps(RUN_COLUMNS)}, "runs": [',
        ",\n".join(
            json.dumps([task, seed, parse_json(test), parse_json(val), parse_json(losses), *rest])
            for task, seed, test, val, losses, *rest in runs
        ),
        f"]{_side_tables(database)}}}\n",
    ]
    return "\n".join(lines)


def _side_tables(database: sqlite3.Connection) -> str:
    """Tables of their own, which files of earlier versions and stores without such runs do not have."""
    text = ""
    for table in (CHOICES, PEAKS):
        lines = [json.dumps([task, seed, value]) for (task, seed), value in table.read(database).items()]
        text += f', "{table.name}": [\n' + ",\n".join(lines) + "\n]" if lines else ""
    return text


def read_export(path: Path, database: sqlite3.Connection) -> None:
    """Fill the tables of an empty store with what :func:`as_json` wrote."""
    data = read_json(path)
    if data.get("format") != FORMAT or data.get("version") != FORMAT_VERSION:
        raise ValueError("it is not an export of this version")
    environments = [(int(number), json.dumps(text)) for number, text in data["environments"].items()]
    database.executemany("INSERT INTO environments VALUES (?, ?)", environments)
    tasks = [(key, json.dumps(text, sort_keys=True)) for key, text in data["tasks"].items()]
    database.executemany("INSERT INTO tasks VALUES (?, ?)", tasks)
    for task, seed, test, val, losses, *rest in data["runs"]:
        values = (task, seed, json.dumps(test), json.dumps(val), json.dumps(losses), *rest)
        database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    for table in (CHOICES, PEAKS):
        for task, seed, value in data.get(table.name, []):
            table.add(database, task, seed, value)


def write_csv(path: Path, trials: Mapping[str, dict[str, Any]], outcomes: Iterable[Outcome]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_COLUMNS)
        for outcome in outcomes:
            trial = trials[outcome.trial]
            method = trial["baseline"] or trial["method"]["name"]
            settings = json.dumps(trial["method"])
            for measure, value in outcome.test.items():
                what = (trial["graph"], method, trial["protocol"], outcome.seed, measure, value, outcome.val.get(measure))
                writer.writerow(
                    [
                        *what,
                        outcome.seconds,
                        outcome.kernel,
                        outcome.finished,
                        outcome.trial,
                        settings,
                        outcome.chosen.get(measure),
                        outcome.peak_bytes,
                    ]
                )

"""Finished runs in one SQLite file: written when a run ends, whole or not at all, and shared by several processes.

A process claims a run before it starts it and renews its claims while it lives, so that no two do the same. A claim ends with
its run, with its process, or after a while without news.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from graphkin.errors import InputError, OutputError, first_line
from graphkin.support.files import check_writable, parse_json, read_json, reason_of, write_whole
from graphkin.support.shapes import check_shape

FORMAT = "graphkin-results"
FORMAT_VERSION = 1
DISK_CODES = (
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
)
CLAIM_SECONDS = 120
RENEW_SECONDS = 20
TASK = {
    **{"graph": str, "content": str, "protocol": str, "baseline": (str, None), "method": ({"name": str}, None)},
    "per_class?": (int, None),
}
OUTCOME = {
    **{"seed": int, "test": {...: float}, "val": {...: float}, "losses": [float], "seconds": float},
    **{"kernel": (str, None), "finished": str},
}
ENVIRONMENT = {"machine?": (dict, None), "versions?": (dict, None), "commit?": (str, None)}
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tasks (key TEXT PRIMARY KEY, description TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS environments (id INTEGER PRIMARY KEY, description TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS runs (
  task TEXT NOT NULL REFERENCES tasks, seed INTEGER NOT NULL, test TEXT NOT NULL, val TEXT NOT NULL, losses TEXT NOT NULL,
  seconds REAL NOT NULL, kernel TEXT, finished TEXT NOT NULL, environment INTEGER NOT NULL REFERENCES environments,
  PRIMARY KEY (task, seed));
CREATE TABLE IF NOT EXISTS claims (
  task TEXT NOT NULL, seed INTEGER NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL, until REAL NOT NULL,
  PRIMARY KEY (task, seed));
"""


@dataclass(frozen=True)
class Outcome:
    """What one run gave: accuracies in percent by measure, some points of its loss curve, seconds of training."""

    task: str
    seed: int
    test: dict[str, float]
    val: dict[str, float]
    losses: tuple[float, ...]
    seconds: float
    kernel: str | None
    finished: str
    environment: str
    """JSON: versions, machine, commit"""


class Store:
    """Runs by task and seed. A ``.json`` file is an export, which is read whole and not written."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        if read_only and not path.is_file():
            raise OutputError(f"no results at {path}; graphkin reproduce makes them.")
        if not read_only and (path.suffix == ".json" or path.exists()) and not path.is_file():
            raise OutputError(f"a store must be a file such as results.sqlite, and no .json export, found {path}.")
        try:
            if path.suffix == ".json":
                self._database = _connect(":memory:")
                self._database.executescript(SCHEMA)
                self._read_export(path)
            elif read_only:
                self._database = _connect(f"{path.absolute().as_uri()}?mode=ro")
            else:
                self._make_tables()
            if path.suffix != ".json":
                self._check_version()
            self._check_contents()
        except InputError:
            raise
        except Exception as error:
            raise self._cannot_be_opened(error) from error

    def _cannot_be_opened(self, error: Exception) -> OutputError:
        """The file is damaged, unless SQLite says that it is the disk or another process."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return OutputError(f"{self.path} is kept busy by another process: try again later.")
        disk = (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_PERM,
        )
        if code in disk or isinstance(error, OSError):
            return OutputError(f"{self.path} cannot be opened, read or written on this disk: {first_line(error)}.")
        return OutputError(f"{self.path} is no file of graphkin's results, or is damaged: {reason_of(error)}.")

    def close(self) -> None:
        self._database.close()

    def check_writable(self) -> None:
        if self.path.suffix == ".json":
            raise OutputError(f"{self.path} is an export, which is only read: merge it into a store such as results.sqlite.")

    def finished(self) -> set[tuple[str, int]]:
        return {(task, seed) for task, seed in self._database.execute("SELECT task, seed FROM runs")}

    def outcomes(self, task: str | None = None) -> list[Outcome]:
        where, values = ("WHERE task = ?", (task,)) if task is not None else ("", ())
        found = self._database.execute(
            "SELECT task, seed, test, val, losses, seconds, kernel, finished, e.description FROM runs "
            f"JOIN environments e ON e.id = environment {where} ORDER BY task, seed",
            values,
        )
        return [
            Outcome(task, seed, parse_json(test), parse_json(val), tuple(parse_json(losses)), *rest)
            for task, seed, test, val, losses, *rest in found
        ]

    def tasks(self) -> dict[str, dict[str, Any]]:
        return {key: parse_json(text) for key, text in self._database.execute("SELECT key, description FROM tasks")}

    def contents(self) -> dict[str, str]:
        """The content of each graph that runs are of, by its name: the last one, should it have changed."""
        found = self._database.execute("SELECT task FROM runs ORDER BY finished")
        tasks = self.tasks()
        return {tasks[key]["graph"]: tasks[key]["content"] for (key,) in found}

    def environments(self) -> list[dict[str, Any]]:
        """Where and with what runs were made, each once, with the time of the first and of the last of them."""
        found = self._database.execute(
            "SELECT description, min(finished), max(finished) FROM runs JOIN environments e ON e.id = environment GROUP BY e.id"
        ).fetchall()
        return [{**parse_json(text), "finished": time} for text, *times in found for time in dict.fromkeys(times)]

    def add(self, outcome: Outcome, description: str) -> None:
        """Write a finished run and end its claim; a run that is there already stays as it is."""
        self.check_writable()
        with self._lock, self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO tasks VALUES (?, ?)", (outcome.task, description))
            database.execute("INSERT OR IGNORE INTO environments (description) VALUES (?)", (outcome.environment,))
            (environment,) = database.execute(
                "SELECT id FROM environments WHERE description = ?", (outcome.environment,)
            ).fetchone()
            database.execute(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    outcome.task,
                    outcome.seed,
                    json.dumps(outcome.test),
                    json.dumps(outcome.val),
                    json.dumps(outcome.losses),
                    outcome.seconds,
                    outcome.kernel,
                    outcome.finished,
                    environment,
                ),
            )
            database.execute("DELETE FROM claims WHERE task = ? AND seed = ?", (outcome.task, outcome.seed))

    def claim(self, task: str, seeds: Iterable[int]) -> tuple[int, ...]:
        """The seeds that are neither finished nor claimed by a living process; from now on they are ours."""
        host, process = socket.gethostname(), os.getpid()
        taken = []
        with self._lock, self._transaction() as database:
            for seed in seeds:
                if database.execute("SELECT 1 FROM runs WHERE task = ? AND seed = ?", (task, seed)).fetchone():
                    continue
                owner = database.execute(
                    "SELECT host, process, until FROM claims WHERE task = ? AND seed = ?", (task, seed)
                ).fetchone()
                if owner is None or not _alive(*owner):
                    database.execute(
                        "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                        (task, seed, host, process, time.time() + CLAIM_SECONDS),
                    )
                    taken.append(seed)
        return tuple(taken)

    @contextlib.contextmanager
    def claims_renewed(self) -> Iterator[None]:
        """Claims of this process are renewed inside and ended after."""
        stop = threading.Event()
        owner = (socket.gethostname(), os.getpid())

        def renew() -> None:
            while not stop.wait(RENEW_SECONDS):
                with self._lock, contextlib.suppress(OutputError), self._transaction() as database:
                    database.execute(
                        "UPDATE claims SET until = ? WHERE host = ? AND process = ?", (time.time() + CLAIM_SECONDS, *owner)
                    )

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            with self._lock, self._transaction() as database:
                database.execute("DELETE FROM claims WHERE host = ? AND process = ?", owner)

    def merge(self, other: Store) -> int:
        """Add the runs of another store that are not here; how many there were."""
        known = self.finished()
        descriptions = dict(other._database.execute("SELECT key, description FROM tasks"))
        new = [outcome for outcome in other.outcomes() if (outcome.task, outcome.seed) not in known]
        for outcome in new:
            self.add(outcome, descriptions[outcome.task])
        return len(new)

    def export(self, path: Path) -> None:
        """All runs as .json, which can be read back, or as .csv with a line a measure."""
        if path.suffix == ".json":
            text = self._as_json()
            write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))
        elif path.suffix == ".csv":
            write_whole(path, self._write_csv)
        else:
            raise OutputError(f"an export must end in .json or .csv, found {path.name}.")

    def _as_json(self) -> str:
        """One line a task and a run, so that a change of the file shows what was added."""
        environments = dict(self._database.execute("SELECT id, description FROM environments"))
        tasks = self._database.execute("SELECT key, description FROM tasks ORDER BY key")
        runs = self._database.execute(
            "SELECT task, seed, test, val, losses, seconds, kernel, finished, environment FROM runs ORDER BY task, seed"
        )
        columns = '["task", "seed", "test", "val", "losses", "seconds", "kernel", "finished", "environment"]'
        lines = [
            f'{{"format": "{FORMAT}", "version": {FORMAT_VERSION},',
            '"environments": {',
            ",\n".join(f'"{number}": {description}' for number, description in environments.items()),
            '}, "tasks": {',
            ",\n".join(f'"{key}": {description}' for key, description in tasks),
            f'}}, "columns": {columns}, "runs": [',
            ",\n".join(
                json.dumps([task, seed, parse_json(test), parse_json(val), parse_json(losses), *rest])
                for task, seed, test, val, losses, *rest in runs
            ),
            "]}\n",
        ]
        return "\n".join(lines)

    def _write_csv(self, path: Path) -> None:
        tasks = self.tasks()
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(
                [
                    "graph",
                    "method",
                    "protocol",
                    "seed",
                    "measure",
                    "test",
                    "val",
                    "seconds",
                    "kernel",
                    "finished",
                    "task",
                    "settings",
                ]
            )
            for outcome in self.outcomes():
                task = tasks[outcome.task]
                method = task["baseline"] or task["method"]["name"]
                settings = json.dumps(task["method"])
                for measure, accuracy in outcome.test.items():
                    what = (task["graph"], method, task["protocol"], outcome.seed, measure, accuracy, outcome.val.get(measure))
                    writer.writerow([*what, outcome.seconds, outcome.kernel, outcome.finished, outcome.task, settings])

    def _read_export(self, path: Path) -> None:
        data = read_json(path)
        if data.get("format") != FORMAT or data.get("version") != FORMAT_VERSION:
            raise ValueError("it is not an export of this version")
        database = self._database
        environments = [(int(number), json.dumps(text)) for number, text in data["environments"].items()]
        database.executemany("INSERT INTO environments VALUES (?, ?)", environments)
        tasks = [(key, json.dumps(text, sort_keys=True)) for key, text in data["tasks"].items()]
        database.executemany("INSERT INTO tasks VALUES (?, ?)", tasks)
        for task, seed, test, val, losses, *rest in data["runs"]:
            values = (task, seed, json.dumps(test), json.dumps(val), json.dumps(losses), *rest)
            database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def _make_tables(self) -> None:
        """In a new file; another program's database is left as it is."""
        check_writable(self.path.parent)
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise OutputError(f"{self.path} cannot be written: it is read-only.")
        self._database = _connect(self.path.absolute().as_uri())
        with self._transaction() as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                for statement in SCHEMA.split(";"):
                    database.execute(statement)
                database.execute("INSERT INTO about VALUES (?, ?)", (FORMAT, str(FORMAT_VERSION)))

    def _check_version(self) -> None:
        found = self._database.execute("SELECT value FROM about WHERE name = ?", (FORMAT,)).fetchone()
        if found != (str(FORMAT_VERSION),):
            raise ValueError(f"its format is {found}, this graphkin reads {FORMAT_VERSION}")

    def _check_contents(self) -> None:
        """Read everything once, so that what others wrote into it is refused here and nowhere later."""
        tasks = self.tasks()
        for key, task in tasks.items():
            check_shape(task, TASK, f"task {key}")
            if task["baseline"] is None and task["method"] is None:
                raise ValueError(f"task {key} has neither a method nor a baseline")
        for outcome in self.outcomes():
            where = f"the run of task {outcome.task} with seed {outcome.seed}"
            check_shape({**vars(outcome), "losses": list(outcome.losses)}, OUTCOME, where)
            check_shape(parse_json(outcome.environment), ENVIRONMENT, f"the environment of {where}")
            if outcome.task not in tasks:
                raise ValueError(f"{where} is of a task that is not described")
        if len(self.outcomes()) != len(self.finished()):
            raise ValueError("a run's machine is missing")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk may have ended it
                    self._database.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            raise OutputError(f"{self.path} cannot be written: {error}.") from error


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False, uri=True)


def _alive(host: str, process: int, until: float) -> bool:
    """Whether a claim still holds; of another machine's process only the time tells."""
    if host != socket.gethostname() or os.name == "nt":
        return until > time.time()
    return process != os.getpid() and psutil.pid_exists(process) and until > time.time()

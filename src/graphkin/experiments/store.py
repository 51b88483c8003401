"""Finished runs in one SQLite file: written when a run ends, whole or not at all, and shared by several processes.

A process claims a run before it starts it and renews its claims while it lives, so that no two processes do the same run. A
claim ends with its run, with its process, or when it is not renewed for a while. On disk a trial is called a task.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil

from graphkin.errors import InputError, OutputError, first_line
from graphkin.experiments.exports import FORMAT, FORMAT_VERSION, as_json, read_export, write_csv
from graphkin.experiments.outcomes import Outcome, check_outcomes
from graphkin.experiments.side_tables import CHOICES, PEAKS
from graphkin.support.files import check_writable, parse_json, reason_of, write_whole

DISK_CODES = (
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
)
CLAIM_SECONDS = 120
RENEW_SECONDS = 20
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


class Store:
    """Runs by trial and seed. A ``.json`` file is an export, which is read whole and not written."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        if read_only and not path.is_file():
            raise OutputError(f"no results at {path}; graphkin reproduce makes them.")
        if not read_only and (path.suffix == ".json" or path.exists()) and not path.is_file():
            raise OutputError(f"a store must be a file such as results.sqlite, not a .json export, found {path}.")
        try:
            if path.suffix == ".json":
                self._open(":memory:")
                self._database.executescript(SCHEMA)
                read_export(path, self._database)
            elif read_only:
                self._open(f"{path.absolute().as_uri()}?mode=ro")
            else:
                self._make_tables()
            if path.suffix != ".json":
                self._check_version()
            self._check_contents()
        except InputError:
            raise
        except Exception as error:
            raise self._cannot_be_opened(error) from error

    def _open(self, address: str) -> None:
        """Closed with the store, also where that is refused or left behind."""
        self._database = _connect(address)
        weakref.finalize(self, self._database.close)

    def _cannot_be_opened(self, error: Exception) -> OutputError:
        """The file is damaged, unless SQLite says that it is the disk or another process."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return OutputError(f"{self.path} is locked by another process: try again later.")
        if code in DISK_CODES or isinstance(error, OSError):
            return OutputError(f"{self.path} cannot be opened, read or written on this disk: {first_line(error)}.")
        return OutputError(f"{self.path} is not a file of graphkin's results, or is damaged: {reason_of(error)}.")

    def close(self) -> None:
        self._database.close()

    def check_writable(self) -> None:
        if self.path.suffix == ".json":
            raise OutputError(
                f"{self.path} is an export, which can only be read: merge it into a store such as results.sqlite."
            )

    def finished(self) -> set[tuple[str, int]]:
        return {(trial, seed) for trial, seed in self._database.execute("SELECT task, seed FROM runs")}

    def outcomes(self, trial: str | None = None) -> list[Outcome]:
        where, values = ("WHERE task = ?", (trial,)) if trial is not None else ("", ())
        found = self._database.execute(
            "SELECT task, seed, test, val, losses, seconds, kernel, finished, e.description FROM runs "
            f"JOIN environments e ON e.id = environment {where} ORDER BY task, seed",
            values,
        )
        chosen, peaks = CHOICES.read(self._database), PEAKS.read(self._database)
        return [
            Outcome(
                *(key, seed, parse_json(test), parse_json(val), tuple(parse_json(losses)), seconds, kernel, finished, where),
                chosen=chosen.get((key, seed), {}),
                peak_bytes=peaks.get((key, seed)),
            )
            for key, seed, test, val, losses, seconds, kernel, finished, where in found
        ]

    def trials(self) -> dict[str, dict[str, Any]]:
        """Descriptions by key."""
        return {key: parse_json(text) for key, text in self._database.execute("SELECT key, description FROM tasks")}

    def contents(self) -> dict[str, str]:
        """The content of each graph that was run, by its name; of a graph that changed, the latest."""
        found = self._database.execute("SELECT task FROM runs ORDER BY finished")
        trials = self.trials()
        return {trials[key]["graph"]: trials[key]["content"] for (key,) in found}

    def environments(self) -> list[dict[str, Any]]:
        """Where and with what runs were made, each once for the first and once for the last of its runs."""
        found = self._database.execute(
            "SELECT description, min(finished), max(finished) FROM runs JOIN environments e ON e.id = environment GROUP BY e.id"
        ).fetchall()
        return [{**parse_json(text), "finished": time} for text, *times in found for time in dict.fromkeys(times)]

    def add(self, outcome: Outcome, description: str) -> None:
        """Write a finished run and end its claim; a run that the store has already stays as it is."""
        self.check_writable()
        with self._lock, self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO tasks VALUES (?, ?)", (outcome.trial, description))
            database.execute("INSERT OR IGNORE INTO environments (description) VALUES (?)", (outcome.environment,))
            (environment,) = database.execute(
                "SELECT id FROM environments WHERE description = ?", (outcome.environment,)
            ).fetchone()
            measured = (json.dumps(part) for part in (outcome.test, outcome.val, outcome.losses))
            rest = (outcome.seconds, outcome.kernel, outcome.finished, environment)
            database.execute(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (outcome.trial, outcome.seed, *measured, *rest)
            )
            CHOICES.add(database, outcome.trial, outcome.seed, outcome.chosen)
            PEAKS.add(database, outcome.trial, outcome.seed, outcome.peak_bytes)
            database.execute("DELETE FROM claims WHERE task = ? AND seed = ?", (outcome.trial, outcome.seed))

    def claim(self, trial: str, seeds: Iterable[int]) -> tuple[int, ...]:
        """The seeds that are neither finished nor claimed by a living process; from now on they are ours."""
        host, process = socket.gethostname(), os.getpid()
        taken = []
        with self._lock, self._transaction() as database:
            for seed in seeds:
                if database.execute("SELECT 1 FROM runs WHERE task = ? AND seed = ?", (trial, seed)).fetchone():
                    continue
                owner = database.execute(
                    "SELECT host, process, until FROM claims WHERE task = ? AND seed = ?", (trial, seed)
                ).fetchone()
                if owner is None or not _alive(*owner):
                    database.execute(
                        "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                        (trial, seed, host, process, time.time() + CLAIM_SECONDS),
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
        """Add the runs of another store that this one lacks; how many there were."""
        known = self.finished()
        descriptions = dict(other._database.execute("SELECT key, description FROM tasks"))
        new = [outcome for outcome in other.outcomes() if (outcome.trial, outcome.seed) not in known]
        for outcome in new:
            self.add(outcome, descriptions[outcome.trial])
        return len(new)

    def export(self, path: Path) -> None:
        """All runs as .json, which can be read back, or as .csv with one line for each measure of each run."""
        if path.suffix == ".json":
            text = as_json(self._database)
            write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))
        elif path.suffix == ".csv":
            write_whole(path, lambda file: write_csv(file, self.trials(), self.outcomes()))
        else:
            raise OutputError(f"an export must end in .json or .csv, found {path.name}.")

    def _make_tables(self) -> None:
        """In a new file; another program's database is left as it is."""
        check_writable(self.path.parent)
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise OutputError(f"{self.path} cannot be written: it is read-only.")
        self._open(self.path.absolute().as_uri())
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
        """Read everything once, so that a damaged store is refused here and nowhere later."""
        outcomes = self.outcomes()
        check_outcomes(self.trials(), outcomes)
        if len(outcomes) != len(self.finished()):
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
    """Whether a claim still holds; of a process on another machine only the time tells."""
    if host != socket.gethostname() or os.name == "nt":
        return until > time.time()
    return process != os.getpid() and psutil.pid_exists(process) and until > time.time()

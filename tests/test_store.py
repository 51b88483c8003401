from __future__ import annotations

import csv
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from graphkin.errors import OutputError
from graphkin.experiments import store as module
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store
from tests.wording import refused

DESCRIPTION = json.dumps(
    {"graph": "small", "content": "c0", "protocol": "grace", "baseline": None, "method": {"name": "grace"}}
)
RUN = Outcome(
    "t0", 3, {"10 %": 80.5}, {"10 %": 81.25}, (3.0, 2.5), 1.5, "blocked float32", "2026-01-01T00:00:00+00:00", '{"a": 1}'
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "results.sqlite")
    yield opened
    opened.close()


def test_a_store_is_a_file_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path, tmp_path / "new.json", Path("/dev/null")):
        with refused(OutputError, "results.sqlite", ".json", path):
            Store(path)
    (tmp_path / "file").touch()
    with refused(OutputError, tmp_path / "file", "written"):
        Store(tmp_path / "file" / "a.sqlite")
    Store(tmp_path / "a.sqlite").close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with refused(OutputError, tmp_path / "a.sqlite", "read-only"):
        Store(tmp_path / "a.sqlite")


def test_a_run_comes_back_as_it_was(store: Store) -> None:
    store.add(RUN, DESCRIPTION)
    assert store.outcomes() == [RUN]
    assert store.outcomes("t0") == [RUN]
    assert store.outcomes("other") == []
    assert store.finished() == {("t0", 3)}
    assert store.contents() == {"small": "c0"}


def test_the_first_result_of_a_run_stays(store: Store) -> None:
    store.add(RUN, DESCRIPTION)
    store.add(replace(RUN, test={"10 %": 1.0}), DESCRIPTION)
    assert store.outcomes() == [RUN]


def test_a_claim_of_a_living_process_is_respected_and_of_a_dead_one_is_not(store: Store) -> None:
    alive = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        _claim_for(store, alive.pid, seed=1)
        _claim_for(store, _process_that_ended(), seed=2)
        store.add(RUN, DESCRIPTION)
        assert store.claim("t0", [1, 2, 3, 4]) == (2, 4)
    finally:
        alive.kill()
        alive.wait()
    assert store.claim("t0", [1]) == (1,), "its process is dead now"


def test_a_claim_without_news_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _claim_for(store, 1, seed=1, host="another machine")
    assert store.claim("t0", [1]) == ()
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert store.claim("t0", [1]) == (1,)


def test_own_claims_are_renewed_and_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.01)
    store.claim("t0", [1])
    read = sqlite3.connect(store.path)

    def until() -> float:
        return float(read.execute("SELECT until FROM claims").fetchone()[0])

    first = until()
    with store.claims_renewed():
        for _ in range(1000):
            if until() > first:
                break
            time.sleep(0.01)
        assert until() > first
    assert read.execute("SELECT count(*) FROM claims").fetchone() == (0,)
    read.close()


def test_json_export_is_read_back_and_csv_has_one_line_per_measure(store: Store, tmp_path: Path) -> None:
    store.add(RUN, DESCRIPTION)
    store.add(replace(RUN, seed=4, test={"2 %": 70.0, "10 %": 80.0}, val={"2 %": 71.0, "10 %": 82.0}), DESCRIPTION)
    store.export(tmp_path / "all.json")
    again = Store(tmp_path / "all.json")
    assert again.outcomes() == store.outcomes()
    with refused(OutputError, tmp_path / "all.json", "export", "results.sqlite"):
        again.add(RUN, DESCRIPTION)
    assert again.trials() == store.trials()
    store.export(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert json.loads(lines[0]["settings"]) == json.loads(DESCRIPTION)["method"]
    assert [(line["seed"], line["measure"], line["test"], line["val"]) for line in lines] == [
        ("3", "10 %", "80.5", "81.25"),
        ("4", "2 %", "70.0", "71.0"),
        ("4", "10 %", "80.0", "82.0"),
    ]
    with refused(OutputError, ".json", ".csv", "all.txt"):
        store.export(tmp_path / "all.txt")


def test_merging_adds_what_is_missing(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other.sqlite")
    store.add(RUN, DESCRIPTION)
    other.add(replace(RUN, test={"10 %": 1.0}), DESCRIPTION)
    other.add(replace(RUN, seed=9, environment='{"b": 2}'), DESCRIPTION)
    other.export(tmp_path / "other.json")
    assert store.merge(Store(tmp_path / "other.json")) == 1
    assert store.merge(other) == 0
    assert store.outcomes() == [RUN, replace(RUN, seed=9, environment='{"b": 2}')]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.sqlite", b"no database, but long enough to be one" * 9),
        ("a.json", b"{}"),
        ("a.json", b"["),
        ("a.json", b"[1]"),
        ("a.json", b"[" * 10**5),
    ],
)
def test_a_file_that_is_no_store_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with refused(OutputError, path, "damaged"):
        Store(path)
    assert path.read_bytes() == content


def test_a_store_that_must_be_there(tmp_path: Path) -> None:
    with refused(OutputError, tmp_path / "none.sqlite", "graphkin reproduce"):
        Store(tmp_path / "none.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []


def _claim_for(store: Store, process: int, seed: int, host: str | None = None) -> None:
    database = sqlite3.connect(store.path)
    host = host or socket.gethostname()
    database.execute("INSERT INTO claims VALUES ('t0', ?, ?, ?, ?)", (seed, host, process, time.time() + 100))
    database.commit()
    database.close()


def _process_that_ended() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET test = '{'",
        "UPDATE runs SET test = '[1]'",
        'UPDATE runs SET test = \'{"10 %": "80"}\'',
        "UPDATE runs SET losses = '[[1]]'",
        "UPDATE runs SET seconds = 'long'",
        "UPDATE tasks SET description = '{}'",
        "DELETE FROM tasks",
        "DELETE FROM environments",
        "UPDATE environments SET description = '7'",
        "UPDATE runs SET seconds = 9e999",
        "DROP TABLE runs; CREATE TABLE runs (a TEXT)",
    ],
)
def test_a_damaged_store_is_refused(store: Store, damage: str) -> None:
    store.add(RUN, DESCRIPTION)
    with closing(sqlite3.connect(store.path)) as database:
        database.executescript(damage)
    with refused(OutputError, store.path, "damaged"):
        Store(store.path)


def test_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE notes (text TEXT)")
    before = path.read_bytes()
    for read_only in (True, False):
        with refused(OutputError, path, "no such table: about"):
            Store(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_store_that_is_locked_is_not_called_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.experiments.store._connect", lambda path: sqlite3.connect(path, timeout=0.01, uri=True))
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with refused(OutputError, store.path, "another process") as said:
            Store(store.path, read_only=True)
        assert "damaged" not in said()


def test_a_store_that_is_only_read_is_not_written(store: Store) -> None:
    store.add(RUN, DESCRIPTION)
    with closing(Store(store.path, read_only=True)) as other:
        assert other.outcomes() == [RUN]
        with refused(OutputError, store.path, "readonly"):
            other.claim("task", [1])


def test_a_store_that_cannot_be_written_is_named(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        store._database.execute("PRAGMA busy_timeout = 10")
        with refused(OutputError, store.path, "locked"):
            store.add(RUN, DESCRIPTION)
    store.add(RUN, DESCRIPTION)
    assert store.outcomes() == [RUN]

"""What is written: permissions, leftovers of killed processes, disks that are full or refuse."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

from graphkin.errors import OutputError
from graphkin.experiments import store as stores
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store
from graphkin.support import files
from graphkin.support.files import remove_leftovers, write_whole
from tests.killed_at import ended, started
from tests.promised import QUICK, a_store, arrays, graphkin_run
from tests.wording import refused


@pytest.mark.slow
@pytest.mark.parametrize(("umask", "mode"), [(0o077, "0o600"), (0o022, "0o644")])
def test_files_have_the_permissions_of_the_users_umask(folder: Path, umask: int, mode: str) -> None:
    np.savez("f.npz", **arrays())
    before = os.umask(umask)
    try:
        for kind in ("npy", "parquet", "csv"):
            assert graphkin_run("fit", "f.npz", *QUICK, "--format", kind, "--out", kind) == 0
        assert graphkin_run("report", "npy", "f.npz", "--layout", "pca") == 0
    finally:
        os.umask(before)
    written = [path for path in folder.rglob("*/*") if path.is_file()]
    assert len(written) == 10
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in written} == {mode}


@pytest.mark.slow
def test_what_a_killed_process_was_writing_is_removed_by_the_next(folder: Path) -> None:
    for name in ("checkpoint.graphkin", "embeddings.npy", "run.json"):
        assert ended(started(_killed_while_writing, folder / name)) == -signal.SIGKILL
    left = [path.name for path in folder.iterdir()]
    assert len(left) == 3 and all(name.startswith(".") for name in left)
    write_whole("run.json", lambda file: file.write_text("whole"))
    assert len(list(folder.iterdir())) == 3, "another file's leftovers may be those of a process elsewhere"
    remove_leftovers(folder)
    assert [path.name for path in folder.iterdir()] == ["run.json"]
    Path(f".run.json.{files._here()}-{os.getpid()}.part").write_text("being written")
    Path(".run.json.elsewhere-1.part").write_text("by another machine")
    remove_leftovers(folder)
    assert len(list(folder.iterdir())) == 3


def _killed_while_writing(path: Path) -> None:
    def write(file: Path) -> None:
        file.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)

    write_whole(path, write)


def test_a_store_on_a_full_disk_is_not_called_damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = stores._connect

    def full(path: str) -> sqlite3.Connection:
        database = connect(path)
        database.execute("PRAGMA max_page_count = 1")
        return database

    monkeypatch.setattr(stores, "_connect", full)
    with refused(OutputError, "new.sqlite", "full"):
        Store(folder / "new.sqlite")
    monkeypatch.undo()
    kept = Store(a_store(folder / "old.sqlite"))
    (pages,) = kept._database.execute("PRAGMA page_count").fetchone()
    kept._database.execute(f"PRAGMA max_page_count = {pages}")
    with refused(OutputError, "old.sqlite", "full"):
        kept.merge(store_with_many_runs(folder / "many.sqlite"))
    assert len(kept.finished()) == 2, "what was finished stays"


def store_with_many_runs(path: Path) -> Store:
    many = Store(a_store(path))
    long = "x" * 5000
    for seed in range(2, 40):
        many.add(Outcome(f"t{seed}", seed, {"a": 1.0}, {"a": 1.0}, (1.0,), 1.0, long, "f", "{}"), descriptions())
    return many


def descriptions() -> str:
    return json.dumps({"graph": "g", "content": "c", "protocol": "grace", "baseline": "raw features", "method": None})


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_that_the_disk_refuses_is_not_called_damaged(
    folder: Path, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_store(folder / "r.sqlite")
    connect = stores._connect
    monkeypatch.setattr(stores, "_connect", lambda given: connect("file:/nowhere/r.sqlite?mode=ro"))
    with refused(OutputError, "r.sqlite", "unable to open"):
        Store(path, read_only=read_only)
    path.write_bytes(b"")
    monkeypatch.setattr(stores, "_connect", lambda given: connect(f"{given}?mode=ro"))
    with refused(OutputError, "r.sqlite", "readonly"):
        Store(path)

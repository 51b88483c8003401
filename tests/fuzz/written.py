"""Files that graphkin wrote, damaged, and read again: models, checkpoints, PageRanks, runs, held-out edges, stores."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from graphkin.evaluation.protocols import PROTOCOLS
from tests.fuzz import archives
from tests.fuzz.damage import ODD, damaged_bytes, damaged_header, damaged_json, damaged_json_file, damaged_tensors
from tests.fuzz.draws import Draw
from tests.fuzz.promises import Case, Said
from tests.fuzz.results import check_run
from tests.fuzz.sources import FIT, GO_ON, TOP, originals
from tests.fuzz.tables import BREAKS, COLUMNS, as_text

TABLES = ("about", "tasks", "environments", "runs", "claims")


def damage(path: Path, draw: Draw, *ways: Callable[[Path, Draw], None]) -> None:
    """Once or twice, or not at all."""
    for _ in range(draw.weighted(((0, 1), (1, 7), (2, 2)))):
        with contextlib.suppress(Exception):  # what is broken already may be beyond a second change of form
            draw.pick((*ways, *ways, damaged_bytes))(path, draw)


def model(case: Case) -> Said:
    draw = case.draw
    run = originals().copy(draw.pick(("npy", "labels", "csv")), case.out / "run")
    damage(run / "model.graphkin", draw, damaged_tensors, damaged_tensors, damaged_header)
    if draw.chance(0.15):
        return report(case, run)
    target = case.out / f"other.{draw.pick(('npy', 'csv', 'parquet'))}"
    return case.run("embed", run / "model.graphkin", originals().graph, "--out", target, "--json")


def report(case: Case, run: Path, *graph: object) -> Said:
    return case.run("report", run, *(graph or (originals().graph,)), "--layout", "pca", "--out", case.out / "page.html")


def checkpoint(case: Case) -> Said:
    run = originals().copy("cut-off", case.out / "run")
    damage(run / "checkpoint.graphkin", case.draw, damaged_tensors, damaged_tensors, damaged_header)
    said = case.run("fit", originals().graph, *FIT, *GO_ON, "--out", run)
    if said.worked:
        check_run(run, nodes=40)
    return said


def pageranks(case: Case) -> Said:
    run = originals().copy("cut-off-early", case.out / "run")
    part = next(run.rglob("*.npz"))
    damage(part, case.draw, damaged_archive)
    said = case.run("fit", originals().graph, *TOP, *FIT, *GO_ON, "--out", run)
    if said.worked:
        check_run(run, nodes=40)
    return said


def damaged_archive(path: Path, draw: Draw) -> None:
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    np.savez(path, **draw.pick(archives.BREAKS)(arrays, draw))


def run_file(case: Case) -> Said:
    draw = case.draw
    run = originals().copy(draw.pick(("npy", "csv", "parquet", "labels")), case.out / "run")
    damage(run / "run.json", draw, damaged_json_file)
    if draw.chance(0.5):
        return report(case, run, *([originals().graph] if draw.chance(0.9) else [""]))
    written = next(path for path in sorted(run.glob("embeddings.*")) if not path.name.endswith(".ids.csv"))
    graph = [] if draw.chance(0.6) else [originals().graph]
    return case.run("evaluate", written, *graph, "--splits", "1", "--no-baselines", "--json")


def embeddings(case: Case) -> Said:
    draw = case.draw
    kind = draw.pick(("npy", "npy", "csv", "parquet"))
    run = originals().copy(kind, case.out / "run")
    path = run / f"embeddings.{kind}"
    if kind == "npy" and draw.chance(0.3):
        damage(run / "embeddings.ids.csv", draw, damaged_text)
    else:
        damage(path, draw, {"npy": damaged_array, "csv": damaged_text, "parquet": damaged_columns}[kind])
    if draw.chance(0.2):
        return report(case, run)
    few = ["--splits", "1", "--no-baselines", "--protocol", draw.pick(tuple(PROTOCOLS))]
    return case.run("evaluate", path, originals().graph, *few, "--json")


def held_out_edges(case: Case) -> Said:
    run = originals().copy("held-out", case.out / "run")
    damage(run / "held-out-edges.csv", case.draw, damaged_text)
    command = case.draw.pick((["evaluate", run, "--protocol", "links", "--no-baselines"], ["links", run]))
    return case.run(*command, "--json")


def damaged_array(path: Path, draw: Draw) -> None:
    arrays = {"x": np.load(path, allow_pickle=False)}
    arrays = draw.pick((archives.reshaped, archives.retyped, archives.extreme))(arrays, draw)
    with path.open("wb") as file:
        np.save(file, archives.strange(draw, 40) if draw.chance(0.3) else arrays["x"])


def damaged_text(path: Path, draw: Draw) -> None:
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_bytes(as_text(draw.pick(BREAKS)(rows, draw), draw, ","))


def damaged_columns(path: Path, draw: Draw) -> None:
    table = pa.parquet.read_table(path)
    columns = {name: table.column(name) for name in table.column_names}
    columns[draw.pick((*columns, "new"))] = COLUMNS[draw.pick(tuple(COLUMNS))](table.num_rows)
    pa.parquet.write_table(pa.table(columns), path)


def store(case: Case) -> Said:
    draw, original = case.draw, originals()
    if draw.chance(0.5):
        path = original.copy("results.json", case.folder / "results.json")
        damage(path, draw, damaged_json_file)
    else:
        path = original.copy("results.sqlite", case.folder / "results.sqlite")
        damage(path, draw, damaged_database)
    target = case.out / "all.sqlite"
    if draw.chance(0.5):
        original.copy("results.sqlite", target)
    what = draw.weighted((("merge", 3), ("merge two", 1), ("export", 3), ("report", 2), ("reproduce", 1)))
    if what.startswith("merge"):
        return case.run("results", "merge", target, *([original.export] if what == "merge two" else []), path)
    if what == "export":
        return case.run("results", "export", path, "--out", case.out / f"new.{draw.pick(('json', 'csv', 'txt'))}")
    if what == "report":
        return case.run("report", path, "--experiment", original.experiment, "--out", case.out / "page.html")
    return case.run("reproduce", original.experiment, "--store", path, "-q", "--json")


def damaged_database(path: Path, draw: Draw) -> None:
    """A value that other programs could have put there, or a table that is gone."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        table = draw.pick(TABLES)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column = draw.pick(columns)
        how = draw.whole(0, 9)
        if how == 0:
            database.execute(f"DROP TABLE {table}")
        elif how == 1:
            database.execute(f"DELETE FROM {table}")
        elif how == 2:
            database.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
        elif how < 6:
            (text,) = database.execute("SELECT test FROM runs").fetchone()
            database.execute(f"UPDATE runs SET {draw.pick(('test', 'val'))} = ?", (damaged_json(text, draw),))
        elif how < 8:
            (key, text) = database.execute("SELECT key, description FROM tasks").fetchone()
            database.execute("UPDATE tasks SET description = ? WHERE key = ?", (damaged_json(text, draw), key))
        else:
            plain = [value for value in ODD if value is None or isinstance(value, str | float)]
            database.execute(f"UPDATE {table} SET {column} = ?", (draw.pick([*plain, b"\xff\x00", -1]),))


KINDS: tuple[tuple[Callable[[Case], Said], float], ...] = (
    (model, 4), (checkpoint, 3), (pageranks, 2), (run_file, 2), (embeddings, 3), (store, 5), (held_out_edges, 2),
)  # fmt: skip


def case(case: Case) -> str:
    kind = case.draw.weighted(KINDS)
    said = kind(case)
    return f"{kind.__name__} " + ("read" if said.worked else said.outcome)

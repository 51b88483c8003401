"""Edges and nodes as CSV, TSV and Parquet, whole and with one or two faults."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tests.fuzz.damage import damaged_bytes
from tests.fuzz.draws import Draw, changed
from tests.fuzz.fits import QUICK, fit, some_options
from tests.fuzz.promises import Case

Rows = list[list[str]]
NAMES = (
    "plain", "zoë", "名", "a b", 'q"q', "x,y", "007", "-1", "1e5", "NaN", "", " lead", "[b]", "nul\x00", "tab\t", "\x1b[31m",
    "line\nbreak", "\u202e", "carriage\r", "L" * 3000,
)  # fmt: skip
VALUES = (
    "", "NaN", "inf", "-1", "text", "1e400", "0", "9" * 30, "true", "2024-01-01", "[red]", "é", "1,5", '"', "\x00",
    "\x1b[31m", "1e-400", "-0.0", "3.4e38", "1e39", "9" * 400, "0x10", "1_000", "\u0661",
)  # fmt: skip
HEADERS = (
    "from", "src", "to", "dst", "source", "target", "weight", "id", "ID", " id ", "label", "f0", "", "\x1b[31m", "é" * 50,
)  # fmt: skip


def valid(draw: Draw) -> tuple[Rows, Rows]:
    """Nodes and edges as rows of text, header first."""
    n = draw.whole(1, 12) if draw.chance(0.4) else draw.whole(20, 40)
    odd_names = draw.chance(0.35)
    ids = [f"{draw.pick(NAMES) if odd_names else 'v'}{i if draw.chance(0.9) or not odd_names else ''}" for i in range(n)]
    width = draw.whole(1, 3) if draw.chance(0.9) else 0
    header = ["id", *(f"f{i}" for i in range(width)), *(["label"] if draw.chance(0.7) else [])]
    nodes = [header]
    for name in ids:
        row = [name] + [f"{draw.random.normal():.3f}" if draw.chance(0.5) else str(draw.whole(0, 4)) for _ in range(width)]
        nodes.append(row + ([f"c{draw.whole(0, 2)}"] if "label" in header else []))
    weighted = draw.chance(0.3)
    edges = [[*draw.pick((["source", "target"], ["from", "to"], ["src", "dst"])), *(["weight"] if weighted else [])]]
    for _ in range(draw.whole(0 if draw.chance(0.1) else n, 3 * n)):
        edges.append([draw.pick(ids), draw.pick(ids)] + ([f"{draw.random.random() + 0.01:.3f}"] if weighted else []))
    return nodes, edges


def break_cell(rows: Rows, draw: Draw) -> Rows:
    row = draw.pick(rows) if rows else []
    if row:
        row[draw.whole(0, len(row) - 1)] = draw.pick(VALUES)
    return rows


def break_header(rows: Rows, draw: Draw) -> Rows:
    if rows and rows[0]:
        rows[0][draw.whole(0, len(rows[0]) - 1)] = draw.pick(HEADERS)
    return rows


def add_column(rows: Rows, draw: Draw) -> Rows:
    """Often one that is there already."""
    name, value = draw.pick(HEADERS), draw.pick(VALUES)
    place = draw.whole(0, len(rows[0]) if rows else 0)
    return [[*row[:place], name if i == 0 else value, *row[place:]] for i, row in enumerate(rows)]


def drop_column(rows: Rows, draw: Draw) -> Rows:
    place = draw.whole(0, max(len(rows[0]), 1) - 1) if rows else 0
    return [row[:place] + row[place + 1 :] for row in rows]


def drop_rows(rows: Rows, draw: Draw) -> Rows:
    return rows[: draw.whole(0, len(rows))]


def repeat_row(rows: Rows, draw: Draw) -> Rows:
    return [*rows, list(draw.pick(rows))] if rows else rows


def ragged(rows: Rows, draw: Draw) -> Rows:
    if rows:
        row = draw.pick(rows)
        row.append("extra") if draw.chance(0.5) else row[1:] and row.pop()
    return rows


BREAKS: tuple[Callable[[Rows, Draw], Rows], ...] = (
    break_cell, break_cell, break_header, add_column, drop_column, drop_rows, repeat_row, ragged,
)  # fmt: skip


def as_text(rows: Rows, draw: Draw, delimiter: str, *, careful: bool = False) -> bytes:
    """As programs write it; if they are not ``careful``, sometimes without quotes or in another encoding."""
    quote = careful or draw.chance(0.7)

    def cell(value: str) -> str:
        needs = any(mark in value for mark in (delimiter, '"', "\n", "\r"))
        return '"' + value.replace('"', '""') + '"' if quote and needs else value

    end = "\r\n" if draw.chance(0.3) else "\n"
    text = end.join(delimiter.join(map(cell, row)) for row in rows) + (end if draw.chance(0.8) else "")
    encoding = "utf-8-sig" if draw.chance(0.1) else "utf-8"
    if not careful and draw.chance(0.1):
        encoding = draw.pick(("utf-16", "latin-1"))
    return text.encode(encoding, errors="replace")


def write_text(folder: Path, draw: Draw) -> tuple[str, int | None]:
    """The suffix of the files, and how many nodes there are where nothing was broken."""
    nodes, edges = valid(draw)
    in_nodes = draw.chance(0.5)
    broken, faults = changed(nodes if in_nodes else edges, draw, BREAKS)
    nodes, edges = (broken, edges) if in_nodes else (nodes, broken)
    suffix = draw.pick((".csv", ".csv", ".tsv", ".parquet"))
    for stem, rows in (("nodes", nodes), ("edges", edges)):
        if faults and draw.chance(0.04):
            continue
        text = as_text(rows, draw, "\t" if suffix == ".tsv" else ",", careful=not faults)
        target = folder / (stem + suffix)
        if suffix == ".parquet" and draw.chance(0.9):
            with contextlib.suppress(pa.ArrowException, ValueError):
                pa.parquet.write_table(pa.csv.read_csv(io.BytesIO(text)), target)
                continue
        target.write_bytes(text)
    return suffix, len(nodes) - 1 if not faults else None


def _days(n: int) -> list[datetime.datetime]:
    return [datetime.datetime(2024, 1, 1 + i % 28) for i in range(n)]


def _numbers(kind: str) -> Callable[[int], Any]:
    return lambda n: pa.array(np.arange(n) % 100, getattr(pa, kind)())


PLAIN = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
COLUMNS: dict[str, Callable[[int], Any]] = {
    **{kind: _numbers(kind) for kind in PLAIN},
    "float16": lambda n: pa.array(np.arange(n).astype(np.float16)),
    "largest": lambda n: pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
    "smallest": lambda n: pa.array([-(2**63) + i for i in range(n)], pa.int64()),
    "huge": lambda n: pa.array([1.7e308] * n, pa.float64()),
    "nan": lambda n: pa.array([float("nan")] * n, pa.float64()),
    "bool": lambda n: pa.array([i % 2 == 0 for i in range(n)]),
    "decimal": lambda n: pa.array([decimal.Decimal(i) / 4 for i in range(n)], pa.decimal128(20, 4)),
    "large decimal": lambda n: pa.array([decimal.Decimal(10) ** 60 + i for i in range(n)], pa.decimal256(70, 2)),
    "dictionary": lambda n: pa.array([f"c{i % 3}" for i in range(n)]).dictionary_encode(),
    "dictionary of numbers": lambda n: pa.array([i % 3 for i in range(n)]).dictionary_encode(),
    "timestamp": lambda n: pa.array(_days(n)),
    "date": lambda n: pa.array([day.date() for day in _days(n)]),
    "duration": lambda n: pa.array([datetime.timedelta(i) for i in range(n)]),
    "list": lambda n: pa.array([[i, i] for i in range(n)]),
    "struct": lambda n: pa.array([{"a": i} for i in range(n)]),
    "binary": lambda n: pa.array([b"\xff\x00" + bytes([i % 256]) for i in range(n)]),
    "null": lambda n: pa.nulls(n),
    "holes": lambda n: pa.array([None if i % 3 == 1 else i for i in range(n)], pa.int64()),
    "string": lambda n: pa.array([f"s{i}" for i in range(n)]),
    "large string": lambda n: pa.array([f"s{i}" for i in range(n)], pa.large_string()),
    "classes": lambda n: pa.array([f"c{i % 3}" for i in range(n)]),
    "odd classes": lambda n: pa.array([("\x1b[31m", "a\nb", "")[i % 3] for i in range(n)]),
}  # fmt: skip
IDS = (
    "int64", "string", "uint64", "int8", "large string", "largest", "smallest", "float64", "date", "timestamp", "decimal",
    "binary",
)  # fmt: skip


def write_typed(folder: Path, draw: Draw) -> tuple[str, int | None]:
    """Parquet files with columns of every type."""
    n = draw.whole(4, 40)
    kind = draw.pick(IDS) if draw.chance(0.9) else draw.pick(tuple(COLUMNS))
    ids = COLUMNS[kind](n)
    nodes = {"id": ids, "f0": COLUMNS["float64"](n)}
    for name in ("f1", "\x1b[31m", "label"):
        if draw.chance(0.5):
            nodes[name] = COLUMNS[draw.pick(tuple(COLUMNS))](n)
    ends = [pa.array(draw.random.integers(0, n, 2 * n)) for _ in range(2)]
    edges = {name: ids.take(places) for name, places in zip(("source", "target"), ends, strict=True)}
    if draw.chance(0.2):
        edges["target"] = COLUMNS[draw.pick(IDS)](n).take(ends[1])
    if draw.chance(0.4):
        edges["weight"] = COLUMNS[draw.pick(tuple(COLUMNS))](2 * n)
    for stem, columns in (("nodes", nodes), ("edges", edges)):
        try:
            pa.parquet.write_table(pa.table(columns), folder / f"{stem}.parquet")
        except pa.ArrowException:  # a type that Parquet does not have
            pa.parquet.write_table(pa.table({"id": ids}), folder / f"{stem}.parquet")
    return ".parquet", None


def case(case: Case) -> str:
    draw, folder = case.draw, case.folder
    suffix, nodes = (write_typed if draw.chance(0.3) else write_text)(folder, draw)
    options = some_options(case)
    files = sorted(folder.iterdir())
    if files and draw.chance(0.1):
        damaged_bytes(draw.pick(files), draw)
        nodes = None
    source: list[object] = [folder]
    if draw.chance(0.25):
        source = [folder / f"edges{suffix}"]
        if draw.chance(0.7):
            source += ["--nodes", folder / f"nodes{suffix}"]
        else:
            source += ["--features", draw.pick(("degree", "positional"))]
            nodes = None
    return fit(case, source, [*options, *QUICK], nodes=nodes)

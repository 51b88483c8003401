"""Random small graphs, whole and broken, through the whole program: a result or one clear line, never a traceback.

``make test`` runs some cases; ``python -m tests.test_fuzz 5000`` runs as many as one likes, and prints what came out.
"""

from __future__ import annotations

import collections
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from graphkin.cli import run

Draw = np.random.Generator
NAMES = ("plain", "zoë", "名", "a b", 'q"q', "x,y", "007", "-1", "1e5", "NaN", "", " lead", "[b]", "nul\x00", "tab\t")
VALUES = ("", "NaN", "inf", "-1", "text", "1e400", "0", "9" * 30, "true", "2024-01-01", "[red]", "é", "1,5", '"', "\x00")


def table(draw: Draw) -> tuple[list[list[str]], list[list[str]]]:
    """Nodes and edges as rows of text, header first."""
    n = int(draw.integers(1, 13))
    ids = [f"{NAMES[draw.integers(len(NAMES))]}{i if draw.random() < 0.9 else ''}" for i in range(n)]
    width = int(draw.integers(0, 4))
    header = ["id"] + [f"f{i}" for i in range(width)] + (["label"] if draw.random() < 0.6 else [])
    nodes = [header]
    for i in range(n):
        row = [ids[i]] + [f"{draw.normal():.3f}" if draw.random() < 0.5 else str(draw.integers(0, 5)) for _ in range(width)]
        nodes.append(row + ([f"c{draw.integers(3)}"] if "label" in header else []))
    weighted = draw.random() < 0.3
    edges = [["source", "target"] + (["weight"] if weighted else [])]
    for _ in range(int(draw.integers(0, 3 * n))):
        pair = [ids[draw.integers(n)], ids[draw.integers(n)]]
        edges.append(pair + ([f"{draw.random() + 0.01:.3f}"] if weighted else []))
    return nodes, edges


def break_cell(rows: list[list[str]], draw: Draw) -> None:
    row = rows[draw.integers(len(rows))]
    if row:
        row[draw.integers(len(row))] = VALUES[draw.integers(len(VALUES))]


def drop_column(rows: list[list[str]], draw: Draw) -> None:
    place = int(draw.integers(max(len(rows[0]), 1)))
    for row in rows:
        del row[place : place + 1]


def drop_rows(rows: list[list[str]], draw: Draw) -> None:
    del rows[int(draw.integers(len(rows))) :]


def repeat_row(rows: list[list[str]], draw: Draw) -> None:
    if rows:
        rows.append(list(rows[draw.integers(len(rows))]))


def ragged(rows: list[list[str]], draw: Draw) -> None:
    if rows:
        rows[draw.integers(len(rows))].append("extra")


BREAKS: tuple[Callable[[list[list[str]], Draw], None], ...] = (break_cell, drop_column, drop_rows, repeat_row, ragged)


def as_text(rows: list[list[str]], draw: Draw, delimiter: str) -> bytes:
    quote = draw.random() < 0.7

    def cell(value: str) -> str:
        needs = any(mark in value for mark in (delimiter, '"', "\n"))
        return '"' + value.replace('"', '""') + '"' if quote and needs else value

    end = "\r\n" if draw.random() < 0.3 else "\n"
    text = end.join(delimiter.join(map(cell, row)) for row in rows) + (end if draw.random() < 0.8 else "")
    data = (("\ufeff" if draw.random() < 0.1 else "") + text).encode("utf-8")
    if draw.random() < 0.08 and data:
        place = int(draw.integers(len(data)))
        data = data[:place] + bytes(draw.integers(0, 256, 3, dtype=np.uint8)) + data[place:]
    return data[: int(draw.integers(len(data) + 1))] if draw.random() < 0.05 else data


def write_tables(folder: Path, draw: Draw) -> list[str]:
    nodes, edges = table(draw)
    for _ in range(int(draw.integers(0, 3))):
        change = BREAKS[draw.integers(len(BREAKS))]
        rows = nodes if draw.random() < 0.5 else edges
        if rows:
            change(rows, draw)
    suffix = (".csv", ".tsv", ".parquet")[draw.integers(3)]
    for stem, rows in (("nodes", nodes), ("edges", edges)):
        if draw.random() < 0.06:
            continue
        text = as_text(rows, draw, "\t" if suffix == ".tsv" else ",")
        target = folder / (stem + suffix)
        if suffix == ".parquet" and draw.random() < 0.9:
            with contextlib.suppress(pa.ArrowException, ValueError):
                pa.parquet.write_table(pa.csv.read_csv(io.BytesIO(text)), target)
                continue
        target.write_bytes(text)
    return [str(folder)]


def write_archive(folder: Path, draw: Draw) -> list[str]:
    n = int(draw.integers(1, 13))
    arrays: dict[str, Any] = {
        "x": draw.random((n, int(draw.integers(1, 4)))),
        "edge_index": draw.integers(0, n, (2, int(draw.integers(0, 20)))),
        "y": draw.integers(0, 3, n),
    }
    strange: list[Any] = [
        np.array(3), np.array("text"), np.array([]), np.array([[np.nan] * 2] * n), np.full((n, 2), 1e300),
        np.array([1 + 2j] * n), draw.integers(-5, 50, (2, 5)), draw.random((2, 5)), np.zeros((n, 2, 2)),
        np.array(["a"] * n), np.full(n, 2**62),
        np.array([True] * n), np.zeros((2, 3), dtype=np.uint64), np.eye(n, dtype=">f4"), np.array(["2024-01-01"] * n, "M8[D]"),
    ]  # fmt: skip
    keys = (
        "x",
        "edge_index",
        "y",
        "train_mask",
        "ids",
        "edge_weight",
        "num_nodes",
        "x_indptr",
        "x_indices",
        "x_shape",
        "class_names",
    )
    for _ in range(int(draw.integers(0, 3))):
        key = keys[draw.integers(len(keys))]
        if draw.random() < 0.3:
            arrays.pop(key, None)
        else:
            arrays[key] = strange[draw.integers(len(strange))]
    path = folder / "graph.npz"
    np.savez(path, **arrays)
    if draw.random() < 0.1:
        data = bytearray(path.read_bytes())
        data[draw.integers(len(data))] ^= 0xFF
        path.write_bytes(bytes(data))
    return [str(path)]


OPTIONS: tuple[list[str], ...] = (
    [], ["--features", "degree"], ["--features", "positional"], ["--ignore", "f0"], ["--label", "f0"], ["--method", "gca"],
    ["--set", "beta=1"], ["--set", "beta=0"], ["--method", "graph-mlp+"], ["--format", "csv"], ["--format", "parquet"],
    ["--set", "structure=ppr-cosine"], ["--set", "tau_pos=0.001"], ["--set", "pooling=mean"],
)  # fmt: skip


def one_case(seed: int) -> str:
    """Run one case in a folder of its own; return what came out, after checking that it may."""
    draw = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "graph"
        folder.mkdir()
        source = (write_archive if draw.random() < 0.35 else write_tables)(folder, draw)
        options = [*OPTIONS[draw.integers(len(OPTIONS))], *OPTIONS[draw.integers(len(OPTIONS))]]
        out = Path(name) / "run"
        quick = ["--epochs", "1", "--set", "hidden=4", "--splits", "1", "-q", "--out", str(out)]
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            status = run(["fit", *source, *options, *quick, "--json"])
        complaint = stderr.getvalue()
        assert status in (0, 2), f"seed {seed}: status {status}\n{complaint}"
        if status == 2:
            assert complaint.startswith("graphkin: ") and len(complaint.splitlines()) == 1, f"seed {seed}: {complaint!r}"
            assert not (out / "run.json").exists(), f"seed {seed}: a refused run left results"
            return "refused: " + " ".join(complaint.split(": ", 1)[1].replace(str(folder), "").split()[:6])
        (written,) = [path for path in out.iterdir() if path.stem == "embeddings"]
        if written.suffix == ".npy":
            assert np.isfinite(np.load(written)).all(), f"seed {seed}: not finite"
        return "embedded"


@pytest.mark.parametrize("seed", range(250))
@pytest.mark.filterwarnings("ignore")
def test_a_result_or_one_clear_line(seed: int) -> None:
    one_case(seed)


if __name__ == "__main__":
    outcomes: collections.Counter[str] = collections.Counter()
    failures = []
    for seed in range(int(sys.argv[1])):
        try:
            outcomes[one_case(seed)] += 1
        except AssertionError as failure:
            failures.append(str(failure))
    for outcome, count in outcomes.most_common():
        print(f"{count:6d}  {outcome}")
    print(f"{sum(outcomes.values())} cases passed, {len(failures)} failed")
    for text in failures[:10]:
        print(text.splitlines()[0], "...", *text.splitlines()[-5:], sep="\n")

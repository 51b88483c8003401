"""Embeddings on disk: .npy, .parquet or .csv, with the ids of their rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import GraphError, OutputError
from graphkin.support.files import read_array, reading, write_whole

FORMATS = ("npy", "parquet", "csv")


def column_names(width: int) -> list[str]:
    """Of embeddings in tables: e0, e1, ..."""
    return [f"e{i}" for i in range(width)]


def write_embeddings(path: Path, blocks: Iterable[Tensor], nodes: int, ids: np.ndarray | None = None) -> Tensor:
    """Write the embeddings of so many nodes, which come in blocks of rows, and give them back.

    As the suffix says: .parquet and .csv with a column of ids, .npy with the ids of its rows in a file beside it. To .npy the
    rows are written as they come, and what is given back is mapped from the file: they are never all in memory.
    """
    rows = (_checked(path, block.cpu().numpy()) for block in blocks)
    if path.suffix in (".parquet", ".csv"):
        whole = np.concatenate(list(rows))
        _write_table(path, whole, ids)
        return torch.from_numpy(whole)
    beside = path.with_suffix(".ids.csv")

    def write(file: Path) -> None:
        _write_npy(file, rows, nodes)
        if path.exists():
            beside.unlink(missing_ok=True)

    write_whole(path, write)
    if ids is not None:
        text = "".join(f"{line}\n" for line in ["id", *map(_quoted, ids)])
        write_whole(beside, lambda file: file.write_text(text, encoding="utf-8"))
    return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))


def _checked(path: Path, rows: np.ndarray) -> np.ndarray:
    if not np.isfinite(rows).all():
        raise OutputError(f"embeddings must be finite, found NaN or infinite values: {path} is not written.")
    return rows


def _write_npy(file: Path, blocks: Iterator[np.ndarray], nodes: int) -> None:
    first, npy = next(blocks), cast(Any, np.lib.format)
    header = {"descr": npy.dtype_to_descr(first.dtype), "fortran_order": False, "shape": (nodes, first.shape[1])}
    with file.open("wb") as stream:
        npy.write_array_header_1_0(stream, header)
        for rows in itertools.chain([first], blocks):
            stream.write(np.ascontiguousarray(rows).data)


def read_embeddings(path: Path, ids: np.ndarray | None = None) -> np.ndarray:
    """A .npy file, or the columns e0, e1, ... of a table. Rows come in the order of ``ids`` where the files name theirs."""
    if not path.is_file():
        raise OutputError(f"no embeddings at {path}.")
    if path.suffix.lower() in (".parquet", ".csv", ".tsv"):
        with reading(path, "is not a readable table of embeddings", OutputError):
            return _read_table(path, ids)
    with reading(path, "is not a readable .npy file of numbers", OutputError):
        rows = read_array(path)
    beside = path.with_suffix(".ids.csv")
    if ids is None or not beside.is_file():
        return rows
    from graphkin.graphs.arrow import ID, ids_of, read_table

    with reading(beside, "is not a readable table of ids", OutputError):
        return _in_order(path, rows, ids_of(beside, read_table(beside, text=(ID,))), ids)


def embeddings_file(folder: Path) -> Path:
    """The embeddings in the folder of a run."""
    candidates = [folder / f"embeddings.{kind}" for kind in FORMATS]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise OutputError(f"{folder} has no embeddings: one of {', '.join(path.name for path in candidates)} is needed.")
    return found


def read_ids(path: Path) -> np.ndarray | None:
    """The ids of a file's rows: a column of a table, a file beside .npy; None where rows have no names."""
    from graphkin.graphs.arrow import ID, ids_of, read_table

    beside = path if path.suffix.lower() in (".parquet", ".csv", ".tsv") else path.with_suffix(".ids.csv")
    if not beside.is_file():
        return None
    with reading(beside, "is not a readable table of ids", OutputError):
        table = read_table(beside, text=(ID,))
        ids: np.ndarray | None = ids_of(beside, table).to_numpy(zero_copy_only=False) if ID in table.column_names else None
        return ids


def _write_table(path: Path, rows: np.ndarray, ids: np.ndarray | None) -> None:
    from graphkin.graphs.arrow import write_table

    columns = dict(zip(column_names(rows.shape[1]), rows.T, strict=True))
    write_table(path, np.arange(len(rows)) if ids is None else ids, columns)


def _read_table(path: Path, ids: np.ndarray | None) -> np.ndarray:
    from graphkin.graphs.arrow import ID, ids_of, matrix, read_table

    table = read_table(path, text=(ID,))
    names = [name for name in table.column_names if name != ID]
    if not names:
        raise GraphError(f"{path} must have columns of numbers besides {ID}, found none.")
    rows = matrix(path, table, names)
    if ids is None or ID not in table.column_names:
        return rows
    return _in_order(path, rows, ids_of(path, table), ids)


def _in_order(path: Path, rows: np.ndarray, written: Any, ids: np.ndarray) -> np.ndarray:
    """``rows``, which belong to the ids ``written``, in the order of ``ids``."""
    from graphkin.graphs.arrow import order_of

    order = order_of(ids, written)
    if order is None or rows.shape[:1] != (len(ids),):
        raise GraphError(f"{path} must have one row for each of the graph's {len(ids)} nodes, found other ids.")
    ordered: np.ndarray = rows[order]
    return ordered


def _quoted(name: object) -> str:
    text = str(name)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text

"""Embeddings on disk: .npy, .parquet or .csv, with the ids of their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import OutputError
from graphkin.support.files import read_array, reading, write_whole

FORMATS = ("npy", "parquet", "csv")


def write_embeddings(path: Path, embeddings: Tensor, ids: np.ndarray | None = None) -> None:
    """As the suffix says: .parquet and .csv with a column of ids, .npy with the ids of its rows in a file beside it."""
    if not torch.isfinite(embeddings).all():
        raise OutputError(f"embeddings must be finite, found NaN or infinite values: {path} is not written.")
    if path.suffix in (".parquet", ".csv"):
        from graphkin.graphs.tables import write_table

        write_table(path, embeddings, ids)
        return

    def write(file: Path) -> None:
        with file.open("wb") as stream:
            np.save(stream, embeddings.cpu().numpy(), allow_pickle=False)

    if path.exists():
        path.with_suffix(".ids.csv").unlink(missing_ok=True)
    write_whole(path, write)
    if ids is not None:
        text = "".join(f"{line}\n" for line in ["id", *map(_quoted, ids)])
        write_whole(path.with_suffix(".ids.csv"), lambda file: file.write_text(text, encoding="utf-8"))


def read_embeddings(path: Path, ids: np.ndarray | None = None) -> np.ndarray:
    """A .npy file, or the columns e0, e1, ... of a table, in the order of ``ids`` where the table has other rows first."""
    if not path.is_file():
        raise OutputError(f"no embeddings at {path}.")
    if path.suffix.lower() in (".parquet", ".csv", ".tsv"):
        from graphkin.graphs.tables import read_embedding_table

        with reading(path, "is not a readable table of embeddings", OutputError):
            return read_embedding_table(path, ids)
    with reading(path, "is not a readable .npy file of numbers", OutputError):
        rows = read_array(path)
    beside = path.with_suffix(".ids.csv")
    if ids is None or not beside.is_file():
        return rows
    from graphkin.graphs.tables import in_order, read_ids

    with reading(beside, "is not a readable table of ids", OutputError):
        return in_order(path, rows, read_ids(beside), ids)


def _quoted(name: object) -> str:
    text = str(name)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text

"""PageRanks that survive the process: each finished part is a file in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphkin.errors import OutputError
from graphkin.similarity.pagerank_rows import Rows
from graphkin.support.files import check_writable, read_arrays, reading, write_whole


class FinishedParts:
    """Finished parts in a folder, each whole or not there; what another graph or other settings left is not used."""

    def __init__(self, folder: Path, identity: list[Any], num_nodes: int) -> None:
        check_writable(folder)
        self.folder, self.num_nodes = folder, num_nodes
        self.identity = np.array(identity, np.float64)

    def read(self, first: int, part: Rows) -> bool:
        path = self._path(first)
        if not path.exists():
            return False
        with reading(path, "is not part of a saved PageRank, or is damaged: remove it to start over", OutputError):
            found = read_arrays(path)
            if not np.array_equal(found["identity"], self.identity):
                raise OutputError(f"{path} belongs to another graph or to other settings: remove it to start over.")
            for name, rows in part._asdict().items():
                if found[name].shape != rows.shape or found[name].dtype != rows.dtype:
                    raise ValueError(f"its {name} are {found[name].dtype} of shape {found[name].shape}")
            self._check_entries(found["columns"], found["values"])
            part.columns[:], part.values[:] = found["columns"], found["values"]
        return True

    def _check_entries(self, columns: np.ndarray, values: np.ndarray) -> None:
        """What the compiled loops rely on: nodes in increasing order, then −1."""
        after, before = columns[:, 1:], columns[:, :-1]
        ordered = bool((((after > before) & (before >= 0)) | (after == -1)).all())
        if columns.min() < -1 or columns.max() >= self.num_nodes or not ordered or not np.isfinite(values).all():
            raise ValueError("its entries are not those of a PageRank")

    def write(self, first: int, part: Rows) -> None:
        def write(file: Path) -> None:
            with file.open("wb") as stream:
                np.savez(stream, identity=self.identity, columns=part.columns, values=part.values)

        write_whole(self._path(first), write)

    def _path(self, first: int) -> Path:
        return self.folder / f"pagerank-{first}.npz"

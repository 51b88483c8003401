"""The largest PageRanks of every node, and what is made of them: cosines, and a symmetric sparse matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphkin.similarity.pagerank_loops import cosines
from graphkin.support.parallel import peers


class Rows(NamedTuple):
    """The largest entries of every row, in increasing order of columns; −1 where a row has fewer [N, k]."""

    columns: np.ndarray
    values: np.ndarray


def cosine_rows(rows: Rows, k: int, nodes: Tensor | None = None) -> Rows:
    """The ``k`` largest cosines between rows, as far as they have entries; those of ``nodes`` (None: of all)."""
    num_nodes = len(rows.columns)
    k = min(k, num_nodes)
    starts = np.arange(num_nodes, dtype=np.int32) if nodes is None else nodes.cpu().numpy().astype(np.int32)
    length = np.sqrt(np.square(rows.values, dtype=np.float64).sum(axis=1))
    unit = rows.values / np.maximum(length, 1e-30)[:, None].astype(np.float32)
    turned = _as_csr(Rows(rows.columns, unit)).T.tocsr()
    found = empty_rows(len(starts), k)
    parts = (turned.indptr.astype(np.int64), turned.indices.astype(np.int32, copy=False), turned.data)
    cosines(starts, rows.columns, unit, *parts, found.columns, found.values, torch.get_num_threads())
    return found


def gathered_rows(mine: Rows, num_nodes: int) -> Rows:
    """The rows of all nodes, from the shares of all processes."""
    columns, values = (peers().gather(torch.from_numpy(part), num_nodes).numpy() for part in mine)
    return Rows(columns, values)


def symmetric_csr(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compressed rows with every entry in both places, the larger value where both were found."""
    matrix = _as_csr(rows)
    both = matrix.maximum(matrix.T)
    del matrix
    return both.indptr.astype(np.int64), both.indices.astype(np.int64), both.data


def _as_csr(rows: Rows) -> scipy.sparse.csr_matrix:
    present = rows.columns >= 0
    rowptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    columns, values = (part.reshape(-1) if present.all() else part[present] for part in rows)
    return scipy.sparse.csr_matrix((values, columns, rowptr), shape=(len(present), len(present)))


def empty_rows(count: int, k: int) -> Rows:
    return Rows(np.full((count, k), -1, np.int32), np.zeros((count, k), np.float32))

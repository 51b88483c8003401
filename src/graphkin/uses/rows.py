"""Embeddings as rows of length 1, and their principal components."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from torch import Tensor

from graphkin.errors import SettingError
from graphkin.evaluation.rows import ROWS_AT_A_TIME, Rows, as_scipy, checked_rows, dense_rows
from graphkin.graphs.arrays import as_array, plain_tensor
from graphkin.support.files import check_memory
from graphkin.support.sparse import SparseMatrix

DIMENSIONS = 50
SAMPLE = 20_000
"""beyond so many nodes, clusters and maps are made from a sample"""


def unit_embeddings(embeddings: Tensor | Rows, nodes: int | None = None) -> np.ndarray:
    """float32 [N, d], each row of length 1, so that products are cosines; a row of zeros stays.

    ``nodes`` says how many rows there must be. Rows are checked and scaled in float64, a block at a time.
    """
    given: Any = plain_tensor(embeddings, "embeddings").float() if isinstance(embeddings, Tensor) else embeddings
    if isinstance(given, SparseMatrix):
        given = as_scipy(given)
    if not scipy.sparse.issparse(given) and not isinstance(given, np.ma.MaskedArray):
        given = as_array(given, "embeddings")
    if len(given.shape) != 2 or 0 in given.shape or nodes not in (None, given.shape[0]):
        wanted = "each node" if nodes is None else f"each of the {nodes} nodes"
        raise SettingError(f"embeddings must have one row for {wanted}, found shape {tuple(given.shape)}.")
    check_memory("the embeddings", 4 * given.shape[0] * given.shape[1])
    rows = given.tocsr() if scipy.sparse.issparse(given) else given
    unit = np.empty(rows.shape, dtype=np.float32)
    for first in range(0, len(unit), ROWS_AT_A_TIME):
        block = rows[first : first + ROWS_AT_A_TIME]
        part = dense_rows(checked_rows(block, block.shape[0]))
        lengths = np.linalg.norm(part, axis=1, keepdims=True)
        unit[first : first + ROWS_AT_A_TIME] = part / np.where(lengths > 0, lengths, 1)
    return unit


def sample(nodes: int, size: int) -> np.ndarray:
    """All nodes, or so many of them at random, in order; the same every time."""
    if nodes <= size:
        return np.arange(nodes)
    return np.sort(np.random.default_rng(0).choice(nodes, size, replace=False))


def principal(rows: np.ndarray, dimensions: int, learn_from: np.ndarray | None = None) -> np.ndarray:
    """The first principal components, padded with zeros to two; ``learn_from`` are the rows that decide on the axes."""
    from sklearn.decomposition import PCA

    learned = rows if learn_from is None else learn_from
    wanted = min(dimensions, *learned.shape)
    found = np.zeros((len(rows), max(wanted, 2)), dtype=np.float32)
    if np.ptp(learned, axis=0).any():
        axes = PCA(wanted, random_state=0).fit(learned)
        for first in range(0, len(rows), ROWS_AT_A_TIME):
            found[first : first + ROWS_AT_A_TIME, :wanted] = axes.transform(rows[first : first + ROWS_AT_A_TIME])
    return found

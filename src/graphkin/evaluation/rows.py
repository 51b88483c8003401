"""Rows to score, one for each node: any array a user has, checked and in float64."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from torch import Tensor

from graphkin.errors import SettingError
from graphkin.graphs.arrays import MOST_FEATURES, as_array, plain_tensor
from graphkin.graphs.recipes import DIFFERENT_SCALES
from graphkin.support.sparse import SparseMatrix, check_compressed

Rows: TypeAlias = Any
"""a NumPy array or a SciPy CSR matrix [N, d]"""
LARGEST_VALUE = float(np.finfo(np.float32).max)
ROWS_AT_A_TIME = 2**16
FEW_COLUMNS = 16
"""Wider rows are taken for embeddings, of which the direction counts."""
ONE_DIRECTION = 0.999
"""mean cosine of two rows"""


def checked_rows(embeddings: Tensor | Rows, nodes: int) -> Rows:
    """A copy in float64."""
    if np.ma.is_masked(embeddings):
        raise SettingError("embeddings must be complete, found masked values.")
    if isinstance(embeddings, SparseMatrix):
        embeddings = as_scipy(embeddings)
    rows: Any = plain_tensor(embeddings, "embeddings").double().numpy() if isinstance(embeddings, Tensor) else embeddings
    if scipy.sparse.issparse(rows):
        check_compressed(rows, "embeddings")
        rows = rows.tocsr()
    else:
        rows = as_array(rows, "embeddings")
    if rows.ndim != 2 or rows.shape[0] != nodes or rows.shape[1] == 0:
        raise SettingError(f"embeddings must have one row for each of the {nodes} nodes, found shape {rows.shape}.")
    if rows.shape[1] > MOST_FEATURES:
        raise SettingError(f"embeddings may have at most {MOST_FEATURES:,} columns, found {rows.shape[1]:,}.")
    values = rows.data if scipy.sparse.issparse(rows) else rows
    if rows.dtype.kind not in "biuf" or not (
        values.min(initial=0) >= -LARGEST_VALUE and values.max(initial=0) <= LARGEST_VALUE
    ):
        raise SettingError("embeddings must be finite numbers that a float32 can hold, found other values.")
    return rows.astype(np.float64)


def unit_rows(rows: Rows) -> Rows:
    """Rows scaled to length 1; dense ones in place, because a million of them take gigabytes."""
    if scipy.sparse.issparse(rows):
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        return scipy.sparse.diags(1 / np.maximum(lengths, 1e-12)) @ rows
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        part = rows[first : first + ROWS_AT_A_TIME]
        part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
    return rows


def comparable_rows(rows: Rows) -> Rows:
    """Rows of length 1. A few columns that this would make alike are standardised first."""
    return unit_rows(few_standardised(rows))


def few_standardised(rows: Rows) -> Rows:
    """A few columns that rows of length 1 would make alike, standardised beside a constant; all other rows as they are."""
    if scipy.sparse.issparse(rows) or rows.shape[1] > FEW_COLUMNS or not _would_be_alike(rows):
        return rows
    deviations = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0)) / np.where(deviations > 0, deviations, 1)
    return np.hstack([scaled, np.full((len(rows), 1), np.sqrt(rows.shape[1]))])


def _would_be_alike(rows: np.ndarray) -> bool:
    """A single column, columns of different scale, or rows that all point the same way but differ in length."""
    deviations = rows.std(axis=0)
    varying = deviations[deviations > 0]
    if len(varying) == 0:
        return False
    directions = unit_rows(rows.copy()).mean(axis=0)
    return bool(
        rows.shape[1] == 1 or varying.max() > DIFFERENT_SCALES * varying.min() or directions @ directions > ONE_DIRECTION
    )


def dense_rows(rows: Rows) -> np.ndarray:
    dense: np.ndarray = rows.toarray() if scipy.sparse.issparse(rows) else rows
    return dense


def as_scipy(matrix: SparseMatrix) -> scipy.sparse.csr_matrix:
    csr = matrix.csr.cpu()
    parts = (csr.values().double().numpy(), csr.col_indices().numpy(), csr.crow_indices().numpy())
    return scipy.sparse.csr_matrix(parts, shape=tuple(matrix.shape))

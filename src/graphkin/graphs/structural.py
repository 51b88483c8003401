"""Features for a graph that has none, made from its edges."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphkin.errors import GraphError, check_choice
from graphkin.graphs.arrays import Features, checked_features
from graphkin.support.files import check_memory

KINDS = ("degree", "positional")
BYTES_PER_NODE = {"degree": 64, "positional": 8 * 3 * 32}
"""The least memory that making them takes."""
DENSE_UP_TO = 1000
"""Nodes up to which a dense eigensolver is faster than a sparse one."""


def structural_features(edge_index: Tensor, nodes: int, kind: str, size: int = 32) -> Features:
    """ "degree": one indicator for each power of two that a degree lies in. "positional": the smoothest eigenvectors."""
    check_choice("features", kind, KINDS)
    check_memory(f"{kind} features of {nodes:,} nodes", BYTES_PER_NODE[kind] * nodes)
    degree = torch.bincount(edge_index[0], minlength=nodes)
    if kind == "positional":
        return _positional(edge_index, degree, size)
    bins = (degree + 1).double().log2().long()
    return checked_features(torch.nn.functional.one_hot(bins).float())


def _positional(edge_index: Tensor, degree: Tensor, size: int) -> Features:
    """The leading eigenvectors of D^{-1/2} A D^{-1/2}, signed so that the largest entry of each is positive."""
    nodes = len(degree)
    if nodes < 4:
        raise GraphError(f"positional features need at least 4 nodes, found {nodes}.")
    scale = degree.clamp(min=1).double().rsqrt()
    row, col = edge_index
    adjacency = scipy.sparse.csr_matrix(((scale[row] * scale[col]).numpy(), (row.numpy(), col.numpy())), shape=(nodes, nodes))
    vectors = _leading_eigenvectors(adjacency, min(size, nodes - 2))
    leading = np.abs(vectors).argmax(axis=0)
    signed = vectors * np.sign(vectors[leading, np.arange(vectors.shape[1])])
    return checked_features(signed[:, ::-1] * np.sqrt(nodes))


def _leading_eigenvectors(adjacency: scipy.sparse.csr_matrix, count: int) -> np.ndarray:
    """In the order of growing eigenvalues."""
    from scipy.sparse.linalg import ArpackError, eigsh

    nodes = adjacency.shape[0]
    if nodes <= DENSE_UP_TO:
        return np.linalg.eigh(adjacency.toarray())[1][:, -count:]
    start = np.random.default_rng(0).random(nodes)
    try:
        vectors: np.ndarray = eigsh(adjacency, k=count, which="LA", v0=start)[1]
    except ArpackError as error:
        raise GraphError(f"positional features cannot be computed for this graph ({error}); use 'degree'.") from error
    return vectors

r"""What the largest PageRanks of a node leave out: many small ones, which together say what is far and what is not so far.

Weights of positives come from the largest entries; weights of negatives compare all nodes, and most of the mass that matters to
them lies beyond the first few dozen. That rest is smooth, and a few leading eigenvectors of Â = Σ λ q qᵀ describe it:

.. math:: P = αI + \sum (f(λ) - α)\, q qᵀ, \qquad f(λ) = \frac{α}{1 - (1-α) λ} \quad\text{or}\quad
    f(λ) = (1-α)^K λ^K + \sum_{k<K} α (1-α)^k λ^k

The eigenvectors of a component that is smaller than ``top_k`` would add nothing: all of its entries are kept already. So they
are computed for the larger components alone. Products of a few vectors may be negative where P is not; they count as zero, and
the others are scaled so that all PageRanks together have the sum they should have.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg
import torch
from torch import Tensor

from graphkin.similarity import NodeSimilarity, Stored
from graphkin.sparse import SparseMatrix

TOLERANCE = 1e-3
"""of the eigenvalues"""
ROWS = 512
"""from which the sum of products is estimated"""


class WithTail(NodeSimilarity):
    """The entries of a sparse similarity as they are, all others in proportion to products of ``vectors`` [N, r] or zero.

    Nodes of different components, or in one without vectors, have only the entries. ``sums`` [N] are those of all PageRanks of
    a node; how much of what is missing the products have is estimated from some rows.
    """

    def __init__(self, largest: Stored, vectors: Tensor, component: Tensor, sums: Tensor) -> None:
        assert isinstance(largest.matrix, SparseMatrix)
        self.largest, self.vectors, self.component = largest, vectors, component
        self.num_nodes, self.device = largest.num_nodes, largest.device
        smooth = vectors.any(dim=1).nonzero()[:, 0]
        rows = smooth[torch.linspace(0, max(len(smooth) - 1, 0), min(len(smooth), ROWS), device=self.device).long()]
        wanted = found = 0.0
        for part in rows.split(64):
            kept = largest.block(part)
            wanted += float((sums[part].sum() - kept.sum()).clamp(min=0))
            found += float((self.block(part) - kept).double().sum())
        self.vectors = vectors * (wanted / found if found > 0 else 0) ** 0.5

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        others, component = self.vectors, self.component
        if columns is not None:
            others, component = others[columns], component[columns]
        kept = self.largest.block(rows, columns)
        missing = (kept == 0) & (self.component[rows, None] == component)
        return torch.where(missing, (self.vectors[rows] @ others.T).clamp_(min=0), kept)

    def own(self, rows: Tensor) -> Tensor:
        return self.largest.own(rows)

    def total(self) -> float:
        return self.largest.total()


def smooth_vectors(
    adjacency: SparseMatrix, count: int, alpha: float, steps: int | None, smallest: int
) -> tuple[Tensor, Tensor]:
    """Up to ``count`` vectors Z [N, r] with Z Zᵀ ≈ P − αI on components of more than ``smallest`` nodes, from Â, and the
    component of every node. On the CPU."""
    csr = adjacency.csr.cpu()
    parts = (csr.values().float().numpy(), csr.col_indices().numpy(), csr.crow_indices().numpy())
    matrix = scipy.sparse.csr_matrix(parts, shape=tuple(adjacency.shape))
    _, component = scipy.sparse.csgraph.connected_components(matrix, directed=False)
    large = np.flatnonzero(np.bincount(component)[component] > smallest)
    values, vectors = _leading(matrix if len(large) == len(component) else matrix[large][:, large], count)
    factor = np.sqrt(np.maximum(_response(values, alpha, steps) - alpha, 0)).astype(np.float32)
    found = torch.zeros(len(component), len(values), dtype=torch.float32)
    found[torch.from_numpy(large)] = torch.from_numpy(vectors * factor)
    return found, torch.from_numpy(component)


def _leading(matrix: scipy.sparse.csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues that are positive, and their vectors, in float32."""
    size = matrix.shape[0]
    if size <= max(4 * count, 64):
        values, vectors = np.linalg.eigh(matrix.toarray())
        values, vectors = values[-count:], vectors[:, -count:]
    else:
        start = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        try:
            values, vectors = scipy.sparse.linalg.eigsh(matrix, k=count, which="LA", tol=TOLERANCE, v0=start)
        except scipy.sparse.linalg.ArpackNoConvergence as stopped:
            values, vectors = stopped.eigenvalues, stopped.eigenvectors
    positive = values > 0
    return values[positive], vectors[:, positive].astype(np.float32)


def _response(values: np.ndarray, alpha: float, steps: int | None) -> np.ndarray:
    """f(λ) ≥ 0."""
    if steps is None:
        return np.asarray(alpha / (1 - (1 - alpha) * np.minimum(values, 1)))
    walked = [alpha * (1 - alpha) ** k * values**k for k in range(steps)]
    return np.asarray(sum(walked) + (1 - alpha) ** steps * values**steps)

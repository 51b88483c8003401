"""Similarity of structure: personalised PageRank, or the cosine of two nodes' PageRanks."""

from __future__ import annotations

from collections.abc import Callable

import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from graphkin.errors import check_range, check_whole
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.arrays import inverse
from graphkin.graphs.diffusion import column_blocks
from graphkin.similarity.blocks import NodeSimilarity
from graphkin.support.parallel import peers
from graphkin.support.sparse import SparseMatrix


class PageRank(NodeSimilarity):
    r"""Personalised PageRank, as one linear operator on node vectors.

    With :math:`\hat A = D^{-1/2} A D^{-1/2}` (a node without edges has a zero row):

    .. math:: \hat P = (1-α)^K \hat A^K + \sum_{k<K} α (1-α)^k \hat A^k \qquad P = α (I - (1-α) \hat A)^{-1}

    ``steps=None`` is the exact :math:`P`. Both are symmetric, so a column of the operator is a row of the matrix.
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        *,
        alpha: float = 0.1,
        steps: int | None = 20,
        self_loops: bool = True,
        dtype: torch.dtype = torch.float32,
        edge_weight: Tensor | None = None,
    ) -> None:
        check_range("alpha", alpha, above=0, below=1)
        if steps is not None:
            check_whole("steps", steps, at_least=1, at_most=10_000)
        self.num_nodes = num_nodes
        self.device = edge_index.device
        self.alpha, self.steps, self.dtype = alpha, steps, dtype
        self.adjacency = normalised_adjacency(edge_index, num_nodes, self_loops, dtype, edge_weight)
        self._solve = None if steps is not None else _solver(self.adjacency, alpha)

    def apply(self, vectors: Tensor) -> Tensor:
        """P̂ times ``vectors`` [N, C], with K sparse products, on a CPU of some columns at a time, which fit a core's cache."""
        if self._solve is not None:
            return self._solve(vectors)
        if vectors.device.type != "cpu":
            return self._walked(self.adjacency, vectors)
        found, adjacency = torch.empty_like(vectors), self.adjacency.short()
        for first, block in column_blocks(vectors):
            found[:, first : first + block.size(1)] = self._walked(adjacency, block)
        return found

    def _walked(self, adjacency: SparseMatrix, vectors: Tensor) -> Tensor:
        assert self.steps is not None
        walked, result = vectors, self.alpha * vectors
        for k in range(1, self.steps):
            walked = adjacency @ walked
            result.add_(walked, alpha=self.alpha * (1 - self.alpha) ** k)
        return result.add_(adjacency @ walked, alpha=(1 - self.alpha) ** self.steps)

    def unit(self, rows: Tensor) -> Tensor:
        """The unit vectors of ``rows`` as columns: [N, rows]."""
        vectors = torch.zeros(self.num_nodes, rows.numel(), dtype=self.dtype, device=self.device)
        vectors[rows, torch.arange(rows.numel(), device=self.device)] = 1
        return vectors

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        walked = self.apply(self.unit(rows))
        return (walked if columns is None else walked[columns]).T.contiguous()

    def total(self) -> float:
        ones = torch.ones(self.num_nodes, 1, dtype=self.dtype, device=self.device)
        return float(self.apply(ones).double().sum())


class PageRankCosine(NodeSimilarity):
    r""":math:`\cos(\hat P_{i:}, \hat P_{j:})`: because P̂ is symmetric, its Gram matrix is P̂ applied twice."""

    def __init__(self, pagerank: PageRank) -> None:
        self.pagerank = pagerank
        self.num_nodes, self.device, self.dtype = pagerank.num_nodes, pagerank.device, pagerank.dtype
        norms = torch.empty(self.num_nodes, dtype=pagerank.dtype, device=self.device)
        for rows in self.shared_row_blocks():
            norms[rows] = pagerank.block(rows).norm(dim=1)
        self._inverse_norm = inverse(peers().complete(norms))

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        start = self.pagerank.unit(rows) * self._inverse_norm[rows]
        gram = self.pagerank.apply(self.pagerank.apply(start)) * self._inverse_norm[:, None]
        return (gram if columns is None else gram[columns]).T.contiguous()

    def total(self) -> float:
        return float(self.pagerank.apply(self._inverse_norm[:, None]).double().square().sum())


def _solver(adjacency: SparseMatrix, alpha: float) -> Callable[[Tensor], Tensor]:
    """The exact operator P, from one sparse factorisation of (I − (1−α)Â)/α in float64."""
    size = adjacency.shape[0]
    csr = adjacency.csr.cpu()
    matrix = scipy.sparse.csr_matrix(
        (csr.values().double().numpy(), csr.col_indices().numpy(), csr.crow_indices().numpy()), shape=(size, size)
    )
    factors = scipy.sparse.linalg.splu((scipy.sparse.identity(size) - (1 - alpha) * matrix).tocsc() / alpha)

    def solve(vectors: Tensor) -> Tensor:
        return torch.from_numpy(factors.solve(vectors.cpu().double().numpy())).to(vectors)

    return solve

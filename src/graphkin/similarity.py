"""How alike two nodes are (docs/math.md, section 2).

Structure is personalised PageRank, content is the cosine of features, and the two are blended. A similarity answers for any
block of node pairs and is never required to be a stored N×N matrix: everything above this file asks for blocks.
All similarities are clipped at zero, because a negative one has no place in either transformation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphkin.arrays import Features, largest_of_rows, length_of_rows, smallest_entry
from graphkin.errors import GraphError, SettingError, check_choice, check_range, check_whole
from graphkin.graphs import Graph, as_graph
from graphkin.parallel import peers
from graphkin.sparse import SparseMatrix

LATER = {"later": True}
"""metadata of a setting that is younger than stored runs: it is told only where it is not the default"""
STRUCTURES = ("ppr", "ppr-cosine")
BLOCK, BLOCK_PAIRS = 1024, 2**26
"""nodes and pairs of nodes that are compared at a time, whichever is less"""
SUMMED_BELOW, SAMPLED_NODES = 50_000, 4096
"""Up to so many nodes clipped cosines are all added up; beyond, so many nodes are compared with as many others."""
MOST_STEPS = 500
"""of PageRank, for sums of the exact one"""
DENSE_BELOW_BYTES = 2**30
"""Sparse features that take less than this as a dense matrix are one on a GPU, which multiplies it many times faster."""


class NodeSimilarity(ABC):
    """sim(i, j) ≥ 0 for all pairs of ``num_nodes`` nodes."""

    num_nodes: int
    device: torch.device
    symmetric: bool = True
    """sim(i, j) = sim(j, i), up to rounding"""

    @abstractmethod
    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        """sim(i, j) for i in ``rows`` and j in ``columns`` (all nodes if None): [rows, columns]."""

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        """Write ``factor`` times the block of the nodes from ``first`` up to ``last`` to ``out``."""
        torch.mul(self.block(torch.arange(first, last, device=self.device), columns), factor, out=out)

    def own(self, rows: Tensor) -> Tensor:
        """sim(i, i) for i in ``rows``."""
        return torch.cat([self.block(part, part).diagonal() for part in rows.split(BLOCK)])

    def total(self) -> float:
        """Σ sim over all pairs, in float64."""
        return sum(float(self.block(rows).double().sum()) for rows in self.row_blocks())

    def row_blocks(self) -> Iterator[Tensor]:
        yield from self._in_blocks(torch.arange(self.num_nodes, device=self.device))

    def shared_row_blocks(self) -> Iterator[Tensor]:
        """Those of the rows that are this process's share."""
        yield from self._in_blocks(peers().share(torch.arange(self.num_nodes, device=self.device)))

    def _in_blocks(self, rows: Tensor) -> Iterator[Tensor]:
        yield from rows.split(max(min(BLOCK, BLOCK_PAIRS // self.num_nodes), 16)) if len(rows) else ()

    def top(self, count: int) -> Stored:
        """The ``count`` largest of every row, its own included, and of every column: a sparse, symmetric similarity.

        Every row is computed once; no N×N matrix is kept.
        """
        keys, values = [], []
        for rows in self.row_blocks():
            largest, columns = self.block(rows).topk(min(count, self.num_nodes), dim=1)
            similar = largest > 0
            row = rows[:, None].expand_as(columns)[similar]
            keys += [row * self.num_nodes + columns[similar], columns[similar] * self.num_nodes + row]
            values += [largest[similar]] * 2
        key, order = torch.cat(keys).sort(stable=True)
        first = torch.ones_like(key, dtype=torch.bool)
        first[1:] = key[1:] != key[:-1]
        key, value = key[first], torch.cat(values)[order][first]
        rowptr = torch.searchsorted(key // self.num_nodes, torch.arange(self.num_nodes + 1, device=self.device))
        matrix = SparseMatrix.from_parts(rowptr, key % self.num_nodes, value, (self.num_nodes, self.num_nodes))
        return Stored(matrix, symmetric=True)

    def stored(self, dtype: torch.dtype | None = None) -> Stored:
        """The same similarity as one N×N matrix, for graphs where that fits; ``torch.bfloat16`` halves the matrix."""
        rows = next(self.row_blocks())
        like = self.block(rows[:1])
        matrix = aligned_empty(self.num_nodes, self.num_nodes, dtype or like.dtype, self.device)
        for rows in self.shared_row_blocks():
            matrix[rows] = self.block(rows).to(matrix.dtype)
        return Stored(peers().complete(matrix), self.symmetric)


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
            check_whole("steps", steps, at_least=1)
        self.num_nodes = num_nodes
        self.device = edge_index.device
        self.alpha, self.steps, self.dtype = alpha, steps, dtype
        self.adjacency = normalised_adjacency(edge_index, num_nodes, self_loops, dtype, edge_weight)
        self._solve = None if steps is not None else _solver(self.adjacency, alpha)

    def apply(self, vectors: Tensor) -> Tensor:
        """P̂ times ``vectors`` [N, C], with K sparse products."""
        if self._solve is not None:
            return self._solve(vectors)
        assert self.steps is not None
        walked, result = vectors, self.alpha * vectors
        for k in range(1, self.steps):
            walked = self.adjacency @ walked
            result.add_(walked, alpha=self.alpha * (1 - self.alpha) ** k)
        return result.add_(self.adjacency @ walked, alpha=(1 - self.alpha) ** self.steps)

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
        self.num_nodes, self.device = pagerank.num_nodes, pagerank.device
        norms = torch.empty(self.num_nodes, dtype=pagerank.dtype, device=self.device)
        for rows in self.shared_row_blocks():
            norms[rows] = pagerank.block(rows).norm(dim=1)
        self._inverse_norm = _inverse(peers().complete(norms))

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        start = self.pagerank.unit(rows) * self._inverse_norm[rows]
        gram = self.pagerank.apply(self.pagerank.apply(start)) * self._inverse_norm[:, None]
        return (gram if columns is None else gram[columns]).T.contiguous()

    def total(self) -> float:
        return float(self.pagerank.apply(self._inverse_norm[:, None]).double().square().sum())


class FeatureCosine(NodeSimilarity):
    """cos(x_i, x_j), clipped at zero; a row of zeros is similar to nothing."""

    def __init__(self, x: Features) -> None:
        self.num_nodes, self.device = x.shape[0], x.device
        self.non_negative = smallest_entry(x) >= 0
        if isinstance(x, SparseMatrix) and x.device.type == "cuda" and 4 * x.shape[0] * x.shape[1] <= DENSE_BELOW_BYTES:
            x = x.to_dense()
        for size in (largest_of_rows, length_of_rows):  # first the largest entry, so that no square overflows
            scale = _inverse(size(x))
            x = x.scale_rows(scale) if isinstance(x, SparseMatrix) else x * scale[:, None]
        self.unit: Features = x

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        if isinstance(self.unit, SparseMatrix):
            if columns is None:
                return (self.unit @ self.unit.rows(rows).T).T.clamp(min=0)
            return (self.unit.rows(rows) @ self.unit.rows(columns).T).clamp(min=0)
        others = self.unit if columns is None else self.unit[columns]
        return (self.unit[rows] @ others.T).clamp(min=0)

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        if isinstance(self.unit, SparseMatrix):
            super().strip(first, last, out, columns, factor)
        else:
            others = self.unit if columns is None else self.unit[columns]
            torch.addmm(out, self.unit[first:last], others.T, beta=0, alpha=factor, out=out)
            if not self.non_negative:
                out.clamp_(min=0)

    def total(self) -> float:
        r""":math:`\sum_{ij} \cos(x_i, x_j) = \|\sum_i x_i / \|x_i\|\|^2` when nothing had to be clipped."""
        if not self.non_negative:
            return super().total() if self.num_nodes <= SUMMED_BELOW else self._estimated_total()
        ones = torch.ones(self.num_nodes, 1, dtype=self.unit.dtype, device=self.device)
        summed = self.unit.T @ ones
        return float(summed.double().square().sum())

    def _estimated_total(self) -> float:
        """From the pairs of two samples of nodes; a node with itself counts on its own."""
        draw = torch.Generator().manual_seed(0)
        rows, columns = (torch.randint(self.num_nodes, (SAMPLED_NODES,), generator=draw).to(self.device) for _ in range(2))
        own = rows[:, None] == columns
        others = sum(float(self.block(part, columns).masked_fill(own[place], 0).double().sum()) for place, part in _parts(rows))
        share = others / (own.numel() - int(own.sum()))
        ones = float((length_of_rows(self.unit) > 0).sum())
        return ones + share * self.num_nodes * (self.num_nodes - 1)


class Blend(NodeSimilarity):
    r""":math:`βγ\,\mathrm{sim}_F + (1-β)\,\mathrm{sim}_G` with :math:`γ = Σ\,\mathrm{sim}_G / Σ\,\mathrm{sim}_F`."""

    def __init__(self, structure: NodeSimilarity, features: NodeSimilarity, beta: float) -> None:
        check_range("beta", beta, at_least=0, at_most=1)
        self.symmetric = structure.symmetric and features.symmetric
        self.structure, self.features, self.beta = structure, features, beta
        self.num_nodes, self.device = structure.num_nodes, structure.device
        feature_total = features.total()
        if feature_total <= 0:
            raise SettingError(
                f"beta must be 0 when no two nodes have similar features (all feature rows are zero), found {beta}."
            )
        self.gamma = structure.total() / feature_total

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        content = self.features.block(rows, columns).mul_(self.beta * self.gamma)
        return content if self.beta == 1 else content.add_(self.structure.block(rows, columns), alpha=1 - self.beta)

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        self.features.strip(first, last, out, columns, factor * self.beta * self.gamma)
        if self.beta == 1:
            return
        share = factor * (1 - self.beta)
        if columns is None and isinstance(self.structure, Stored) and isinstance(self.structure.matrix, SparseMatrix):
            self.structure.matrix.add_rows(out, first, last, share)
        else:
            out.add_(self.structure.block(torch.arange(first, last, device=self.device), columns), alpha=share)


class Stored(NodeSimilarity):
    """A similarity that is kept as a matrix: a user's own, or one computed before."""

    def __init__(self, matrix: Tensor | SparseMatrix, symmetric: bool | None = None, total: float | None = None) -> None:
        """``total`` is the sum that counts where the matrix holds a part of it."""
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise SettingError(f"a similarity matrix must be square, found shape {tuple(matrix.shape)}.")
        values = matrix.values if isinstance(matrix, SparseMatrix) else matrix
        smallest, largest = (float(end) for end in values.aminmax()) if values.numel() else (0.0, 0.0)
        if not (math.isfinite(smallest) and math.isfinite(largest)):
            raise SettingError("a similarity matrix must be finite, found NaN or infinite entries.")
        if smallest < 0:
            matrix = matrix.with_values(values.clamp(min=0)) if isinstance(matrix, SparseMatrix) else matrix.clamp(min=0)
        self.matrix = matrix
        self.num_nodes, self.device = matrix.shape[0], matrix.device
        self.symmetric = _is_symmetric(matrix) if symmetric is None else symmetric
        self._total = total

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        if isinstance(self.matrix, SparseMatrix):
            return self.matrix.rows(rows) if columns is None else self.matrix.block(rows, columns)
        block = self.matrix[rows] if columns is None else self.matrix[rows][:, columns]
        return block.float() if block.element_size() < 4 else block

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        if columns is None and isinstance(self.matrix, SparseMatrix):
            self.matrix.add_rows(out.zero_(), first, last, factor)
        else:
            super().strip(first, last, out, columns, factor)

    def total(self) -> float:
        if self._total is not None:
            return self._total
        return float(self.matrix.values.double().sum()) if isinstance(self.matrix, SparseMatrix) else super().total()

    def stored(self, dtype: torch.dtype | None = None) -> Stored:
        dense = self.matrix.to_dense() if isinstance(self.matrix, SparseMatrix) else self.matrix
        dtype = dtype or dense.dtype
        if dense is self.matrix and dtype == dense.dtype and is_aligned(dense):
            return self
        matrix = aligned_empty(self.num_nodes, self.num_nodes, dtype, self.device)
        return Stored(matrix.copy_(dense), self.symmetric)


class Computed(NodeSimilarity):
    """A user's function from node indices [B], on the CPU, to their similarity with every node [B, N]."""

    def __init__(self, rows_of: Callable[[Tensor], Tensor], num_nodes: int, device: torch.device | str = "cpu") -> None:
        self.rows_of, self.num_nodes, self.device = rows_of, num_nodes, torch.device(device)
        self.symmetric = False

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        block = torch.as_tensor(self.rows_of(rows.cpu())).to(self.device)
        if block.shape != (rows.numel(), self.num_nodes):
            raise SettingError(
                f"the similarity function must return [{rows.numel()}, {self.num_nodes}] for {rows.numel()} nodes, "
                f"found {tuple(block.shape)}."
            )
        if not torch.isfinite(block).all():
            raise SettingError("the similarity function must return finite numbers, found NaN or infinite ones.")
        return block.clamp(min=0) if columns is None else block[:, columns].clamp(min=0)


@dataclass(frozen=True)
class Similarity:
    """The settings of a similarity; :meth:`on` computes it for a graph.

    ``beta`` is the share of features (0: structure alone, 1: features alone). ``structure`` is "ppr" or "ppr-cosine",
    ``alpha`` the restart probability, ``steps`` the number of PageRank steps (None: exact), ``self_loops`` whether each node
    is linked with itself before normalising. ``top_k`` keeps the k largest PageRanks of every node (None: all), so that a graph
    whose N×N similarity does not fit into memory has one that is computed on the fly; each is then too small by at most
    ``pagerank_error`` times the root of both nodes' degrees (:mod:`graphkin.pagerank`), and the rest
    is zero.
    """

    beta: float = 0.7
    structure: str = "ppr"
    alpha: float = 0.1
    steps: int | None = 20
    self_loops: bool = True
    top_k: int | None = None
    pagerank_error: float = field(default=1e-4, metadata=LATER)

    def __post_init__(self) -> None:
        check_range("beta", self.beta, at_least=0, at_most=1)
        check_choice("structure", self.structure, STRUCTURES)
        check_range("alpha", self.alpha, above=0, below=1)
        if self.steps is not None:
            check_whole("steps", self.steps, at_least=1)
        if self.top_k is not None:
            check_whole("top_k", self.top_k, at_least=1)
        check_range("pagerank_error", self.pagerank_error, above=0)
        if not isinstance(self.self_loops, bool):
            raise SettingError(f"self_loops must be true or false, found {self.self_loops!r}.")

    def on(
        self,
        data: Graph | Data,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        keep: Path | None = None,
    ) -> NodeSimilarity:
        """The similarity of a graph's nodes, on the graph's device unless another is given.

        In a folder ``keep`` the PageRanks of ``top_k`` that are finished survive the process: the same call goes on from them.
        """
        graph = as_graph(data).to(data.edge_index.device if device is None else device)
        if graph.num_edges == 0 and self.beta < 1:
            raise GraphError(
                "the graph has no edges, so it has no structure to compare: only beta=1 (features alone) is possible, "
                f"found beta={self.beta}."
            )
        structure = self._structure(graph, dtype) if self.top_k is None else self._sparse_structure(graph, dtype, keep)
        return structure if self.beta == 0 else Blend(structure, FeatureCosine(graph.x.to(dtype=dtype)), self.beta)

    def _structure(self, graph: Graph, dtype: torch.dtype) -> NodeSimilarity:
        pagerank = self._pagerank(graph, dtype)
        return pagerank if self.structure == "ppr" else PageRankCosine(pagerank)

    def _pagerank(self, graph: Graph, dtype: torch.dtype) -> PageRank:
        return PageRank(
            graph.edge_index,
            graph.num_nodes,
            alpha=self.alpha,
            steps=self.steps,
            self_loops=self.self_loops,
            dtype=dtype,
            edge_weight=graph.edge_weight,
        )

    def _sparse_structure(self, graph: Graph, dtype: torch.dtype, keep: Path | None) -> NodeSimilarity:
        """``self._structure(graph, dtype).top(self.top_k)``, up to the error, without N×N work.

        The total of PageRanks is that of all of them, so that β weighs them as it does without ``top_k``.
        """
        from graphkin.pagerank import cosine_rows, gathered_rows, symmetric_csr, top_pagerank

        assert self.top_k is not None
        mine = peers().share(torch.arange(graph.num_nodes))
        found = top_pagerank(
            graph.edge_index,
            graph.num_nodes,
            self.top_k,
            alpha=self.alpha,
            steps=self.steps,
            self_loops=self.self_loops,
            edge_weight=graph.edge_weight,
            error=self.pagerank_error,
            nodes=mine,
            keep=None if keep is None else keep / peers().label,
        )
        rows = gathered_rows(found, graph.num_nodes)
        if self.structure == "ppr-cosine":
            rows = gathered_rows(cosine_rows(rows, self.top_k, mine), graph.num_nodes)
        rowptr, columns, values = (torch.from_numpy(part).to(graph.edge_index.device) for part in symmetric_csr(rows))
        csr = SparseMatrix.from_parts(rowptr, columns, values.to(dtype), (graph.num_nodes, graph.num_nodes)).csr
        matrix = SparseMatrix(csr, transposed=csr)
        if self.structure == "ppr-cosine" or self.beta == 0:
            return Stored(matrix, symmetric=True)
        enough = min(math.ceil(math.log(1e-6) / math.log1p(-self.alpha)), MOST_STEPS)
        whole = replace(self, steps=min(self.steps or enough, enough))._pagerank(graph, dtype)
        return Stored(matrix, symmetric=True, total=whole.total())


class SameClass(NodeSimilarity):
    """1 for nodes of one class, 0 for others; a node without a class is similar to itself alone."""

    def __init__(self, labels: Tensor) -> None:
        self.num_nodes, self.device = labels.numel(), labels.device
        nodes = torch.arange(self.num_nodes, device=labels.device)
        self.classes = torch.where(labels >= 0, labels, -1 - nodes)

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        others = self.classes if columns is None else self.classes[columns]
        return (self.classes[rows, None] == others).float()


@dataclass(frozen=True)
class Labels:
    """The similarity that nobody has: whether two nodes are of one class. For studies of what weights could do at best."""

    def on(self, data: Graph | Data, keep: Path | None = None) -> NodeSimilarity:
        graph = as_graph(data)
        if graph.y is None:
            raise GraphError("the ideal objective is made of labels, and the graph has none (y is missing).")
        return SameClass(graph.y)


def as_similarity(similarity: Any, num_nodes: int | None = None, device: torch.device | str = "cpu") -> NodeSimilarity:
    """A user's similarity, whatever its form: ours, a dense or sparse N×N matrix, or a function of row blocks.

    A tensor stays where it is; what is no tensor goes to ``device``.
    """
    if isinstance(similarity, NodeSimilarity):
        return similarity
    if scipy.sparse.issparse(similarity):
        return Stored(SparseMatrix.from_scipy(similarity).to(device))
    if isinstance(similarity, np.ndarray):
        return Stored(torch.from_numpy(similarity).to(device, torch.get_default_dtype()))
    if isinstance(similarity, Tensor):
        if similarity.layout == torch.strided:
            return Stored(similarity.detach())
        return Stored(SparseMatrix(similarity.detach().to_sparse_coo().coalesce().to_sparse_csr()))
    if callable(similarity):
        if num_nodes is None:
            raise SettingError("a similarity given as a function also needs num_nodes.")
        return Computed(similarity, num_nodes, device)
    raise SettingError(
        "similarity must be a graphkin similarity, an N×N matrix or a function of node indices, "
        f"found {type(similarity).__name__}."
    )


def normalised_adjacency(
    edge_index: Tensor,
    num_nodes: int,
    self_loops: bool,
    dtype: torch.dtype = torch.float32,
    edge_weight: Tensor | None = None,
) -> SparseMatrix:
    r""":math:`\hat A = D^{-1/2} A D^{-1/2}` of an undirected graph; self loops have weight 1."""
    row, col = edge_index
    weight = torch.ones(len(row), dtype=dtype, device=row.device) if edge_weight is None else edge_weight.to(dtype)
    if self_loops:
        nodes = torch.arange(num_nodes, device=row.device)
        keys, order = torch.cat([row * num_nodes + col, nodes * (num_nodes + 1)]).sort()
        row, col = keys // num_nodes, keys % num_nodes
        weight = torch.cat([weight, torch.ones_like(nodes, dtype=dtype)])[order]
    degree = torch.zeros(num_nodes, dtype=dtype, device=row.device).index_add_(0, row, weight)
    scale = _inverse(degree.sqrt())
    rowptr = torch.searchsorted(row, torch.arange(num_nodes + 1, device=row.device))
    matrix = SparseMatrix.from_parts(rowptr, col, scale[row] * weight * scale[col], (num_nodes, num_nodes))
    return SparseMatrix(matrix.csr, transposed=matrix.csr)


def aligned_empty(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An empty matrix whose rows begin at multiples of 16 bytes, as a GPU's copy engine asks for."""
    return torch.empty(rows, -(-columns // 16) * 16, dtype=dtype, device=device)[:, :columns]


def is_aligned(matrix: Tensor) -> bool:
    step, inner = matrix.stride()
    return inner == 1 and step * matrix.element_size() % 16 == 0 and matrix.data_ptr() % 16 == 0


def _is_symmetric(matrix: Tensor | SparseMatrix) -> bool:
    """Up to the rounding of float32."""
    if isinstance(matrix, SparseMatrix):
        one, other = matrix.csr, matrix.T.csr
        same_places = torch.equal(one.crow_indices(), other.crow_indices()) and torch.equal(
            one.col_indices(), other.col_indices()
        )
        return same_places and torch.allclose(one.values(), other.values(), rtol=1e-5, atol=0)
    noise = 1e-7 * float(matrix.amax())
    return all(
        torch.allclose(matrix[rows], matrix[:, rows].T, rtol=1e-5, atol=noise)
        for rows in (slice(first, first + BLOCK) for first in range(0, len(matrix), BLOCK))
    )


def _parts(rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
    for first in range(0, len(rows), BLOCK):
        yield slice(first, first + BLOCK), rows[first : first + BLOCK]


def _inverse(values: Tensor) -> Tensor:
    """1/x, and 0 where x is 0."""
    return torch.where(values > 0, 1 / values, torch.zeros_like(values))


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

"""The settings of a similarity, and the similarity of a graph that they describe."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from graphkin.errors import GraphError, SettingError, check_choice, check_range, check_whole, shown
from graphkin.graphs.arrays import checked_device
from graphkin.graphs.graph import Graph
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.similarity.blocks import NodeSimilarity, Stored
from graphkin.similarity.features import Blend, FeatureCosine
from graphkin.similarity.structure import PageRank, PageRankCosine
from graphkin.support.components import LATER, register
from graphkin.support.parallel import peers
from graphkin.support.sparse import SparseMatrix

STRUCTURES = ("ppr", "ppr-cosine")
MOST_STEPS = 500
"""of PageRank, for sums of the exact one"""
TOP_K = 32
"""PageRanks of a node that stand for all where memory is short"""


@register("Similarity")
@dataclass(frozen=True)
class Similarity:
    """The settings of a similarity; :meth:`on` computes it for a graph.

    ``beta`` is the share of features (0: structure alone, 1: features alone). ``structure`` is "ppr" or "ppr-cosine",
    ``alpha`` the restart probability, ``steps`` the number of PageRank steps (None: exact), ``self_loops`` whether each node
    is linked with itself before normalising. ``top_k`` takes the k largest PageRanks of every node (None: all), so that a graph
    whose N×N similarity does not fit into memory has one that is computed on the fly; each is then too small by at most
    ``pagerank_error`` times the root of both nodes' degrees (:mod:`graphkin.similarity.pagerank`), and the rest
    is zero.
    """

    beta: float = 0.7
    structure: str = "ppr"
    alpha: float = 0.1
    steps: int | None = 20
    self_loops: bool = True
    top_k: int | None = None
    pagerank_error: float = field(default=1e-4, metadata=LATER)

    symmetric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range("beta", self.beta, at_least=0, at_most=1)
        check_choice("structure", self.structure, STRUCTURES)
        check_range("alpha", self.alpha, above=0, below=1)
        if self.steps is not None:
            check_whole("steps", self.steps, at_least=1, at_most=10_000)
        if self.top_k is not None:
            check_whole("top_k", self.top_k, at_least=1)
        check_range("pagerank_error", self.pagerank_error, above=0)
        if not isinstance(self.self_loops, bool):
            raise SettingError(f"self_loops must be true or false, found {self.self_loops!r}.")

    @property
    def needs_edges(self) -> bool:
        return self.beta < 1

    @property
    def of_all_pairs(self) -> bool:
        """Whether any two nodes may be similar, so that storing it saves work."""
        return self.top_k is None

    def on(
        self,
        data: GraphLike,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        folder: Path | None = None,
    ) -> NodeSimilarity:
        """The similarity of a graph's nodes, on the graph's device unless another is given.

        With a ``folder``, the PageRanks of ``top_k`` that are finished survive the process there: the same call resumes.
        """
        graph = as_graph(data)
        if not isinstance(dtype, torch.dtype) or dtype not in (torch.float32, torch.float64):
            raise SettingError(f"dtype must be torch.float32 or torch.float64, found {shown(dtype)}.")
        graph = graph.to(data.edge_index.device if device is None else checked_device(device))
        if graph.num_edges == 0 and self.beta < 1:
            raise GraphError(
                "the graph has no edges, so it has no structure to compare: only beta=1 (features alone) is possible, "
                f"found beta={self.beta}."
            )
        structure = self._structure(graph, dtype) if self.top_k is None else self._sparse_structure(graph, dtype, folder)
        return structure if self.beta == 0 else Blend(structure, FeatureCosine(graph.x.to(dtype=dtype)), self.beta)

    def shortcut(self) -> dict[str, Any]:
        """The settings with which the largest PageRanks of every node stand for all; none where they do already."""
        return {"top_k": TOP_K, "steps": None} if self.top_k is None and self.beta < 1 else {}

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

    def _sparse_structure(self, graph: Graph, dtype: torch.dtype, folder: Path | None) -> NodeSimilarity:
        """``self._structure(graph, dtype).top(self.top_k)``, up to the error, without N×N work.

        The total of PageRanks is that of all of them, so that β weighs them as it does without ``top_k``.
        """
        from graphkin.similarity.pagerank import top_pagerank
        from graphkin.similarity.pagerank_rows import cosine_rows, gathered_rows, symmetric_csr

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
            folder=None if folder is None else folder / peers().label,
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

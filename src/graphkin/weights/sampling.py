r"""Some nodes for all, in one step: anchors, and candidates that stand for all nodes (docs/math.md, section 4).

A sum over V is estimated from a sample S as :math:`\sum_{j∈S} f_j / π_j`, where π_j is the probability that j is in S: its mean
over all samples is the sum itself (Horvitz and Thompson). Similar nodes decide the positives and are rare, so S holds, beside
nodes drawn uniformly, the most similar nodes of every anchor and some drawn from its other similar ones. Numerator, denominator
and the means in w⁺ and w⁻ are all estimated so, from the same sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from graphkin.similarity import Blend, NodeSimilarity, Stored
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.candidates import Candidates
from graphkin.weights.node import LinearWeights, NodeWeights, PairWeights

MOST_SIMILAR = 32
"""of a node in a stored similarity, from which candidates are drawn"""


def draw_candidates(
    num_nodes: int, anchors: Tensor, size: int, generator: torch.Generator, similar: SparseMatrix | None = None, near: int = 0
) -> Candidates:
    """``size`` nodes drawn uniformly and, for each anchor, ``near`` of its entries in ``similar``.

    Half of ``near`` are the largest entries of the anchor, the others are drawn from the rest. All draws are with replacement;
    half of the chance of an entry is in proportion to its value, half is the same for all.
    """
    device = anchors.device
    drawn = torch.randint(num_nodes, (size,), generator=generator, device=device)
    log_missed = torch.full((num_nodes,), size * math.log1p(-1 / num_nodes), dtype=torch.float64, device=device)
    if similar is not None and near > 0:
        largest, entries = _near_entries(similar, anchors, near // 2)
        draws = near - near // 2
        log_missed.index_add_(0, entries.columns, draws * torch.log1p(-entries.chance))
        log_missed[largest] = -math.inf
        drawn = torch.cat([drawn, largest, entries.draw(draws, generator)])
    columns = drawn.unique()
    return Candidates(columns, log_factors=-torch.log(-torch.expm1(log_missed[columns])))


@dataclass(frozen=True)
class _Entries:
    """The similar nodes of some anchors, side by side."""

    anchor: Tensor
    columns: Tensor
    chance: Tensor
    """in one draw of its anchor; those of an anchor add up to 1"""

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """``count`` columns for every anchor that has any."""
        if not len(self.columns):
            return self.columns
        reached = self.chance.cumsum(0)
        first = torch.cat([self.anchor.new_ones(1, dtype=torch.bool), self.anchor[1:] != self.anchor[:-1]])
        start = first.nonzero()[:, 0]
        end = torch.cat([start[1:], start.new_tensor([len(first)])])
        low = reached[start] - self.chance[start]
        goal = torch.rand(count, len(start), generator=generator, device=reached.device, dtype=torch.float64)
        place = torch.searchsorted(reached, low + goal * (reached[end - 1] - low))
        return self.columns[torch.minimum(torch.maximum(place, start), end - 1).flatten()]


def _near_entries(similar: SparseMatrix, anchors: Tensor, largest: int) -> tuple[Tensor, _Entries]:
    """The columns of the ``largest`` entries of every anchor, and its other entries."""
    anchor, stored = similar.entries(anchors)
    columns, values = similar.columns[stored], similar.values[stored].double()
    others = (columns != anchors[anchor]) & (values > 0)
    anchor, columns, values = anchor[others], columns[others], values[others]
    order = values.argsort(descending=True, stable=True)
    order = order[anchor[order].argsort(stable=True)]
    count = torch.bincount(anchor, minlength=len(anchors))
    rank = torch.empty_like(anchor)
    rank[order] = torch.arange(len(order), device=order.device) - (count.cumsum(0) - count)[anchor[order]]
    always, rest = columns[rank < largest], rank >= largest
    anchor, columns, values = anchor[rest], columns[rest], values[rest]
    total = values.new_zeros(len(anchors)).index_add_(0, anchor, values)
    count = torch.bincount(anchor, minlength=len(anchors))
    return always, _Entries(anchor, columns, (values / total[anchor] + 1 / count[anchor]) / 2)


def similar_nodes(similarity: NodeSimilarity) -> SparseMatrix | None:
    """Similar nodes of every node: all that a sparse structure has, or the most similar of a stored matrix; else None."""
    structure = similarity.structure if isinstance(similarity, Blend) else similarity
    if not isinstance(structure, Stored):
        return None
    sparse = structure if isinstance(structure.matrix, SparseMatrix) else structure.top(MOST_SIMILAR)
    assert isinstance(sparse.matrix, SparseMatrix)
    return sparse.matrix


@dataclass(frozen=True)
class SomeNodes(NodeWeights):
    """The weights of some ``nodes`` by their places among them, for embeddings of these nodes alone."""

    nodes: Tensor = field(kw_only=True)

    @staticmethod
    def of(weights: NodeWeights, nodes: Tensor) -> SomeNodes:
        return SomeNodes(weights.positive, weights.negative, len(nodes), weights.device, nodes=nodes)

    def to(self, device: torch.device | str) -> Self:
        return replace(super().to(device), nodes=self.nodes.to(device))

    @property
    def are_functions(self) -> bool:
        """Functions are of all nodes of a graph."""
        return False

    def block(self, rows: Tensor | None = None, candidates: Candidates | None = None) -> PairWeights:
        return super().block(*self._in_graph(rows, candidates))

    def linear(self, rows: Tensor, candidates: Candidates | None = None, *, repel: bool = True) -> LinearWeights:
        return super().linear(*self._in_graph(rows, candidates), repel=repel)

    def _in_graph(self, rows: Tensor | None, candidates: Candidates | None) -> tuple[Tensor, Candidates]:
        places = Candidates(self.all_nodes()) if candidates is None else candidates
        return self.nodes if rows is None else self.nodes[rows], places._replace(columns=self.nodes[places.columns])

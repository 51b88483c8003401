"""A graph seen twice: edges removed and features masked at random, uniformly or by importance (docs/math.md, section 5).

Per graph: a :class:`ViewPlan` with the probability of every edge and feature to disappear. Per step: :meth:`ViewPlan.draw`.
Masking a feature for all nodes is masking a row of the first layer's weights, so a view never copies the features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.errors import SettingError, check_choice, check_range, check_whole
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.arrays import Features
from graphkin.graphs.graph import Graph
from graphkin.support.components import LATER, register
from graphkin.support.sparse import SparseMatrix

CENTRALITIES = ("degree", "pagerank", "eigenvector")


class View(NamedTuple):
    """What an encoder sees of a graph besides the features."""

    adjacency: SparseMatrix
    """D^{-1/2} (A + I) D^{-1/2} of the remaining edges; removed ones are entries of value zero"""
    feature_mask: Tensor | None
    """1 where a feature remains, 0 where it is masked [F]"""
    most_hops: int | None = None
    """an encoder that counts hops draws their number in each layer, up to this; None: as many as it has"""

    @property
    def edge_index(self) -> Tensor:
        """The edges that remain, from source to target, without self loops [2, E]: what layers with attention ask for."""
        csr = self.adjacency.csr
        target = torch.repeat_interleave(torch.arange(self.adjacency.shape[0], device=csr.device), csr.crow_indices().diff())
        source = csr.col_indices()
        remain = (csr.values() != 0) & (source != target)
        return torch.stack([source[remain], target[remain]])

    def masked(self, x: Tensor) -> Tensor:
        """The features that remain."""
        return x if self.feature_mask is None else x * self.feature_mask

    def masking(self, weight: Tensor) -> Tensor:
        """The first layer's weights [F, d] for features that were not masked: ``x @ masking(W)`` is ``masked(x) @ W``."""
        return weight if self.feature_mask is None else self.feature_mask[:, None] * weight


@register("TwoViews")
@dataclass(frozen=True)
class TwoViews:
    """Removal rates of edges and features in the first and the second view.

    ``adaptive`` (GCA) removes what is unimportant by "degree", "pagerank" or "eigenvector" centrality more often, and nothing
    with a probability above ``max_drop``; None (GRACE) removes uniformly.

    ``most_hops`` (MA-GCL) are two numbers of hops: in each step and layer, an encoder that counts hops takes any number of them
    up to the first in the first view, and up to the second in the second. None: as many as the encoder has.
    """

    drop_edges: tuple[float, float] = (0.2, 0.4)
    drop_features: tuple[float, float] = (0.3, 0.4)
    adaptive: str | None = None
    max_drop: float = 0.7
    most_hops: tuple[int, int] | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        for name in ("drop_edges", "drop_features"):
            rates = getattr(self, name)
            if not isinstance(rates, tuple) or len(rates) != 2:
                raise SettingError(f"{name} must be two rates, one for each view, found {rates!r}.")
            for rate in rates:
                check_range(name, rate, at_least=0, below=1)
        if self.adaptive is not None:
            check_choice("adaptive", self.adaptive, CENTRALITIES)
        check_range("max_drop", self.max_drop, above=0, below=1)
        if self.most_hops is not None:
            if not isinstance(self.most_hops, tuple) or len(self.most_hops) != 2:
                raise SettingError(f"most_hops must be two numbers, one for each view, found {self.most_hops!r}.")
            for hops in self.most_hops:
                check_whole("most_hops", hops, at_least=0, at_most=1000)

    def plan(self, graph: Graph) -> ViewPlan:
        return ViewPlan(graph, *self.rates(graph), self.most_hops or (None, None))

    def rates(self, graph: Graph) -> tuple[list[Tensor], list[Tensor]]:
        """For each view the probability of every edge [E] and of every feature [F] to disappear."""
        importance = None if self.adaptive is None else centrality(graph, self.adaptive)
        edges, features = [], []
        for edge_rate, feature_rate in zip(self.drop_edges, self.drop_features, strict=True):
            if importance is None:
                device = graph.edge_index.device
                edges.append(torch.tensor(edge_rate, dtype=torch.float32, device=device).expand(graph.edge_index.size(1)))
                features.append(torch.full((graph.num_features,), feature_rate, dtype=torch.float32, device=device))
            else:
                edges.append(edge_drop_probability(graph, importance, edge_rate, self.max_drop))
                features.append(feature_drop_probability(graph.x, importance, feature_rate, self.max_drop))
        return edges, features


class ViewPlan:
    """Draws views of one graph.

    The edges and self loops of the graph are laid out once as compressed rows, a row for each target, with the place of
    every edge's reverse. In a view all of them keep their places, and those that are removed have the value zero: drawing a
    view then never asks a GPU how many edges are left, and every view of a graph has the same shape.
    """

    def __init__(
        self,
        graph: Graph,
        drop_edges: list[Tensor],
        drop_features: list[Tensor],
        most_hops: tuple[int | None, int | None] = (None, None),
    ) -> None:
        nodes, device = graph.num_nodes, graph.edge_index.device
        self.most_hops = most_hops
        self.num_nodes = nodes
        self.drop_features = drop_features
        loops = torch.arange(nodes, device=device)
        source, target = graph.edge_index
        keys, order = torch.cat([target * nodes + source, loops * (nodes + 1)]).sort()
        self.row, self.col = keys // nodes, keys % nodes
        self.reverse = torch.argsort(self.col * nodes + self.row)
        self.rowptr = torch.searchsorted(self.row, torch.arange(nodes + 1, device=device))
        never = torch.zeros(nodes, dtype=torch.float32, device=device)
        self.keep_edges = [1 - torch.cat([drop, never])[order] for drop in drop_edges]
        weight = graph.edge_weight
        self.weight = None if weight is None else torch.cat([weight, torch.ones_like(never)])[order]

    def draw(self, view: int, generator: torch.Generator) -> View:
        keep = torch.bernoulli(self.keep_edges[view], generator=generator)
        mask = torch.bernoulli(1 - self.drop_features[view], generator=generator)
        return View(self._normalised(keep), mask, self.most_hops[view])

    def _normalised(self, keep: Tensor) -> SparseMatrix:
        """An edge may remain in one direction only: rows are the nodes that receive, and degrees count what they receive."""
        if self.weight is None:
            kept_before = torch.nn.functional.pad(keep.to(torch.int64).cumsum(0), (1, 0))
            degree = kept_before[self.rowptr].diff().to(torch.float32)
        else:
            keep = keep * self.weight
            degree = torch.zeros_like(keep[: self.num_nodes]).index_add_(0, self.row, keep)
        scale = degree.rsqrt()
        value = keep * scale[self.row] * scale[self.col]
        return SparseMatrix(self._compressed(value).csr, self._compressed(value[self.reverse]).csr)

    def _compressed(self, value: Tensor) -> SparseMatrix:
        return SparseMatrix.from_parts(self.rowptr, self.col, value, (self.num_nodes, self.num_nodes))


def whole_graph(graph: Graph) -> View:
    """The graph itself, for embedding after training."""
    adjacency = normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight)
    return View(adjacency, None)


def isolated(nodes: int, device: torch.device | str = "cpu") -> View:
    """Nodes without edges, which an encoder of features alone sees as it sees any others."""
    loops = torch.arange(nodes, device=device)
    ends = torch.arange(nodes + 1, device=device)
    ones = torch.ones(nodes, dtype=torch.float32, device=device)
    return View(SparseMatrix.from_parts(ends, loops, ones, (nodes, nodes)), None)


def centrality(graph: Graph, kind: str) -> Tensor:
    """How important every node is [N], positive unless the node has no edges."""
    check_choice("adaptive", kind, CENTRALITIES)
    measures: dict[str, Callable[[Graph], Tensor]] = {
        "degree": _degree,
        "pagerank": _pagerank,
        "eigenvector": _eigenvector,
    }
    return measures[kind](graph)


def edge_drop_probability(graph: Graph, importance: Tensor, rate: float, max_drop: float) -> Tensor:
    """GCA: s = log centrality of the edge's target; the less important, the likelier to go."""
    return _adaptive(importance[graph.edge_index[1]].log(), rate, max_drop)


def feature_drop_probability(x: Features, importance: Tensor, rate: float, max_drop: float) -> Tensor:
    """The same for features, with w_f = Σ_i |x_if| · centrality(i); the amount of a binary feature is its presence."""
    importance = importance[:, None]
    if isinstance(x, SparseMatrix):
        weight = (x.with_values(x.values.abs()).T @ importance.to(x.dtype))[:, 0]
    else:
        weight = (x.abs().T @ importance.to(x.dtype))[:, 0]
    return _adaptive(weight.log(), rate, max_drop)


def _adaptive(score: Tensor, rate: float, max_drop: float) -> Tensor:
    """min((s_max − s)/(s_max − s_mean) · rate / mean(·), max_drop).

    A score of −∞ (a feature that no node with edges has) takes no part and is never removed; where all scores are equal,
    removal is uniform.
    """
    counts = torch.isfinite(score)
    if not counts.any():
        return torch.full_like(score, rate, dtype=torch.float32)
    known = score[counts]
    distance = torch.zeros_like(score)
    distance[counts] = known.max() - known
    average = distance[counts].mean()
    even = average <= 1e-6 * known.abs().max()
    relative = torch.where(counts, torch.where(even, torch.ones_like(score), distance / average), 0)
    return (relative * rate).clamp(max=max_drop).float()


def _degree(graph: Graph) -> Tensor:
    """The sum of a node's edge weights."""
    return torch.bincount(graph.edge_index[1], weights=graph.edge_weight, minlength=graph.num_nodes).float()


def _pagerank(graph: Graph, damping: float = 0.85, steps: int = 10) -> Tensor:
    degree = _degree(graph)
    source, target = graph.edge_index
    weight = torch.ones_like(source, dtype=torch.float32) if graph.edge_weight is None else graph.edge_weight
    rank = torch.full_like(degree, 1 / graph.num_nodes)
    for _ in range(steps):
        per_weight = torch.where(degree > 0, rank / degree, 0)[source]
        passed = torch.zeros_like(rank).index_add_(0, target, per_weight * weight)
        rank = (1 - damping) / graph.num_nodes + damping * passed
    return rank


def _eigenvector(graph: Graph, steps: int = 200) -> Tensor:
    """The leading eigenvector of A by power iteration on A + I, which has no oscillating part, from a fixed start."""
    source, target = graph.edge_index
    weight = torch.ones_like(source, dtype=torch.float64) if graph.edge_weight is None else graph.edge_weight.double()
    vector = torch.ones(graph.num_nodes, dtype=torch.float64, device=source.device)
    for _ in range(steps):
        vector = vector.index_add(0, target, vector[source] * weight)
        vector = vector / vector.norm()
    return vector.float() + 1e-8

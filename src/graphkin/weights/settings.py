"""The settings of weights, as a method holds them. On a graph they become weights."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from graphkin.errors import SettingError, check_range, check_whole, shown
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.graph import Graph
from graphkin.similarity import NodeSimilarity
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.attraction import Attraction, Effective, Repulsion
from graphkin.weights.pairwise import (
    AllAlike,
    IndicatorAttraction,
    IndicatorRepulsion,
    Linked,
    NegativeWeights,
    OwnOnly,
    PositiveWeights,
)
from graphkin.weights.temperatures import attraction_temperatures, repulsion_temperatures


@register("OwnCounterpart")
@dataclass(frozen=True)
class OwnCounterpart:
    """The only positive of a node is itself in the other view."""

    uses_similarity: ClassVar[bool] = False
    is_function: ClassVar[bool] = True
    """Whether the weights are functions of a similarity, or trivial, so that the fused kernels can compute them."""

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        return OwnOnly()


@register("Neighbours")
@dataclass(frozen=True)
class Neighbours:
    """The positives of a node are its neighbourhood, weighted by Â^hops."""

    hops: int = 2
    uses_similarity: ClassVar[bool] = False
    is_function: ClassVar[bool] = False
    needs_edges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("hops", self.hops, at_least=1, at_most=1000)

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        adjacency = normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight).csr
        power = adjacency
        for _ in range(self.hops - 1):
            power = power @ adjacency
        return Linked(SparseMatrix(power))


@register("AllNeighbours")
@dataclass(frozen=True)
class AllNeighbours:
    """The positives of a node are its neighbours, with a weight of 1 each, and the node itself."""

    uses_similarity: ClassVar[bool] = False
    is_function: ClassVar[bool] = False
    needs_edges: ClassVar[bool] = True

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        nodes, (source, target) = graph.num_nodes, graph.edge_index
        linked = (target * nodes + source)[source != target].unique()
        rowptr = torch.searchsorted(linked // nodes, torch.arange(nodes + 1, device=linked.device))
        ones = torch.ones(len(linked), dtype=torch.float32, device=linked.device)
        return Linked(SparseMatrix.from_parts(rowptr, linked % nodes, ones, (nodes, nodes)), own=1.0)


@register("Attract")
@dataclass(frozen=True)
class Attract:
    """Similar nodes are positives: w⁺ at temperature ``tau_pos``, or with ``effective_positives`` of them in effect."""

    tau_pos: float | None = None
    effective_positives: float | None = 10.0
    uses_similarity: ClassVar[bool] = True
    is_function: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_one_given(self)
        if self.tau_pos is not None:
            check_range("tau_pos", self.tau_pos, above=0)
        if self.effective_positives is not None:
            check_range("effective_positives", self.effective_positives, at_least=1)

    def changed(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings to change: a temperature replaces an effective count, and the other way round."""
        return _one_replaces_the_other(settings, "tau_pos", "effective_positives")

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        assert similarity is not None
        return self.weights(similarity, counterpart, lazy)

    def weights(self, similarity: NodeSimilarity, counterpart: bool = True, lazy: bool = False) -> Attraction:
        """With ``lazy``, the temperatures behind an effective count are found when an anchor is drawn."""
        if self.tau_pos is not None:
            return Attraction(similarity, self.tau_pos, counterpart)
        assert self.effective_positives is not None
        if lazy:
            return Attraction(similarity, Effective(self.effective_positives), counterpart)
        tau = attraction_temperatures(similarity, self.effective_positives, counterpart=counterpart)
        return Attraction(similarity, tau, counterpart)


@register("SameClass")
@dataclass(frozen=True)
class SameClass:
    """Every node of the anchor's class is a positive with weight 1."""

    uses_similarity: ClassVar[bool] = True
    is_function: ClassVar[bool] = True

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        return IndicatorAttraction(_checked_indicator(similarity), counterpart)


@register("Uniform")
@dataclass(frozen=True)
class Uniform:
    """Every other node is a negative with weight 1."""

    uses_similarity: ClassVar[bool] = False
    is_function: ClassVar[bool] = True

    def on(self, graph: Graph, similarity: NodeSimilarity | None, lazy: bool = False) -> NegativeWeights:
        return AllAlike()


@register("Repel")
@dataclass(frozen=True)
class Repel:
    """Dissimilar nodes are negatives: w⁻ at ``tau_neg``, or with a share ``effective_negatives`` of them in effect."""

    tau_neg: float | None = None
    effective_negatives: float | None = 0.9
    uses_similarity: ClassVar[bool] = True
    is_function: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_one_given(self)
        if self.tau_neg is not None:
            check_range("tau_neg", self.tau_neg, above=0)
        if self.effective_negatives is not None:
            check_range("effective_negatives", self.effective_negatives, above=0, at_most=1)

    def changed(self, settings: dict[str, Any]) -> dict[str, Any]:
        """As :meth:`Attract.changed`."""
        return _one_replaces_the_other(settings, "tau_neg", "effective_negatives")

    def on(self, graph: Graph, similarity: NodeSimilarity | None, lazy: bool = False) -> NegativeWeights:
        assert similarity is not None
        return self.weights(similarity, lazy)

    def weights(self, similarity: NodeSimilarity, lazy: bool = False) -> Repulsion:
        if self.tau_neg is not None:
            return Repulsion(similarity, self.tau_neg)
        assert self.effective_negatives is not None
        if lazy:
            return Repulsion(similarity, Effective(self.effective_negatives * (similarity.num_nodes - 1)))
        return Repulsion(similarity, repulsion_temperatures(similarity, self.effective_negatives))


@register("OtherClasses")
@dataclass(frozen=True)
class OtherClasses:
    """Every node of another class is a negative with weight 1."""

    uses_similarity: ClassVar[bool] = True
    is_function: ClassVar[bool] = True

    def on(self, graph: Graph, similarity: NodeSimilarity | None, lazy: bool = False) -> NegativeWeights:
        return IndicatorRepulsion(_checked_indicator(similarity))


def _checked_indicator(similarity: NodeSimilarity | None) -> NodeSimilarity:
    assert similarity is not None
    if not similarity.is_indicator():
        raise SettingError("the ideal objective needs a similarity that is 1 for two nodes of one class and 0 otherwise.")
    return similarity


def _one_replaces_the_other(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    changed = dict(settings)
    for name, other in (names, names[::-1]):
        if changed.get(name) is not None and other not in changed:
            changed[other] = None
    return changed


def _check_one_given(component: Attract | Repel) -> None:
    values = {entry.name: getattr(component, entry.name) for entry in fields(component)}
    if sum(value is not None for value in values.values()) != 1:
        found = ", ".join(f"{name}={shown(value)}" for name, value in values.items())
        raise SettingError(f"exactly one of {' and '.join(values)} must be given, found {found}.")

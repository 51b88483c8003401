"""What the weights of a "+" method did on a graph with labels: which nodes attract, and which repel less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphkin.execution import as_asked
from graphkin.graphs.graph import Graph
from graphkin.methods import Method
from graphkin.objectives.weighting import node_weights
from graphkin.weights import Attract, NodeWeights, Repel, effective_count

ALL_ANCHORS_UP_TO = 5_000
ANCHORS = 2_000
BLOCK = 256


class Weighing(NamedTuple):
    """What a method weighs by similarity."""

    positives: bool
    negatives: bool
    two_views: bool


def weighing(method: Method) -> Weighing:
    positives, negatives = (getattr(method.objective, name, None) for name in ("positives", "negatives"))
    attracts, repels = isinstance(positives, Attract), isinstance(negatives, Repel)
    return Weighing(attracts, repels, two_views=method.views is not None)


@dataclass(frozen=True)
class WeightDiagnosis:
    """Averages over labelled anchors and their pairs with other labelled nodes."""

    anchors: int
    labelled: int
    """nodes with a label, among which the anchors are drawn"""
    chance: float
    """the share of pairs that are of one class"""
    own_share: float | None
    """the part of w⁺ that the anchor itself receives in the other view; None for one view"""
    positive_share: float | None
    """the part of the remaining w⁺ that nodes of the anchor's class receive; None where no other node is a positive"""
    negative_same: float | None
    """mean w⁻ of pairs of one class, where 1 is uniform; None where negatives are uniform"""
    negative_other: float | None
    """mean w⁻ of pairs of two classes"""
    effective_positives: float
    """median over anchors; the anchor in the other view counts"""

    @property
    def sampled(self) -> bool:
        return self.anchors < self.labelled


def applies(graph: Graph, method: Method) -> bool:
    """Whether there are weights by similarity to show, and labels to judge them by."""
    weighs = weighing(method)
    return (weighs.positives or weighs.negatives) and graph.y is not None and len(torch.unique(graph.y[graph.y >= 0])) > 1


def diagnose(graph: Graph, method: Method, seed: int = 0) -> WeightDiagnosis:
    assert graph.y is not None
    labelled = (graph.y >= 0).nonzero()[:, 0]
    anchors = labelled
    if graph.num_nodes > ALL_ANCHORS_UP_TO and labelled.numel() > ANCHORS:
        order = torch.randperm(labelled.numel(), generator=torch.Generator().manual_seed(seed))
        anchors = labelled[order[:ANCHORS]].sort().values
    weights = node_weights(graph, as_asked(graph, method, graph.edge_index.device))
    return diagnosis_of(weights, graph.y, anchors, method)


def diagnosis_of(weights: NodeWeights, y: Tensor, anchors: Tensor, method: Method) -> WeightDiagnosis:
    """Sums over blocks of anchors: pairs, w⁺ and w⁻ within a class and between classes, and w⁺ of the other view."""
    known = y >= 0
    pairs, attracted, repelled = (torch.zeros(2, dtype=torch.float64) for _ in range(3))
    own = torch.zeros((), dtype=torch.float64)
    everything = torch.zeros((), dtype=torch.float64)
    counts = []
    for rows in anchors.split(BLOCK):
        block = weights.block(rows)
        others = known & (rows[:, None] != torch.arange(y.numel()))
        same = others & (y[rows, None] == y)
        for place, chosen in enumerate((same, others & ~same)):
            pairs[place] += chosen.sum()
            attracted[place] += block.attract[chosen].exp().double().sum()
            repelled[place] += block.repel[chosen].exp().double().sum()
        own += block.own.exp().double().sum()
        everything += block.own.exp().double().sum() + block.attract.exp().double().sum()
        counts.append(_effective(torch.cat([block.attract, block.own[:, None]], dim=1)))
    weighs = weighing(method)
    has_positives = weighs.positives and float(attracted.sum()) > 0
    return WeightDiagnosis(
        anchors=anchors.numel(),
        labelled=int(known.sum()),
        chance=float(pairs[0] / pairs.sum()),
        own_share=float(own / everything) if weighs.two_views else None,
        positive_share=float(attracted[0] / attracted.sum()) if has_positives else None,
        negative_same=float(repelled[0] / pairs[0]) if weighs.negatives and pairs[0] > 0 else None,
        negative_other=float(repelled[1] / pairs[1]) if weighs.negatives and pairs[1] > 0 else None,
        effective_positives=float(np.median(torch.cat(counts).numpy())),
    )


def sentences(found: WeightDiagnosis) -> list[str]:
    """The numbers in words."""
    return [_about_positives(found), _about_negatives(found)]


def _about_positives(found: WeightDiagnosis) -> str:
    if found.positive_share is None:
        return "The only positive of a node is its other view."
    rest = f"nodes of the anchor's class receive {found.positive_share:.1%}; chance would give them {found.chance:.1%}."
    if found.own_share is None:
        return f"Of the positive weight w⁺, {rest}"
    return f"The node's other view receives {found.own_share:.1%} of the positive weight w⁺. Of the rest, {rest}"


def _about_negatives(found: WeightDiagnosis) -> str:
    if found.negative_same is None or found.negative_other is None:
        return "All negatives have weight 1."
    taken = 1 - found.negative_same
    change = f"{abs(taken):.1%} is {'taken off' if taken >= 0 else 'added to'}"
    return (
        f"Nodes of the anchor's class repel it with a mean weight w⁻ of {found.negative_same:.3f}, nodes of other classes "
        f"with {found.negative_other:.3f}. Uniform weights would be 1: {change} the repulsion within a class."
    )


def _effective(log_weights: Tensor) -> Tensor:
    """The effective number of positives, 0 for an anchor without any."""
    some = log_weights.amax(dim=1) > -torch.inf
    counts = torch.zeros(log_weights.size(0), dtype=torch.float64)
    counts[some] = effective_count(log_weights[some]).double()
    return counts

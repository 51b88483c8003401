"""What the weights of a "+" method did on a graph with labels: whom they attract, and whom they spare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphkin.graphs.graph import Graph
from graphkin.methods.method import Attract, Method, Repel
from graphkin.training.tasks import weights_for
from graphkin.weights.node import NodeWeights, effective_count

ALL_ANCHORS_UP_TO = 5_000
ANCHORS = 2_000
BLOCK = 256


@dataclass(frozen=True)
class WeightDiagnosis:
    """Averages over labelled anchors and their pairs with other labelled nodes."""

    anchors: int
    labelled: int
    """nodes with a label, which the anchors are drawn from"""
    chance: float
    """the share of pairs that are of one class"""
    own_share: float | None
    """of w⁺ that the own counterpart takes, where there are two views"""
    positive_share: float | None
    """of the rest of w⁺ that falls on the anchor's class; None where no other node is a positive"""
    negative_same: float | None
    """mean w⁻ of pairs of one class, where 1 is uniform; None where negatives are uniform"""
    negative_other: float | None
    """mean w⁻ of pairs of two classes"""
    effective_positives: float
    """median over anchors, the own counterpart included"""

    @property
    def sampled(self) -> bool:
        return self.anchors < self.labelled


def applies(graph: Graph, method: Method) -> bool:
    """Whether there are weights by similarity to look at, and labels to judge them by."""
    by_similarity = isinstance(method.positives, Attract) or isinstance(method.negatives, Repel)
    return by_similarity and graph.y is not None and len(torch.unique(graph.y[graph.y >= 0])) > 1


def diagnose(graph: Graph, method: Method, seed: int = 0) -> WeightDiagnosis:
    assert graph.y is not None
    labelled = (graph.y >= 0).nonzero()[:, 0]
    anchors = labelled
    if graph.num_nodes > ALL_ANCHORS_UP_TO and labelled.numel() > ANCHORS:
        order = torch.randperm(labelled.numel(), generator=torch.Generator().manual_seed(seed))
        anchors = labelled[order[:ANCHORS]].sort().values
    return diagnosis_of(weights_for(graph, method), graph.y, anchors, method)


def diagnosis_of(weights: NodeWeights, y: Tensor, anchors: Tensor, method: Method) -> WeightDiagnosis:
    """The sums over anchors in blocks: pairs, w⁺ and w⁻ of one class and of two, and w⁺ of the own counterpart."""
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
    has_positives = isinstance(method.positives, Attract) and float(attracted.sum()) > 0
    repels = isinstance(method.negatives, Repel)
    return WeightDiagnosis(
        anchors=anchors.numel(),
        labelled=int(known.sum()),
        chance=float(pairs[0] / pairs.sum()),
        own_share=float(own / everything) if method.views is not None else None,
        positive_share=float(attracted[0] / attracted.sum()) if has_positives else None,
        negative_same=float(repelled[0] / pairs[0]) if repels and pairs[0] > 0 else None,
        negative_other=float(repelled[1] / pairs[1]) if repels and pairs[1] > 0 else None,
        effective_positives=float(np.median(torch.cat(counts).numpy())),
    )


def sentences(found: WeightDiagnosis) -> list[str]:
    """What the numbers say, in words that hold for any of them."""
    return [_about_positives(found), _about_negatives(found)]


def _about_positives(found: WeightDiagnosis) -> str:
    if found.positive_share is None:
        return "No node but its own counterpart is a positive of an anchor."
    own = (
        ""
        if found.own_share is None
        else f"The own counterpart takes {found.own_share:.1%} of the positive weight w⁺; of the rest, "
    )
    rest = f"{found.positive_share:.1%} falls on nodes of the anchor's class, where chance would give {found.chance:.1%}."
    return own + rest if own else f"Of the positive weight w⁺, {rest}"


def _about_negatives(found: WeightDiagnosis) -> str:
    if found.negative_same is None or found.negative_other is None:
        return "All negatives have weight 1."
    taken = 1 - found.negative_same
    change = f"{abs(taken):.1%} is {'taken off' if taken >= 0 else 'added to'}"
    return (
        f"A node of the anchor's class repels it with a mean weight w⁻ of {found.negative_same:.3f}, a node of another class "
        f"with {found.negative_other:.3f}, where uniform weights are 1: {change} the repulsion within a class."
    )


def _effective(log_weights: Tensor) -> Tensor:
    """The effective number of positives, 0 for an anchor without any."""
    some = log_weights.amax(dim=1) > -torch.inf
    counts = torch.zeros(log_weights.size(0), dtype=torch.float64)
    counts[some] = effective_count(log_weights[some]).double()
    return counts

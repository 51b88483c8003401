"""What makes one training run better than another, by name. ``CRITERIA.add(mine.name, mine)`` adds one.

A criterion is made ready for a graph once. Its judge says which graph to train on, and scores what was trained, in percent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import GraphError, SplitError, argument, check_choice
from graphkin.evaluation.links import area, cosines
from graphkin.evaluation.own_classifier import own_accuracy
from graphkin.evaluation.probe import validation_accuracy
from graphkin.evaluation.rows import checked_rows, unit_rows
from graphkin.evaluation.split_sources import public_splits
from graphkin.graphs.graph import Graph
from graphkin.graphs.held_out import without_random_edges
from graphkin.graphs.splits import Split, random_split
from graphkin.methods import Method
from graphkin.support.randomness import generator
from graphkin.support.registry import Registry
from graphkin.training.fitted import Fitted

FIRST_SEED = 1_000_000
"""of splits and training runs; tables of results use seeds from 0"""
SEEDS_EACH = 1_000
"""seeds that one search may use"""
PROTOCOLS = ("grace", "public")
HELD_OUT = 0.1
"""share of the edges that are removed before training"""
NEAREST = 10
MOST_COMPARED = 2000
"""nodes whose nearest nodes are compared"""


@dataclass(frozen=True)
class Asked:
    """What a criterion may depend on besides the graph."""

    method: Method
    seed: int = 0
    protocol: str = "grace"
    splits: int = 5

    @property
    def first_seed(self) -> int:
        return FIRST_SEED + SEEDS_EACH * self.seed


class Judge(Protocol):
    graph: Graph
    """to train on"""

    def score(self, fitted: Fitted, earlier: Sequence[Fitted]) -> float | None:
        """Of one repeat, in percent; None if it cannot be scored before the next one."""


@dataclass(frozen=True)
class Criterion:
    name: str
    description: str
    """one line"""
    ready: Callable[[Graph, Asked], Judge]
    repeats: int = 1
    """it needs at least so many"""


def criterion_named(name: str, graph: Graph) -> Criterion:
    """ "auto" is labels where there are any, and edges otherwise."""
    check_choice("criterion", name, ("auto", *CRITERIA))
    if name == "auto":
        name = "labels" if graph.y is not None and len(torch.unique(graph.y[graph.y >= 0])) > 1 else "edges"
    return CRITERIA[name]


class ByLabels:
    """Mean validation accuracy over splits. Labels of test nodes are removed before anything is computed."""

    def __init__(self, graph: Graph, splits: Sequence[Split]) -> None:
        self.graph, self.splits = graph, splits
        assert graph.y is not None
        self.labels = [_seen(graph.y.cpu(), split) for split in splits]
        for split, labels in zip(splits, self.labels, strict=True):
            classes = len(np.unique(labels[split.train.numpy()]))
            if classes < 2:
                raise SplitError(
                    f"{argument('criterion', 'labels')} needs training nodes of at least 2 classes, found {classes} "
                    f"in {len(split.train)} nodes; use {argument('criterion', 'edges')}."
                )

    def score(self, fitted: Fitted, earlier: Sequence[Fitted]) -> float:
        rows = unit_rows(checked_rows(fitted.embed(self.graph), self.graph.num_nodes))
        pairs = zip(self.labels, self.splits, strict=True)
        return float(np.mean([validation_accuracy(rows, labels, split) for labels, split in pairs]))


def _seen(labels: Tensor, split: Split) -> np.ndarray:
    """The labels of training and validation nodes; -1 everywhere else."""
    seen = torch.full_like(labels, -1)
    for nodes in (split.train.cpu(), split.val.cpu()):
        seen[nodes] = labels[nodes]
    return seen.numpy()


class ByOwnClassifier:
    """For a method that trains with labels: the accuracy of its own classifier on the nodes of the validation mask."""

    def __init__(self, graph: Graph) -> None:
        assert graph.y is not None and graph.train_mask is not None and graph.val_mask is not None
        seen = graph.train_mask | graph.val_mask
        self.graph = replace(graph, y=torch.where(seen, graph.y, -1))

    def score(self, fitted: Fitted, earlier: Sequence[Fitted]) -> float:
        return own_accuracy(fitted, self.graph, "val")


def by_labels(graph: Graph, asked: Asked) -> Judge:
    if graph.y is None or int((graph.y >= 0).sum()) == 0:
        raise GraphError(
            f"{argument('criterion', 'labels')} needs labels, and the graph has none; use {argument('criterion', 'edges')}."
        )
    if asked.method.needs_labels:
        return ByOwnClassifier(graph)
    return ByLabels(graph, public_splits(graph) if asked.protocol == "public" else tuning_splits(graph, asked))


def tuning_splits(graph: Graph, asked: Asked) -> list[Split]:
    """Random splits with the shares of protocol grace, 10/10/80, all with the test nodes of the first.

    The other nodes are divided into training and validation nodes anew for every split, so that the labels of 80 % of the
    nodes are never used.
    """
    assert graph.y is not None
    known = (graph.y.cpu() >= 0).nonzero()[:, 0]
    first = random_split(len(known), seed=asked.first_seed)
    pool, test, half = known[torch.cat([first.train, first.val])], known[first.test], len(first.train)
    splits = []
    for seed in range(asked.first_seed, asked.first_seed + asked.splits):
        order = pool[torch.randperm(len(pool), generator=generator(seed, "tuning split"))]
        splits.append(Split(order[:half], order[half:], test, first.name, seed))
    return splits


class ByEdges:
    """How well cosines of embeddings tell edges that training did not see from pairs without an edge: the area under ROC."""

    def __init__(self, graph: Graph, asked: Asked) -> None:
        self.graph = without_random_edges(graph, HELD_OUT, 0, asked.first_seed)

    def score(self, fitted: Fitted, earlier: Sequence[Fitted]) -> float:
        held = self.graph.held_out
        assert held is not None
        rows = unit_rows(checked_rows(fitted.embed(self.graph), self.graph.num_nodes))
        return 100 * area(cosines(rows, held.edges), cosines(rows, held.others))


class ByAgreement:
    """How many of a node's nearest nodes, by cosine, are the same in two repeats with different seeds."""

    def __init__(self, graph: Graph, asked: Asked) -> None:
        self.graph = graph
        source = generator(asked.first_seed, "compared nodes")
        self.nodes = torch.randperm(graph.num_nodes, generator=source)[:MOST_COMPARED]

    def score(self, fitted: Fitted, earlier: Sequence[Fitted]) -> float | None:
        if not earlier:
            return None
        one, other = (self._nearest(model) for model in (fitted, earlier[0]))
        return 100 * float((one[:, :, None] == other[:, None, :]).any(2).double().mean())

    def _nearest(self, fitted: Fitted) -> Tensor:
        """Nodes are in an order that depends on the seed: where embeddings have collapsed, ties must not count as agreement."""
        rows = torch.nn.functional.normalize(fitted.embed(self.graph).cpu().double(), dim=1)
        order = torch.randperm(len(rows), generator=generator(fitted.seed, "order"))
        place, others, found = order.argsort(), rows[order].T, []
        for nodes in self.nodes.split(256):
            cosines = rows[nodes] @ others
            cosines[torch.arange(len(nodes)), place[nodes]] = -2
            found.append(order[cosines.topk(min(NEAREST, len(rows) - 1), dim=1).indices])
        return torch.cat(found)


CRITERIA: Registry[Criterion] = Registry("criterion")
for _criterion in (
    Criterion("labels", "mean validation accuracy", by_labels),
    Criterion("edges", "held-out edges against pairs without an edge (AUC)", ByEdges),
    Criterion("agreement", f"the same {NEAREST} nearest nodes in two repeats", ByAgreement, repeats=2),
):
    CRITERIA.add(_criterion.name, _criterion)

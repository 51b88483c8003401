"""Training-free baselines: what an embedding must beat to have learned anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graphkin.evaluation.free import BEST_FREE, FREE, FreeRows, best_free
from graphkin.evaluation.rows import Rows, as_scipy
from graphkin.evaluation.scores import Scores
from graphkin.execution.memory import whole_memory
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.graph import Graph
from graphkin.graphs.recipes import prepared_graph
from graphkin.methods import Method
from graphkin.training.fitted import Fitted
from graphkin.training.modules import untrained_modules

UNTRAINED = "untrained encoder"
BASELINES = ("raw features", "propagated features", UNTRAINED)
"""those of the paper's tables; features as they are, without the scaling of :data:`FREE`"""
EVERY_BASELINE = (*BASELINES, *FREE, BEST_FREE)


def baseline(name: str, graph: Graph, method: Method | None, seed: int = 0) -> Tensor | Rows:
    """The rows of one of :data:`EVERY_BASELINE` but "best free"; only the untrained encoder needs a method."""
    if name in FREE:
        return FreeRows(graph)[name]
    if name == "raw features":
        return raw_features(graph)
    if name == "propagated features":
        return propagated_features(graph)
    assert method is not None
    return untrained(graph, method, seed)


def scored_baselines(score: Callable[[Any], Scores], graph: Graph, method: Method | None, seed: int = 0) -> dict[str, Scores]:
    """The best free row where the protocol can choose one, the method's untrained encoder, and all free rows.

    Free rows that could take more than half of the memory are left out; features as they are are always scored.
    """
    free = FreeRows(graph)
    limit = whole_memory(torch.device("cpu")) / 2
    scores = {name: score(free[name]) for name in free if name == "unit features" or free.bytes_of(name) <= limit}
    best = best_free(scores)
    chosen = {} if best is None else {BEST_FREE: best}
    encoder = {} if method is None else {UNTRAINED: score(untrained(graph, method, seed))}
    return {**chosen, **encoder, **scores}


def raw_features(graph: Graph) -> Tensor | Rows:
    return graph.x if isinstance(graph.x, Tensor) else as_scipy(graph.x)


def propagated_features(graph: Graph, steps: int = 2) -> Tensor | Rows:
    """Features averaged over neighbourhoods: Â^K x with self loops."""
    adjacency = normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight)
    rows: Any = raw_features(graph)
    for _ in range(steps):
        rows = adjacency @ rows if isinstance(rows, Tensor) else as_scipy(adjacency) @ rows
    return rows


def untrained(graph: Graph, method: Method, seed: int = 0) -> Tensor:
    """The embeddings of the method's encoder before any training."""
    if method.feature_scale in ("auto", "columns"):
        graph = prepared_graph(graph)
    classes = graph.num_classes if method.needs_labels else 0
    modules = untrained_modules(method, graph, classes, seed)
    return Fitted(method, modules, graph.num_features, classes, seed).embed(graph)

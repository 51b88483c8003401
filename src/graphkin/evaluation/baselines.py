"""Training-free baselines: what an embedding must beat to have learned anything."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphkin.evaluation.rows import Rows, as_scipy
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.graph import Graph
from graphkin.methods import Method
from graphkin.training.fitted import Fitted
from graphkin.training.modules import modules_for

BASELINES = ("raw features", "propagated features", "untrained encoder")


def baselines(graph: Graph, method: Method, seed: int = 0) -> dict[str, Tensor | Rows]:
    return {name: baseline(name, graph, method, seed) for name in BASELINES}


def baseline(name: str, graph: Graph, method: Method | None, seed: int = 0) -> Tensor | Rows:
    """The rows of one of :data:`BASELINES`; only the untrained encoder needs a method."""
    if name == "raw features":
        return raw_features(graph)
    if name == "propagated features":
        return propagated_features(graph)
    assert method is not None
    return untrained(graph, method, seed)


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
    classes = graph.num_classes if method.needs_labels else 0
    modules = modules_for(method, graph.num_features, classes, seed)
    return Fitted(method, modules, graph.num_features, classes, seed).embed(graph)

"""Embeddings in two dimensions, in groups by label or by cluster, with the nodes most similar to each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphkin.errors import check_choice
from graphkin.graphs.graph import Graph
from graphkin.uses.cluster import clusters_of
from graphkin.uses.layout import LAYOUTS, tsne
from graphkin.uses.nearest import nearest as nearest_nodes
from graphkin.uses.rows import DIMENSIONS, SAMPLE, principal, sample, unit_embeddings

NODES = SAMPLE
NEIGHBOURS = 5
NO_LABEL = "no label"


@dataclass(frozen=True)
class NodeMap:
    """Nodes on a plane. ``names`` belong to the mapped nodes, followed by other nodes among their nearest."""

    points: np.ndarray
    """[M, 2]"""
    groups: np.ndarray
    """[M], indices of ``group_names``"""
    group_names: tuple[str, ...]
    grouping: str
    """what a group is, a label or a cluster"""
    names: tuple[str, ...]
    labels: tuple[str, ...]
    """of all names; empty for a graph without labels"""
    nearest: np.ndarray
    """[M, at most 5], indices of ``names``, the most similar first"""
    similarities: np.ndarray
    """their cosines"""
    layout: str
    nodes: int
    """of the whole graph"""


def node_map(
    embeddings: np.ndarray, graph: Graph, layout: str = "tsne", say: Callable[[str], None] = lambda text: None
) -> NodeMap:
    check_choice("layout", layout, LAYOUTS)
    unit = unit_embeddings(embeddings)
    shown = sample(len(unit), NODES)
    say(f"nearest neighbours of {len(shown):,} nodes")
    found = nearest_nodes(unit, shown, NEIGHBOURS)
    nearest, similarities = found.indices, found.cosines
    say(f"{layout} of {len(shown):,} nodes")
    reduced = principal(unit[shown], DIMENSIONS)
    points = principal(reduced, 2) if layout == "pca" else tsne(reduced)
    labels = labels_of(graph)
    groups, group_names, grouping = groups_of(graph, unit)
    present, groups = np.unique(groups[shown], return_inverse=True)
    group_names = tuple(group_names[group] for group in present)
    mentioned = np.concatenate([shown, np.setdiff1d(nearest, shown)])
    place = np.empty(len(unit), dtype=np.int64)
    place[mentioned] = np.arange(len(mentioned))
    ids = np.arange(len(unit)) if graph.ids is None else graph.ids
    return NodeMap(
        points,
        groups,
        group_names,
        grouping,
        tuple(str(ids[node]) for node in mentioned),
        tuple(labels[node] for node in mentioned) if labels else (),
        place[nearest],
        similarities,
        layout,
        len(unit),
    )


def labels_of(graph: Graph) -> list[str]:
    """The name of each node's class; nothing for a graph without labels."""
    if graph.y is None or not bool((graph.y >= 0).any()):
        return []
    names = [*(_class_name(graph, label) for label in range(graph.num_classes)), NO_LABEL]
    return [names[label] for label in graph.y.tolist()]


def _class_name(graph: Graph, label: int) -> str:
    return graph.class_names[label] if label < len(graph.class_names) else f"class {label}"


def groups_of(graph: Graph | None, unit: np.ndarray) -> tuple[np.ndarray, tuple[str, ...], str]:
    """Of each node the place of its group among the names, these, and what a group is: a label, or else a cluster."""
    if graph is not None and labels_of(graph):
        assert graph.y is not None
        labels = graph.y.cpu().numpy()
        names = (*(_class_name(graph, label) for label in range(graph.num_classes)), NO_LABEL)
        return np.where(labels < 0, graph.num_classes, labels), names, "label"
    found = clusters_of(unit)
    return found.numbers - 1, tuple(f"cluster {number + 1}" for number in range(found.count)), "cluster"

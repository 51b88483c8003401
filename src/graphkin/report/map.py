"""Embeddings in two dimensions, in groups by label or by cluster, with the nodes most similar to each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphkin.errors import check_choice
from graphkin.graphs.graph import Graph
from graphkin.uses.cluster import Clusters, clusters_of
from graphkin.uses.layout import LAYOUTS, tsne
from graphkin.uses.nearest import nearest as nearest_nodes
from graphkin.uses.rows import DIMENSIONS, SAMPLE, principal, sample, unit_embeddings

NODES = SAMPLE
NEIGHBOURS = 5
NO_LABEL = "no label"


@dataclass(frozen=True)
class NodeMap:
    """M nodes on a plane. ``names`` are those of the mapped nodes, followed by other nodes among their nearest."""

    points: np.ndarray
    """[M, 2]"""
    groups: np.ndarray
    """of all names, indices of ``group_names``"""
    group_names: tuple[str, ...]
    names: tuple[str, ...]
    nearest: np.ndarray
    """[M, at most 5], indices of ``names``, the most similar first"""
    similarities: np.ndarray
    """their cosines"""
    layout: str
    nodes: int
    """of the whole graph"""
    clusters: Clusters | None
    """of the whole graph, where they are the groups; None where labels are"""


@dataclass(frozen=True)
class Groups:
    """Of each node the place of its group among the names."""

    places: np.ndarray
    names: tuple[str, ...]
    clusters: Clusters | None = None
    """where the groups are clusters; None where they are labels"""

    @property
    def kind(self) -> str:
        return "label" if self.clusters is None else "cluster"


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
    points = principal(reduced if layout == "pca" else tsne(reduced), 2)  # t-SNE has no axes: the longest way lies level
    grouped = groups_of(graph, unit)
    mentioned = np.concatenate([shown, np.setdiff1d(nearest, shown)])
    present, groups = np.unique(grouped.places[mentioned], return_inverse=True)
    place = np.empty(len(unit), dtype=np.int64)
    place[mentioned] = np.arange(len(mentioned))
    ids = np.arange(len(unit)) if graph.ids is None else graph.ids
    return NodeMap(
        points,
        groups,
        tuple(grouped.names[group] for group in present),
        tuple(str(ids[node]) for node in mentioned),
        place[nearest],
        similarities,
        layout,
        len(unit),
        grouped.clusters,
    )


def labels_of(graph: Graph) -> list[str]:
    """The name of each node's class; nothing for a graph without labels."""
    if graph.y is None or not bool((graph.y >= 0).any()):
        return []
    names = [*(_class_name(graph, label) for label in range(graph.num_classes)), NO_LABEL]
    return [names[label] for label in graph.y.tolist()]


def _class_name(graph: Graph, label: int) -> str:
    return graph.class_names[label] if label < len(graph.class_names) else f"class {label}"


def groups_of(graph: Graph | None, unit: np.ndarray) -> Groups:
    """Labels where there are any, clusters otherwise."""
    if graph is not None and labels_of(graph):
        assert graph.y is not None
        labels = graph.y.cpu().numpy()
        names = (*(_class_name(graph, label) for label in range(graph.num_classes)), NO_LABEL)
        return Groups(np.where(labels < 0, graph.num_classes, labels), names)
    found = clusters_of(unit)
    return Groups(found.numbers - 1, tuple(f"cluster {number + 1}" for number in range(found.count)), found)

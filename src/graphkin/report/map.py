"""Embeddings in two dimensions, in groups by label or by cluster, with the nodes most similar to each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphkin.errors import check_choice
from graphkin.graphs.graph import Graph

LAYOUTS = ("tsne", "pca")
NODES = 20_000
DIMENSIONS = 50
NEIGHBOURS = 5
CLUSTERS = 8
MANY = 5_000
"""beyond so many nodes t-SNE takes half the steps, after which its map has settled"""
BLOCK = 512
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
    unit = _unit(np.asarray(embeddings, dtype=np.float64)).astype(np.float32)
    shown = _sample(len(unit))
    say(f"nearest neighbours of {len(shown):,} nodes")
    nearest, similarities = _nearest(unit, shown)
    say(f"{layout} of {len(shown):,} nodes")
    reduced = _principal(unit[shown], DIMENSIONS)
    points = _principal(reduced, 2) if layout == "pca" else _tsne(reduced)
    labels = _labels(graph)
    groups, group_names, grouping = _groups(graph, shown, reduced)
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


def _sample(nodes: int) -> np.ndarray:
    if nodes <= NODES:
        return np.arange(nodes)
    return np.sort(np.random.default_rng(0).choice(nodes, NODES, replace=False))


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, so that distances order nodes as cosines do; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def _nearest(unit: np.ndarray, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each node that is shown, the most similar of all others; ties go to the first."""
    count = min(NEIGHBOURS, len(unit) - 1)
    indices = np.empty((len(shown), count), dtype=np.int64)
    cosines = np.empty((len(shown), count), dtype=np.float32)
    for first in range(0, len(shown) if count else 0, BLOCK):
        rows = shown[first : first + BLOCK]
        block = unit[rows] @ unit.T
        block[np.arange(len(rows)), rows] = -np.inf
        found = np.sort(np.argpartition(-block, count - 1, axis=1)[:, :count], axis=1)
        order = np.argsort(-np.take_along_axis(block, found, 1), axis=1, kind="stable")
        indices[first : first + BLOCK] = np.take_along_axis(found, order, 1)
        cosines[first : first + BLOCK] = np.take_along_axis(block, indices[first : first + BLOCK], 1)
    return indices, cosines


def _principal(rows: np.ndarray, dimensions: int) -> np.ndarray:
    """The first principal components, padded with zeros."""
    from sklearn.decomposition import PCA

    wanted = min(dimensions, *rows.shape)
    found = np.zeros((len(rows), max(wanted, 2)), dtype=np.float32)
    if np.ptp(rows, axis=0).any():
        found[:, :wanted] = PCA(wanted, random_state=0).fit_transform(rows)
    return found


def _tsne(rows: np.ndarray) -> np.ndarray:
    """t-SNE; a few nodes, or nodes that are all alike, are placed by PCA."""
    from sklearn.manifold import TSNE

    if len(rows) < 5 or not np.ptp(rows[:, 0]) > 0:
        return rows[:, :2]
    perplexity = min(30.0, (len(rows) - 1) / 3)
    steps = 500 if len(rows) > MANY else 1000
    placed = TSNE(perplexity=perplexity, max_iter=steps, init="pca", learning_rate="auto", random_state=0)
    return np.asarray(placed.fit_transform(rows))


def _labels(graph: Graph) -> list[str]:
    if graph.y is None or not bool((graph.y >= 0).any()):
        return []
    names = [*(_class_name(graph, label) for label in range(graph.num_classes)), NO_LABEL]
    return [names[label] for label in graph.y.tolist()]


def _class_name(graph: Graph, label: int) -> str:
    return graph.class_names[label] if label < len(graph.class_names) else f"class {label}"


def _groups(graph: Graph, shown: np.ndarray, reduced: np.ndarray) -> tuple[np.ndarray, tuple[str, ...], str]:
    """By label; without labels, by k-means cluster."""
    labels = _labels(graph)
    if labels:
        assert graph.y is not None
        classes = graph.y.cpu().numpy()[shown]
        present = sorted(set(classes.tolist()), key=lambda label: (label < 0, label))
        names = tuple(NO_LABEL if label < 0 else _class_name(graph, label) for label in present)
        place = {label: number for number, label in enumerate(present)}
        return np.array([place[label] for label in classes.tolist()]), names, "label"
    from sklearn.cluster import KMeans

    count = min(CLUSTERS, len(np.unique(reduced, axis=0)))
    found = KMeans(count, n_init=4, random_state=0).fit_predict(reduced)
    return found, tuple(f"cluster {number + 1}" for number in range(count)), "cluster"

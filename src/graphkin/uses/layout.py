"""Embeddings in two dimensions."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from graphkin.errors import check_choice
from graphkin.evaluation.rows import Rows
from graphkin.uses.nearest import nearest
from graphkin.uses.rows import DIMENSIONS, SAMPLE, principal, sample, unit_embeddings

LAYOUTS = ("tsne", "pca")
MANY = 5_000
"""beyond so many nodes t-SNE takes half the steps, after which its map has settled"""


def layout(embeddings: Tensor | Rows, kind: str = "tsne") -> np.ndarray:
    """Two coordinates for each node, float32 [N, 2].

    "tsne" keeps near nodes near; beyond 20,000 nodes it places a sample, and every other node beside its most similar node
    of the sample. "pca" takes the two directions of largest variance. Both look at rows of length 1.
    """
    check_choice("layout", kind, LAYOUTS)
    unit = unit_embeddings(embeddings)
    shown = sample(len(unit), SAMPLE)
    reduced = principal(unit, DIMENSIONS, unit[shown])
    if kind == "pca":
        return principal(reduced, 2)
    points = np.empty((len(unit), 2), dtype=np.float32)
    points[shown] = tsne(reduced[shown])
    others = np.setdiff1d(np.arange(len(unit)), shown)
    if len(others):
        hosts = nearest(unit, others, 1, shown).indices[:, 0]
        points[others] = points[hosts] + _offsets(points[shown], np.searchsorted(shown, hosts))
    return points


def _offsets(points: np.ndarray, hosts: np.ndarray) -> np.ndarray:
    """Random steps [M, 2] beside the points ``hosts``, about as far as the nearest other point."""
    from scipy.spatial import cKDTree

    gaps = cKDTree(points).query(points, k=2)[0][:, 1]
    return np.asarray(np.random.default_rng(0).normal(0, 0.5, (len(hosts), 2)) * gaps[hosts, None], dtype=np.float32)


def tsne(rows: np.ndarray) -> np.ndarray:
    """t-SNE; a few nodes, or nodes that are all alike, are placed by PCA."""
    from sklearn.manifold import TSNE

    if len(rows) < 5 or not np.ptp(rows[:, 0]) > 0:
        return rows[:, :2]
    perplexity = min(30.0, (len(rows) - 1) / 3)
    steps = 500 if len(rows) > MANY else 1000
    placed = TSNE(perplexity=perplexity, max_iter=steps, init="pca", learning_rate="auto", random_state=0)
    return np.asarray(placed.fit_transform(rows))

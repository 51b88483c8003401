"""Embeddings in two dimensions."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from graphkin.errors import check_choice
from graphkin.evaluation.rows import Rows
from graphkin.uses.rows import DIMENSIONS, SAMPLE, principal, sample, unit_embeddings
from graphkin.uses.similar import nearest

LAYOUTS = ("tsne", "pca")
MANY = 5_000
"""beyond so many nodes t-SNE takes half the steps, after which its map has settled"""
NEIGHBOURS = 5


def layout(embeddings: Tensor | Rows, kind: str = "tsne") -> np.ndarray:
    """Two coordinates for each node, float32 [N, 2].

    "tsne" keeps near nodes near; beyond 20,000 nodes it places a sample, and every other node in the middle of its 5
    most similar nodes of the sample. "pca" takes the two directions of largest variance. Both look at rows of length 1.
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
        place = np.zeros(len(unit), dtype=np.int64)
        place[shown] = np.arange(len(shown))
        found = nearest(unit, others, NEIGHBOURS, shown)
        points[others] = points[shown][place[found.indices]].mean(axis=1)
    return points


def tsne(rows: np.ndarray) -> np.ndarray:
    """t-SNE; a few nodes, or nodes that are all alike, are placed by PCA."""
    from sklearn.manifold import TSNE

    if len(rows) < 5 or not np.ptp(rows[:, 0]) > 0:
        return rows[:, :2]
    perplexity = min(30.0, (len(rows) - 1) / 3)
    steps = 500 if len(rows) > MANY else 1000
    placed = TSNE(perplexity=perplexity, max_iter=steps, init="pca", learning_rate="auto", random_state=0)
    return np.asarray(placed.fit_transform(rows))

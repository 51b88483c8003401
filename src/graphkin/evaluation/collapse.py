"""Whether training made all embeddings point the same way."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphkin.evaluation.baselines import untrained
from graphkin.evaluation.rows import ROWS_AT_A_TIME
from graphkin.graphs.graph import Graph
from graphkin.training.fitted import Fitted

APART, SAME = 0.001, 1e-6
"""one minus the mean cosine of two nodes: below the first, embeddings are suspect; below the second, they are equal"""
APART_AFTER_COLLAPSE = 0.05
"""at most this share of what it was before training"""


def collapse(embeddings: Tensor, fitted: Fitted, graph: Graph) -> str | None:
    """A warning if all embeddings point the same way; None if they do not, or did so before training."""
    apart = 1 - mean_cosine(embeddings)
    if apart > APART:
        return None
    if apart < SAME:
        return "all nodes have the same embedding: features and neighbours do not tell them apart."
    if apart > APART_AFTER_COLLAPSE * (1 - mean_cosine(untrained(graph, fitted.method, fitted.seed))):
        return None
    return (
        f"training collapsed: all embeddings point the same way (mean cosine {1 - apart:.4f}); try another seed, or a smaller "
        f"learning_rate than {fitted.method.optimiser.learning_rate}."
    )


def mean_cosine(embeddings: Tensor) -> float:
    """The cosine of two nodes, averaged over all pairs."""
    total = torch.zeros(embeddings.size(1), dtype=torch.float64)
    for part in embeddings.split(ROWS_AT_A_TIME):
        total += F.normalize(part, dim=1).sum(dim=0).cpu()
    return float((total / len(embeddings)).square().sum())

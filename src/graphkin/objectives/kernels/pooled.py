"""The numerator of ``pooling="mean"``: its positive term is linear in the candidates, so it takes one matrix product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.objectives.kernels.problem import Problem
from graphkin.weights import NONE, LinearWeights, StoredWeights

BLOCK, STORED_BLOCK = 2048, 8192
"""anchors at a time"""


class Positives(NamedTuple):
    log_numerator: Tensor
    """of the anchors in both views [2, B]"""
    gradient: Tensor
    """of Σ log numerator in both views [2, N, d]"""


def mean_positives(views: Tensor, problem: Problem) -> Positives:
    """log(e^a + e^b) of every anchor: a and b are the weighted means of its positives' scores in the other view and its own."""
    gradient = torch.zeros_like(views)
    numerators = []
    tau = problem.tau
    for rows, linear in _blocks(problem):
        own_share = linear.own / (linear.own + linear.mass)
        mine = views[:, rows]
        assert linear.shares is not None
        pooled = _times(linear.shares, views)
        rest = (1 - own_share)[:, None]
        from_other = own_share[:, None] * mine.flip(0) + rest * pooled.flip(0)
        inter = (mine * from_other).sum(dim=2) / tau
        intra = torch.where(linear.has_others, (mine * pooled).sum(dim=2) / tau, NONE)
        log_numerator = torch.logaddexp(inter, intra)
        numerators.append(log_numerator)
        of_inter = ((inter - log_numerator).exp() / tau)[..., None]
        of_intra = ((intra - log_numerator).exp() / tau)[..., None]
        own_part = own_share[:, None] * (of_inter * mine).flip(0)
        gradient.index_add_(1, rows, of_inter * from_other + of_intra * pooled + own_part)
        gradient += _times(linear.shares.T, rest * (of_inter * mine).flip(0) + of_intra * mine)
    return Positives(torch.cat(numerators, dim=1), gradient)


def _times(matrix: Tensor, views: Tensor) -> Tensor:
    """The matrix by each of the views [2, R, d], which reads it once."""
    count, rows, width = views.shape
    return (matrix @ views.transpose(0, 1).reshape(rows, count * width)).view(len(matrix), count, width).transpose(0, 1)


def _blocks(problem: Problem) -> Iterator[tuple[Tensor, LinearWeights]]:
    """Anchors and their positive weights; all that are stored at once, since they need no copy."""
    weights = problem.weights
    if problem.anchors is None and isinstance(weights, StoredWeights):
        yield weights.all_nodes(), weights.matrices
        return
    block = STORED_BLOCK if isinstance(weights, StoredWeights) else BLOCK
    for rows in problem.rows.split(block):
        yield rows, weights.linear(rows, repel=False)

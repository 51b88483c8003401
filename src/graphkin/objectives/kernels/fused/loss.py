"""Loss and gradient from the two passes: all nodes are candidates, all or some are anchors."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graphkin.objectives.kernels.fused.operands import operands
from graphkin.objectives.kernels.fused.pairs import Pairs, Side, numbers_of
from graphkin.objectives.kernels.pooled import Positives, mean_positives
from graphkin.objectives.kernels.problem import Problem


def all_candidates(u: Tensor, v: Tensor, problem: Problem, precision: str = "float32") -> tuple[Tensor, Tensor]:
    """Loss and gradient of the problem, for rows of unit length.

    The first pass sums every anchor's numerator and denominator, the second computes all scores again and turns them into
    gradients. "mean" pooling has a numerator of its own.
    """
    weights, tau, anchors = problem.weights.functions, problem.tau, problem.anchors
    assert weights is not None
    positives: Positives | None = None
    if problem.pooling == "mean" and weights.attract:
        positives = mean_positives(torch.stack([u, v]), problem)
    pairs = Pairs(weights, weights.attract and positives is None, tau, precision, anchors)
    numbers = numbers_of(weights)
    nodes = torch.arange(len(u), dtype=torch.int32, device=u.device)
    everyone = Side(operands(u, v, precision), nodes, numbers.functions)
    anchoring = everyone.choose(anchors)
    own_weight, factors, mine = weights.own, numbers.factors, (u, v)
    if anchors is not None:
        own_weight, factors, mine = own_weight[anchors], factors[:, anchors], (u[anchors], v[anchors])

    own = ((mine[0] * mine[1]).sum(dim=1) - 1).div_(tau).exp_()
    sums = pairs.sums(anchoring, everyone) * factors[:, None] + torch.stack([own_weight * own, own])[:, None]
    log_numerator = sums[0].log() if positives is None else positives.log_numerator - 1 / tau
    scale = 1 / (2 * len(anchoring))
    loss = (sums[1].log() - log_numerator).sum() * scale

    inverses = 1 / sums
    own_gradient = own * inverses[1].sum(dim=0)
    if positives is None:
        own_gradient -= own * own_weight * inverses[0].sum(dim=0)
    own_gradient = (own_gradient * (scale / tau))[:, None]
    inverses *= factors[:, None]
    gradient = _gradient(pairs, everyone, replace(anchoring, inverses=inverses), mine, own_gradient, scale / tau)
    return loss, gradient if positives is None else gradient - positives.gradient * scale


def _gradient(
    pairs: Pairs, everyone: Side, anchoring: Side, mine: tuple[Tensor, Tensor], own_gradient: Tensor, factor: float
) -> Tensor:
    """In the embeddings of all nodes [2, N, d]: of pairs of nodes, and of anchors with their counterparts."""
    width = mine[0].size(1)
    if pairs.anchors is None:
        gradient = pairs.gradients(anchoring, anchoring, factor)[..., :width]
        for view in (0, 1):
            gradient[view].addcmul_(own_gradient, mine[1 - view])
        return gradient
    assert anchoring.inverses is not None
    others = replace(everyone, inverses=anchoring.inverses.new_zeros(2, 2, len(everyone)))
    of_anchors = pairs.gradients(anchoring, others, factor)[..., :width]
    gradient = pairs.gradients(others, anchoring, factor)[..., :width]
    for view in (0, 1):
        gradient[view].index_add_(0, pairs.anchors, of_anchors[view].addcmul_(own_gradient, mine[1 - view]))
    return gradient

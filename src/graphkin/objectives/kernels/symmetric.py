"""The contrast of all nodes at once, with half of the products: ⟨a,b⟩ serves a as anchor and b as anchor.

Nodes are taken in pairs of blocks. Stacking the views of a block, z_a = [u_a; v_a], one product z_a z_bᵀ holds the scores
of all view pairs. A first pass sums numerators and denominators, a second turns the exponentials into gradients:

    ∂L/∂⟨z_i,z_j⟩ = e^{⟨z_i,z_j⟩/τ} (c_ij + c_ji)/τ,   c_ij = w⁻_ij / denominator_i − w⁺_ij / numerator_i.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from graphkin.objectives.kernels.blocked import SAFE_SUM
from graphkin.objectives.kernels.precision import product
from graphkin.weights.node import LinearWeights

BLOCK = {"cpu": 384, "cuda": 4096}
"""fits the cache of a core; fills a GPU"""
KEEP_BYTES = 512 * 2**20
"""Exponentials are kept between the passes while they fit in this, and computed again otherwise."""


def all_anchors(
    views: Tensor,
    weights: LinearWeights,
    tau: float,
    precision: str = "float32",
    block: int | None = None,
    *,
    trusted: bool = False,
) -> tuple[Tensor, Tensor] | None:
    """Loss and gradient of ``objective.enhanced`` (two views [2, N, d]) or ``objective.neighbourhood`` (one, [1, N, d]).

    Rows have unit length. None if a sum is too small to trust; ``trusted`` says that none can be, and waits for no device.
    """
    count, nodes, width = views.shape
    block = block or BLOCK[views.device.type]
    edges = torch.linspace(0, nodes, -(-nodes // block) + 1).long().tolist()
    blocks = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
    pairs = [(a, b) for i, a in enumerate(blocks) for b in blocks[i:]]
    scaled = views / tau

    def exponentials(a: slice, b: slice) -> Tensor:
        """e^{(⟨z_i,z_j⟩ − 1)/τ} for the views of both blocks [V, a, V, b], zero for a node with itself."""
        rows, columns = scaled[:, a].reshape(-1, width), views[:, b].reshape(-1, width)
        scores = product(rows, columns.T, precision).sub_(1 / tau).exp_()
        scores = scores.view(count, a.stop - a.start, count, b.stop - b.start)
        if a == b:
            scores.diagonal(dim1=1, dim2=3).zero_()
        return scores

    keep = (count * nodes) ** 2 * views.element_size() // 2 <= KEEP_BYTES
    kept: dict[tuple[int, int], Tensor] = {}
    own = ((views[0] * views[1]).sum(dim=1) - 1).div_(tau).exp_() if count == 2 else views.new_zeros(nodes)
    numerator = (weights.own * own).repeat(count, 1)
    denominator = own.repeat(count, 1)
    for a, b in pairs:
        scores = exponentials(a, b)
        if keep:
            kept[a.start, b.start] = scores
        for anchors, candidates, sums in _both_ways(a, b, scores):
            if weights.shares is not None:
                numerator[:, anchors] += weights.mass[anchors] * (sums * weights.shares[anchors, candidates]).sum(dim=2)
            if weights.repel is None:
                denominator[:, anchors] += sums.sum(dim=2)
            else:
                denominator[:, anchors] += (sums * weights.repel[anchors, candidates]).sum(dim=2)

    has_positive = (weights.mass > 0) if count == 1 else torch.ones_like(own, dtype=torch.bool)
    numerator, denominator = (torch.where(has_positive, sums, 1) for sums in (numerator, denominator))
    loss = (denominator.log() - numerator.log()).sum()
    if not trusted and not (torch.minimum(numerator, denominator).amin() > SAFE_SUM and loss.isfinite()):
        return None

    grad = torch.zeros_like(views)
    if count == 2:
        grad += (own * (1 / denominator - weights.own / numerator).sum(dim=0))[:, None] * views.flip(0)
    repulsion = (has_positive / denominator)[:, :, None]
    attraction = (weights.mass * has_positive / numerator)[:, :, None]

    def coefficients(anchors: slice, candidates: slice) -> Tensor:
        """c_ij for the views of the anchors [V, anchors, candidates]; without weights they depend on the anchor alone."""
        c = repulsion[:, anchors]
        if weights.repel is not None:
            c = c * weights.repel[anchors, candidates]
        if weights.shares is not None:
            c = torch.addcmul(c, attraction[:, anchors], weights.shares[anchors, candidates], value=-1)
        return c

    for a, b in pairs:
        scores = kept.pop((a.start, b.start)) if keep else exponentials(a, b)
        both = coefficients(a, b)[:, :, None, :] + coefficients(b, a).permute(2, 0, 1)[None]
        gradient = scores.mul_(both).view(count * (a.stop - a.start), -1)
        columns = views[:, b].reshape(-1, width)
        grad[:, a] += product(gradient, columns, precision).view(count, -1, width)
        if a != b:
            rows = views[:, a].reshape(-1, width)
            grad[:, b] += product(gradient.T, rows, precision).view(count, -1, width)
    scale = 1 / (count * nodes)
    return loss * scale, grad.mul_(scale / tau)


def _both_ways(a: slice, b: slice, scores: Tensor) -> list[tuple[slice, slice, Tensor]]:
    """Per direction: anchors, candidates, and exponentials summed over the candidate's views [V, anchors, candidates]."""
    forward = (a, b, scores.sum(dim=2))
    return [forward] if a == b else [forward, (b, a, scores.sum(dim=0).permute(1, 2, 0))]

"""The contrast of all nodes at once, with half of the products: ⟨a,b⟩ serves a as anchor and b as anchor.

Nodes are taken in pairs of blocks. Stacking the views of a block, z_a = [u_a; v_a], one product z_a z_bᵀ holds the scores
of all view pairs. A first pass sums numerators and denominators, a second turns the exponentials into gradients:

    ∂L/∂⟨z_i,z_j⟩ = e^{⟨z_i,z_j⟩/τ} (c_ij + c_ji)/τ,   c_ij = w⁻_ij / denominator_i − w⁺_ij / numerator_i.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from graphkin.objectives.kernels.blocked import SAFE_SUM
from graphkin.objectives.kernels.precision import product
from graphkin.objectives.kernels.problem import Case
from graphkin.weights import LinearWeights

BLOCK = {"cpu": 384, "cuda": 4096}
"""fits the cache of a core; fills a GPU"""
STORED_BYTES = 512 * 2**20
"""Exponentials are stored between the passes while they fit in this, and computed again otherwise."""


def memory(case: Case) -> int:
    """Bytes at the peak besides embeddings and stored weights: exponentials twice, or some blocks of them."""
    exponentials = 8 * case.nodes**2
    return 2 * exponentials + 2**26 if exponentials <= STORED_BYTES else 2**28


def memory_of_one_view(nodes: int) -> int:
    """The same for one view, with the weights that its batches compute."""
    return 10 * 4 * nodes**2


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
    count, nodes, _ = views.shape
    blocks = _Blocks(views, views / tau, weights, tau, precision)
    pairs = _pairs_of_blocks(nodes, block or BLOCK[views.device.type])
    stored: dict[tuple[int, int], Tensor] = {}
    store = (count * nodes) ** 2 * views.element_size() // 2 <= STORED_BYTES
    own = ((views[0] * views[1]).sum(dim=1) - 1).div_(tau).exp_() if count == 2 else views.new_zeros(nodes)
    numerator, denominator = (weights.own * own).repeat(count, 1), own.repeat(count, 1)
    for a, b in pairs:
        scores = blocks.exponentials(a, b)
        if store:
            stored[a.start, b.start] = scores
        blocks.add_sums(a, b, scores, numerator, denominator)

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
    for a, b in pairs:
        scores = stored.pop((a.start, b.start)) if store else blocks.exponentials(a, b)
        both = blocks.coefficients(a, b, repulsion, attraction)[:, :, None, :]
        both = both + blocks.coefficients(b, a, repulsion, attraction).permute(2, 0, 1)[None]
        blocks.add_gradients(a, b, scores.mul_(both), grad)
    scale = 1 / (count * nodes)
    return loss * scale, grad.mul_(scale / tau)


def _pairs_of_blocks(nodes: int, block: int) -> list[tuple[slice, slice]]:
    """Every block with itself and with those after it."""
    edges = torch.linspace(0, nodes, -(-nodes // block) + 1).long().tolist()
    blocks = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
    return [(a, b) for i, a in enumerate(blocks) for b in blocks[i:]]


@dataclass(frozen=True)
class _Blocks:
    """Two blocks of nodes, a and b, in all V views: what both passes do with them."""

    views: Tensor
    """[V, N, d]"""
    scaled: Tensor
    """the same by τ"""
    weights: LinearWeights
    tau: float
    precision: str

    def exponentials(self, a: slice, b: slice) -> Tensor:
        """e^{(⟨z_i,z_j⟩ − 1)/τ} for the views of both blocks [V, a, V, b], zero for a node with itself."""
        count, _, width = self.views.shape
        rows, columns = self.scaled[:, a].reshape(-1, width), self.views[:, b].reshape(-1, width)
        scores = product(rows, columns.T, self.precision).sub_(1 / self.tau).exp_()
        scores = scores.view(count, a.stop - a.start, count, b.stop - b.start)
        if a == b:
            scores.diagonal(dim1=1, dim2=3).zero_()
        return scores

    def add_sums(self, a: slice, b: slice, scores: Tensor, numerator: Tensor, denominator: Tensor) -> None:
        """Add the weighted exponentials to the sums [V, N] of a as anchors and of b as anchors."""
        weights = self.weights
        for anchors, candidates, sums in _both_ways(a, b, scores):
            if weights.shares is not None:
                numerator[:, anchors] += weights.mass[anchors] * (sums * weights.shares[anchors, candidates]).sum(dim=2)
            if weights.repel is None:
                denominator[:, anchors] += sums.sum(dim=2)
            else:
                denominator[:, anchors] += (sums * weights.repel[anchors, candidates]).sum(dim=2)

    def coefficients(self, anchors: slice, candidates: slice, repulsion: Tensor, attraction: Tensor) -> Tensor:
        """c_ij for the views of the anchors [V, anchors, candidates]; without weights they depend on the anchor alone."""
        c = repulsion[:, anchors]
        if self.weights.repel is not None:
            c = c * self.weights.repel[anchors, candidates]
        if self.weights.shares is not None:
            c = torch.addcmul(c, attraction[:, anchors], self.weights.shares[anchors, candidates], value=-1)
        return c

    def add_gradients(self, a: slice, b: slice, gradient: Tensor, grad: Tensor) -> None:
        """From gradients in scores [V, a, V, b] to gradients in embeddings."""
        count, _, width = self.views.shape
        gradient = gradient.view(count * (a.stop - a.start), -1)
        columns = self.views[:, b].reshape(-1, width)
        grad[:, a] += product(gradient, columns, self.precision).view(count, -1, width)
        if a != b:
            rows = self.views[:, a].reshape(-1, width)
            grad[:, b] += product(gradient.T, rows, self.precision).view(count, -1, width)


def _both_ways(a: slice, b: slice, scores: Tensor) -> list[tuple[slice, slice, Tensor]]:
    """Per direction: anchors, candidates, and exponentials summed over the candidate's views [V, anchors, candidates]."""
    forward = (a, b, scores.sum(dim=2))
    return [forward] if a == b else [forward, (b, a, scores.sum(dim=0).permute(1, 2, 0))]

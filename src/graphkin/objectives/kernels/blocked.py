"""The two-view objective in blocks of anchors: memory grows with N·block, and blocks change nothing.

The loss is a scalar, so its gradient is computed in the same pass: with p the share of a candidate in the numerator and q its
share in the denominator, ∂ℓ/∂⟨u_i,v_j⟩ = (q_ij − p_ij)/τ. No block is kept and none is computed twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphkin.objectives import reference as objective
from graphkin.objectives.kernels.precision import product
from graphkin.weights.node import NONE, Candidates, LinearWeights, NodeWeights

BLOCK = 512
SAFE_SUM = 1e-25
"""A sum of exponentials below this may have lost terms to float32's underflow; the block is then redone in log space."""


def some_anchors(
    u: Tensor,
    v: Tensor,
    weights: NodeWeights,
    tau: float,
    pooling: str,
    anchors: Tensor,
    candidates: Candidates | None,
    precision: str = "float32",
    block: int = BLOCK,
) -> tuple[Tensor, Tensor]:
    """Loss and gradient of ``objective.enhanced(u, v, weights.block(anchors, candidates), tau, pooling, anchors, columns)``."""
    total = u.new_zeros(())
    grad_u, grad_v = torch.zeros_like(u), torch.zeros_like(v)
    for rows in anchors.split(block):
        linear = weights.linear(rows, candidates)
        for anchor, other, grads in ((u, v, (grad_u, grad_v)), (v, u, (grad_v, grad_u))):
            loss = _anchors_in_linear_space(anchor, other, rows, linear, tau, pooling, candidates, grads, precision)
            if loss is None:
                loss = _anchors_in_log_space(anchor, other, rows, weights, tau, pooling, candidates, grads)
            total += loss
    scale = 1 / (2 * anchors.numel())
    return total * scale, torch.stack([grad_u, grad_v]).mul_(scale)


def _anchors_in_linear_space(
    anchor: Tensor,
    other: Tensor,
    rows: Tensor,
    weights: LinearWeights,
    tau: float,
    pooling: str,
    candidates: Candidates | None,
    grads: tuple[Tensor, Tensor],
    precision: str,
) -> Tensor | None:
    """The summed loss of ``rows`` and its gradient, added to ``grads``; None if a sum is too small to trust."""
    columns = None if candidates is None else candidates.columns
    mine, counterparts = anchor[rows], other[rows]
    others, anchors = (other, anchor) if columns is None else (other[columns], anchor[columns])
    scaled = mine / tau
    inter, intra = product(scaled, others.T, precision), product(scaled, anchors.T, precision)
    own = (scaled * counterparts).sum(dim=1)
    if pooling == "mean":
        pooled = _MeanPositives(inter, intra, own, weights)

    shift = torch.maximum(torch.maximum(inter.amax(dim=1), intra.amax(dim=1)), own)
    for scores in (inter, intra):
        scores.sub_(shift[:, None]).exp_()
        _clear_own_pairs(scores, rows, columns)
    own = own.sub_(shift).exp_()

    both = inter + intra
    denominator = own + (both.sum(dim=1) if weights.repel is None else (both * weights.repel).sum(dim=1))
    if pooling == "sum":
        numerator = weights.own * own
        if weights.shares is not None:
            numerator = numerator + weights.mass * both.mul_(weights.shares).sum(dim=1)
        smallest = torch.minimum(numerator, denominator).amin()
        log_numerator = numerator.log()
    else:
        smallest = denominator.amin()
        log_numerator = pooled.log_numerator - shift
    if not smallest > SAFE_SUM:
        return None

    # From here on the exponentials become gradients in the scores: q, then minus p.
    own_gradient = own / denominator
    if weights.repel is None:
        share = (1 / denominator)[:, None]
    else:
        share = torch.mul(weights.repel, (1 / denominator)[:, None], out=both)
    if pooling == "sum":
        own_gradient -= weights.own * own / numerator
        if weights.shares is not None:
            share = torch.addcmul(share, weights.shares, (weights.mass / numerator)[:, None], value=-1, out=both)
        inter.mul_(share)
        intra.mul_(share)
    else:
        inter.mul_(share)
        intra.mul_(share)
        own_gradient -= pooled.subtract_gradient(inter, intra)

    grad_anchor, grad_other = grads
    own_gradient = (own_gradient / tau)[:, None]
    to_rows = product(inter, others, precision) + product(intra, anchors, precision)
    to_rows = to_rows.div_(tau) + own_gradient * counterparts
    grad_anchor.index_add_(0, rows, to_rows)
    grad_other.index_add_(0, rows, own_gradient * mine)
    for grad, gradient in ((grad_other, inter), (grad_anchor, intra)):
        to_columns = product(gradient.T, scaled, precision)
        if columns is None:
            grad += to_columns
        else:
            grad.index_add_(0, columns, to_columns)
    return (denominator.log() - log_numerator).sum()


class _MeanPositives:
    """The numerator e^a + e^b of ``pooling="mean"``: a and b are the weighted means of a view's scores."""

    def __init__(self, inter: Tensor, intra: Tensor, own: Tensor, weights: LinearWeights) -> None:
        self.shares = weights.shares
        self.own_share = weights.own / (weights.own + weights.mass)
        inter_mean, intra_mean = self.own_share * own, torch.full_like(own, NONE)
        if self.shares is not None:
            inter_mean += (1 - self.own_share) * (self.shares * inter).sum(dim=1)
            intra_mean = torch.where(weights.has_others, (self.shares * intra).sum(dim=1), intra_mean)
        self.log_numerator = torch.logaddexp(inter_mean, intra_mean)
        self.inter_part = (inter_mean - self.log_numerator).exp()

    def subtract_gradient(self, inter: Tensor, intra: Tensor) -> Tensor:
        """Take ∂ log numerator / ∂ scores off both blocks, and return that of the own counterparts."""
        if self.shares is not None:
            inter.addcmul_(self.shares, (self.inter_part * (1 - self.own_share))[:, None], value=-1)
            intra.addcmul_(self.shares, (1 - self.inter_part)[:, None], value=-1)
        return self.inter_part * self.own_share


def _anchors_in_log_space(
    anchor: Tensor,
    other: Tensor,
    rows: Tensor,
    weights: NodeWeights,
    tau: float,
    pooling: str,
    candidates: Candidates | None,
    grads: tuple[Tensor, Tensor],
) -> Tensor:
    """The same by the definition and its automatic gradient, for temperatures at which plain sums underflow."""
    columns = None if candidates is None else candidates.columns
    with torch.enable_grad():
        a, b = anchor.detach().requires_grad_(), other.detach().requires_grad_()
        loss = objective.anchor_losses(a, b, weights.block(rows, candidates), tau, pooling, rows, columns).sum()
        for grad, gradient in zip(grads, torch.autograd.grad(loss, (a, b)), strict=True):
            grad += gradient
    return loss.detach()


def _clear_own_pairs(block: Tensor, rows: Tensor, columns: Tensor | None) -> None:
    position = torch.arange(rows.numel(), device=rows.device)
    if columns is None:
        block[position, rows] = 0
    else:
        found = torch.searchsorted(columns, rows).clamp(max=columns.numel() - 1)
        present = columns[found] == rows
        block[position[present], found[present]] = 0

"""The two-view objective in blocks of anchors: memory grows with N·block, and blocks change nothing.

The loss is a scalar, so its gradient is computed in the same pass: with p the share of a candidate in the numerator and q its
share in the denominator, ∂ℓ/∂⟨u_i,v_j⟩ = (q_ij − p_ij)/τ. No block is stored and none is computed twice.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.objectives import reference as objective
from graphkin.objectives.kernels.precision import product
from graphkin.objectives.kernels.problem import Case, Problem
from graphkin.weights import NONE, LinearWeights

BLOCK = 512
SAFE_SUM = 1e-25
"""A sum of exponentials below this may have lost terms to float32's underflow; the block is then redone in log space."""
BLOCKS, BLOCKS_WITH_WEIGHTS, BLOCKS_OF_A_SAMPLE = 12, 22, 16
"""of anchors by candidates in float32 that a step holds at the peak: with weights stored or trivial, with weights that it
computes, and with candidates that stand for all nodes"""


def memory(case: Case) -> int:
    """Bytes at the peak besides embeddings and stored weights."""
    if case.stand_for_all:
        return BLOCKS_OF_A_SAMPLE * 4 * (case.anchors or case.nodes) * case.nodes
    return (BLOCKS_WITH_WEIGHTS if case.computes_weights else BLOCKS) * 4 * BLOCK * case.nodes


def some_anchors(
    u: Tensor, v: Tensor, problem: Problem, precision: str = "float32", block: int = BLOCK
) -> tuple[Tensor, Tensor]:
    """Loss and gradient of the problem."""
    total = u.new_zeros(())
    gradient = u.new_zeros(2, *u.shape)
    anchors = problem.rows
    for rows in anchors.split(block):
        linear = problem.weights.linear(rows, problem.candidates)
        for view, other, grads in ((u, v, (gradient[0], gradient[1])), (v, u, (gradient[1], gradient[0]))):
            loss = _in_linear_space(_Anchors.of(rows, view, other, problem, precision), linear, grads)
            if loss is None:
                loss = _in_log_space(rows, view, other, problem, grads)
            total += loss
    scale = 1 / (2 * anchors.numel())
    return total * scale, gradient.mul_(scale)


class _Anchors(NamedTuple):
    """Some anchors in one view, and the candidates that they are compared with."""

    rows: Tensor
    mine: Tensor
    """embeddings of the anchors [B, d]"""
    scaled: Tensor
    """the same by τ"""
    counterparts: Tensor
    """the anchors in the other view [B, d]"""
    same_view: Tensor
    """candidates in the anchors' view [C, d]"""
    other_view: Tensor
    """candidates in the other view [C, d]"""
    problem: Problem
    precision: str

    @staticmethod
    def of(rows: Tensor, view: Tensor, other: Tensor, problem: Problem, precision: str) -> _Anchors:
        mine, columns = view[rows], problem.columns
        same_view, other_view = (view, other) if columns is None else (view[columns], other[columns])
        return _Anchors(rows, mine, mine / problem.tau, other[rows], same_view, other_view, problem, precision)


class _Pairs(NamedTuple):
    """A number for every anchor with every candidate: a score, an exponential, or a gradient in the score."""

    inter: Tensor
    """with the candidate in the other view [B, C]"""
    intra: Tensor | None
    """with the candidate in the anchor's view [B, C]; None where it is not compared with them"""
    own: Tensor
    """with the anchor's counterpart [B]"""


class _Sums(NamedTuple):
    """Σ of weighted exponentials over all candidates of an anchor [B], shifted as the exponentials are."""

    numerator: Tensor | None
    """None for "mean" pooling, whose numerator is no such sum"""
    log_numerator: Tensor
    denominator: Tensor

    @property
    def smallest(self) -> Tensor:
        return (self.denominator if self.numerator is None else torch.minimum(self.numerator, self.denominator)).amin()


def _in_linear_space(anchors: _Anchors, weights: LinearWeights, grads: tuple[Tensor, Tensor]) -> Tensor | None:
    """The summed loss of the anchors and its gradient, added to ``grads``; None if a sum is too small to trust."""
    scores = _scores(anchors)
    pooled = _MeanPositives(scores, weights) if anchors.problem.pooling == "mean" else None
    shift, exponentials = _exponentials_in_place(scores, anchors)
    both = exponentials.inter.clone() if exponentials.intra is None else exponentials.inter + exponentials.intra
    sums = _sums(exponentials, both, weights, None if pooled is None else pooled.log_numerator - shift)
    if not sums.smallest > SAFE_SUM:
        return None
    if pooled is None:
        gradients = _gradients_in_place(exponentials, sums, weights, scratch=both)
    else:
        gradients = _pooled_gradients_in_place(exponentials, sums, weights, pooled, scratch=both)
    _add_to_embeddings(gradients, anchors, grads)
    return (sums.denominator.log() - sums.log_numerator).sum()


def _scores(anchors: _Anchors) -> _Pairs:
    inter = product(anchors.scaled, anchors.other_view.T, anchors.precision)
    intra = product(anchors.scaled, anchors.same_view.T, anchors.precision) if anchors.problem.both_views else None
    return _Pairs(inter, intra, (anchors.scaled * anchors.counterparts).sum(dim=1))


def _exponentials_in_place(scores: _Pairs, anchors: _Anchors) -> tuple[Tensor, _Pairs]:
    """The largest score of every anchor, and e^(score − largest) where the scores were; zero for a node with itself."""
    shift = torch.maximum(scores.inter.amax(dim=1), scores.own)
    if scores.intra is not None:
        shift = torch.maximum(shift, scores.intra.amax(dim=1))
    for block in (scores.inter,) if scores.intra is None else (scores.inter, scores.intra):
        block.sub_(shift[:, None]).exp_()
        _clear_own_pairs(block, anchors.rows, anchors.problem.columns)
    return shift, scores._replace(own=scores.own.sub_(shift).exp_())


def _sums(exponentials: _Pairs, both: Tensor, weights: LinearWeights, pooled_log_numerator: Tensor | None) -> _Sums:
    """Numerators and denominators from the exponentials and their sum over ``both`` views, which is scratch afterwards."""
    own = exponentials.own
    denominator = own + (both.sum(dim=1) if weights.repel is None else (both * weights.repel).sum(dim=1))
    if pooled_log_numerator is not None:
        return _Sums(None, pooled_log_numerator, denominator)
    numerator = weights.own * own
    if weights.shares is not None:
        numerator = numerator + weights.mass * both.mul_(weights.shares).sum(dim=1)
    return _Sums(numerator, numerator.log(), denominator)


def _gradients_in_place(exponentials: _Pairs, sums: _Sums, weights: LinearWeights, scratch: Tensor) -> _Pairs:
    """q − p where the exponentials were: e · (w⁻/denominator − w⁺/numerator)."""
    assert sums.numerator is not None
    own = exponentials.own / sums.denominator
    own -= weights.own * exponentials.own / sums.numerator
    coefficient = _repulsion(sums, weights, scratch)
    if weights.shares is not None:
        attraction = (weights.mass / sums.numerator)[:, None]
        coefficient = torch.addcmul(coefficient, weights.shares, attraction, value=-1, out=scratch)
    intra = None if exponentials.intra is None else exponentials.intra.mul_(coefficient)
    return _Pairs(exponentials.inter.mul_(coefficient), intra, own)


def _pooled_gradients_in_place(
    exponentials: _Pairs, sums: _Sums, weights: LinearWeights, pooled: _MeanPositives, scratch: Tensor
) -> _Pairs:
    """The same for "mean" pooling: q where the exponentials were, then minus p."""
    own = exponentials.own / sums.denominator
    coefficient = _repulsion(sums, weights, scratch)
    inter = exponentials.inter.mul_(coefficient)
    intra = None if exponentials.intra is None else exponentials.intra.mul_(coefficient)
    own -= pooled.subtract_gradient(inter, intra)
    return _Pairs(inter, intra, own)


def _repulsion(sums: _Sums, weights: LinearWeights, scratch: Tensor) -> Tensor:
    """w⁻/denominator [B, C], or [B, 1] where w⁻ is 1."""
    inverse = (1 / sums.denominator)[:, None]
    return inverse if weights.repel is None else torch.mul(weights.repel, inverse, out=scratch)


def _add_to_embeddings(gradients: _Pairs, anchors: _Anchors, grads: tuple[Tensor, Tensor]) -> None:
    """From gradients in scores to gradients in embeddings, of the anchors' view and of the other."""
    tau, columns, precision = anchors.problem.tau, anchors.problem.columns, anchors.precision
    own = (gradients.own / tau)[:, None]
    of_other, of_same = gradients.inter, gradients.intra
    to_rows = product(of_other, anchors.other_view, precision)
    if of_same is not None:
        to_rows += product(of_same, anchors.same_view, precision)
    to_rows = to_rows.div_(tau) + own * anchors.counterparts
    grad_view, grad_other = grads
    grad_view.index_add_(0, anchors.rows, to_rows)
    grad_other.index_add_(0, anchors.rows, own * anchors.mine)
    for grad, gradient in ((grad_other, of_other), (grad_view, of_same)):
        if gradient is None:
            continue
        to_columns = product(gradient.T, anchors.scaled, precision)
        if columns is None:
            grad += to_columns
        else:
            grad.index_add_(0, columns, to_columns)


class _MeanPositives:
    """The numerator e^a + e^b of ``pooling="mean"``: a and b are the weighted means of a view's scores."""

    def __init__(self, scores: _Pairs, weights: LinearWeights) -> None:
        self.shares = weights.shares
        self.own_share = weights.own / (weights.own + weights.mass)
        inter_mean, intra_mean = self.own_share * scores.own, torch.full_like(scores.own, NONE)
        if self.shares is not None:
            inter_mean += (1 - self.own_share) * (self.shares * scores.inter).sum(dim=1)
            if scores.intra is not None:
                intra_mean = torch.where(weights.has_others, (self.shares * scores.intra).sum(dim=1), intra_mean)
        self.log_numerator = torch.logaddexp(inter_mean, intra_mean)
        self.inter_part = (inter_mean - self.log_numerator).exp()

    def subtract_gradient(self, inter: Tensor, intra: Tensor | None) -> Tensor:
        """Take ∂ log numerator / ∂ scores off both blocks, and return that of the own counterparts."""
        if self.shares is not None:
            inter.addcmul_(self.shares, (self.inter_part * (1 - self.own_share))[:, None], value=-1)
            if intra is not None:
                intra.addcmul_(self.shares, (1 - self.inter_part)[:, None], value=-1)
        return self.inter_part * self.own_share


def _in_log_space(rows: Tensor, view: Tensor, other: Tensor, problem: Problem, grads: tuple[Tensor, Tensor]) -> Tensor:
    """The same by the definition and its automatic gradient, for temperatures at which plain sums underflow."""
    with torch.enable_grad():
        view, other = view.detach().requires_grad_(), other.detach().requires_grad_()
        weights = problem.weights.block(rows, problem.candidates)
        loss = objective.anchor_losses(
            view, other, weights, problem.tau, problem.pooling, rows, problem.columns, both_views=problem.both_views
        ).sum()
        for grad, gradient in zip(grads, torch.autograd.grad(loss, (view, other)), strict=True):
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

"""Kinship's loss in blocks of anchors: memory grows with N·block, and blocks change nothing.

``fused/kinship.py`` computes the same on NVIDIA GPUs and writes nothing of size N×N; :func:`choose` says where.

With q the softmax of an anchor's scores, ∂ℓ/∂s_ij = q_ij − p_ij, so value and gradient come from one pass. The largest score is
taken off before the exponential: every sum is at least 1 at any temperature, and nothing asks the device for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from graphkin.errors import SettingError, check_choice, check_range
from graphkin.objectives.kernels.fused import needs as fused
from graphkin.objectives.kernels.gradient import with_gradient
from graphkin.objectives.kernels.precision import of_rows, operand, product
from graphkin.objectives.kernels.problem import Case
from graphkin.support.parallel import peers
from graphkin.support.products import products_in
from graphkin.weights import NONE

Shares = Callable[[Tensor], Tensor]
"""p of some rows over all nodes [B, N], in memory of its own"""
IMPLEMENTATIONS = ("blocked", "fused")
PAIRS = {"cpu": 2**19, "cuda": 2**24}
"""of nodes that are compared at a time: on a CPU, what stays in a core's cache"""
BLOCKS, BLOCKS_OF_BOTH_VIEWS, BLOCKS_OF_SHARES = 6, 10, 3
"""of anchors by candidates in float32 that a step holds at the peak: in blocks, with both views, and in the fused kernels"""
BLOCKS_OF_WEIGHTS, BLOCKS_OF_DROPS = 12, 10
"""those of weights that it computes, and of drops"""


@dataclass(frozen=True)
class Form:
    """Which form of the loss is computed, and how exactly."""

    tau: float = 0.4
    symmetric: bool = False
    both_views: bool = False
    precision: str = "float32"
    """of the products of embeddings"""
    implementation: str = "blocked"

    def __post_init__(self) -> None:
        check_range("tau", self.tau, above=0)
        check_choice("implementation", self.implementation, IMPLEMENTATIONS)


def choose(case: Case, asked: str, rows: int) -> tuple[str, str]:
    """Implementation and precision of steps that take so many rows of features.

    Fused is not for float32, which it would make of three TF32 products; with "auto" it multiplies in bf16.
    """
    precision = of_rows(asked, rows, case.device)
    if precision == "float32" or fused.why_no_kinship(case, asked=False) is not None:
        return "blocked", precision
    return "fused", "bf16" if asked == "auto" else precision


def block_of(nodes: int, device: torch.device) -> int:
    """Anchors that are compared with so many nodes at a time."""
    fewest = 64 if device.type == "cpu" else 1
    return min(max(PAIRS[device.type] // nodes, fewest), nodes)


def in_blocks(nodes: int, device: torch.device, block: int | None = None) -> Iterator[tuple[Tensor, slice]]:
    """This process's share of the nodes, so many at a time, and their places."""
    first, last = peers().bounds(nodes)
    for some in torch.arange(first, last, device=device).split(block or block_of(nodes, device)):
        yield some, slice(first, first + len(some))
        first += len(some)


def memory(
    nodes: int, device: torch.device, implementation: str, *, both_views: bool, computes_weights: bool, drops: bool
) -> int:
    """Bytes of a step at the peak, besides embeddings, their gradients and stored weights."""
    blocks = (BLOCKS_OF_WEIGHTS if computes_weights else 0) + (BLOCKS_OF_DROPS if drops else 0)
    if implementation == "fused":
        return (BLOCKS_OF_SHARES + blocks) * 4 * block_of(nodes, device) * nodes + fused.PARTS_BYTES
    return (blocks + (BLOCKS_OF_BOTH_VIEWS if both_views else BLOCKS)) * 4 * block_of(nodes, device) * nodes


def kinship_loss(u: Tensor, v: Tensor, shares: Shares | None, form: Form, block: int | None = None) -> Tensor:
    """``reference.kinship(u, v, shares(all nodes), tau, symmetric, both_views)`` of rows of unit length.

    Without ``shares`` the counterpart is the only positive of every node. Of several processes that train together each
    computes the part of its own anchors: the parts add up to the loss.
    """
    if form.implementation == "fused":
        case = Case(u.device, len(u), u.size(1), u.dtype, form.tau, both_views=form.both_views)
        reason = fused.why_no_kinship(case, asked=True)
        if reason is not None:
            raise SettingError(f"implementation 'fused' needs {reason}.")

    def compute() -> tuple[Tensor, Tensor]:
        with products_in(form.precision, u.device), torch.cuda.device_of(u):
            if form.implementation == "fused":
                from graphkin.objectives.kernels.fused.kinship import fused_loss_and_gradient

                return fused_loss_and_gradient(u.detach(), v.detach(), shares, form)
            return loss_and_gradient(u.detach(), v.detach(), shares, form, block)

    return with_gradient(compute, u, v)


def loss_and_gradient(
    u: Tensor, v: Tensor, shares: Shares | None, form: Form, block: int | None = None
) -> tuple[Tensor, Tensor]:
    total, gradient = u.new_zeros(()), u.new_zeros(2, *u.shape)
    u, v = operand(u, form.precision), operand(v, form.precision)
    sides = [(u, v, gradient[0], gradient[1]), (v, u, gradient[1], gradient[0])][: 2 if form.symmetric else 1]
    for nodes, rows in in_blocks(len(u), u.device, block):
        attracting = None if shares is None else shares(nodes)
        for view, other, grad_view, grad_other in sides:
            total += _some_anchors(rows, view, other, attracting, form, (grad_view, grad_other))
    scale = 1 / (len(u) * len(sides))
    return total * scale, gradient.mul_(scale)


def _some_anchors(
    rows: slice, view: Tensor, other: Tensor, shares: Tensor | None, form: Form, grads: tuple[Tensor, Tensor]
) -> Tensor:
    """The summed loss of the anchors, whose gradient is added to ``grads``."""
    scaled = view[rows] / form.tau
    candidates, grads_of = ([other, view], [grads[1], grads[0]]) if form.both_views else ([other], [grads[1]])
    scores = [product(scaled, there.T, form.precision) for there in candidates]
    positives = _of_views(rows.start, shares, len(scores))
    own = scores[0].diagonal(rows.start)
    attracted = own.clone() if shares is None else torch.zeros_like(own)
    for block, p in zip(scores, positives, strict=True):
        if p is not None:
            attracted += (p * block).sum(dim=1)
    if form.both_views:
        scores[1].diagonal(rows.start).fill_(NONE)
    largest = torch.stack([block.amax(dim=1) for block in scores]).amax(dim=0)
    total = torch.stack([block.sub_(largest[:, None]).exp_().sum(dim=1) for block in scores]).sum(dim=0)
    for block, p in zip(scores, positives, strict=True):
        block.div_(total[:, None])
        if p is not None:
            block.sub_(p)
    if shares is None:
        own.sub_(1)
    for score, there, grad in zip(scores, candidates, grads_of, strict=True):
        block = operand(score, form.precision)
        grads[0][rows] += product(block, there, form.precision) / form.tau
        grad += product(block.T, scaled, form.precision)
    return (largest + total.log() - attracted).sum()


def _of_views(first: int, shares: Tensor | None, views: int) -> list[Tensor | None]:
    """p over the candidates of each view: other nodes have half of theirs in each, the counterpart is in the other view."""
    if shares is None or views == 1:
        return [shares] * views
    half = shares / 2
    half.diagonal(first).zero_()
    return [shares - half, half]

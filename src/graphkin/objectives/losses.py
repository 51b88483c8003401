"""The objectives as modules, for anyone's training loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import GraphError, check_choice, check_flag, check_range, check_whole
from graphkin.objectives.kernels import IMPLEMENTATIONS, Problem, choose, loss_by
from graphkin.objectives.kernels.precision import PRECISIONS, resolved
from graphkin.similarity import as_similarity
from graphkin.support.parallel import peers
from graphkin.support.randomness import generator
from graphkin.weights import AllAlike, Attract, Candidates, NodeWeights, OwnOnly, Repel


class Contrasted(NamedTuple):
    loss: Tensor
    kernel: str | None
    """implementation and precision that were taken; None where this process had no anchors"""


def contrast(u: Tensor, v: Tensor, problem: Problem, implementation: str = "auto", precision: str = "float32") -> Contrasted:
    """The problem's loss of rows of any length, computed in the precision of its weights.

    Of several processes that train together (``support/parallel.py``) each computes the part of its own anchors: the parts add
    up to the loss.
    """
    with torch.autocast(u.device.type, enabled=False):
        u, v = (F.normalize(rows.to(problem.weights.dtype), dim=1) for rows in (u, v))
        share = 1.0
        if peers().size > 1:
            of_all = problem.rows
            problem = problem.sampled(peers().share(of_all), problem.candidates)
            share = len(problem.rows) / len(of_all)
            if share == 0:
                return Contrasted((u.sum() + v.sum()) * 0, None)
        case = problem.case(u)
        chosen = choose(case, implementation, precision)
        precision = resolved(precision, chosen, case)
        loss = loss_by(chosen, precision, u, v, problem)
        return Contrasted(loss if share == 1 else loss * share, f"{chosen} {precision}")


class TwoViewLoss(nn.Module):
    """The contrast of two views under given weights, called as ``loss(u, v)`` with rows of any length.

    ``anchors``, ``positives`` and ``negatives`` are numbers of nodes to draw in each call (None: all nodes): the anchors, V_M
    and V_N. They are drawn from a generator of the module's own, seeded with ``seed``.

    ``implementation`` and ``precision`` are those of ``kernels.two_view_loss``; ``kernel`` tells after a call
    which were taken. Without ``both_views`` an anchor is compared with the nodes of the other view alone.

    ``to(device)``, ``cuda()`` and ``cpu()`` move the weights; draws then start anew from ``seed``. The precision of weights is
    that of the similarity, whatever ``to`` and ``double()`` say.
    """

    def __init__(
        self,
        weights: NodeWeights,
        tau: float,
        pooling: str = "sum",
        *,
        anchors: int | None = None,
        positives: int | None = None,
        negatives: int | None = None,
        seed: int = 0,
        implementation: str = "auto",
        precision: str = "float32",
        both_views: bool = True,
    ) -> None:
        super().__init__()
        check_flag("both_views", both_views)
        check_choice("implementation", implementation, IMPLEMENTATIONS)
        check_choice("precision", precision, PRECISIONS)
        for name, size in (("anchors", anchors), ("positives", positives), ("negatives", negatives)):
            if size is not None:
                check_whole(name, size, at_least=1)
        self.problem = Problem(weights, tau, pooling, both_views=both_views)
        self.anchors, self.positives, self.negatives = anchors, positives, negatives
        self.implementation, self.precision = implementation, precision
        self.kernel: str | None = None
        self.seed = seed
        self.generator = generator(seed, "sampling", weights.device)

    @property
    def weights(self) -> NodeWeights:
        return self.problem.weights

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        nodes, device = self.weights.num_nodes, self.weights.device
        _check_views(u, v, nodes, device)
        anchors = None
        if self.anchors is not None and self.anchors < nodes:
            order = torch.randperm(nodes, generator=self.generator, device=device)
            anchors = order[: self.anchors].sort().values
        candidates = None
        if self.positives is not None or self.negatives is not None:
            candidates = Candidates.draw(nodes, self.positives, self.negatives, self.generator)
        everything = anchors is None and candidates is None
        return self.contrast(u, v, self.problem if everything else self.problem.sampled(anchors, candidates))

    def contrast(self, u: Tensor, v: Tensor, problem: Problem) -> Tensor:
        """The loss of another problem, as this module computes its own."""
        loss, kernel = contrast(u, v, problem, self.implementation, self.precision)
        self.kernel = kernel or self.kernel
        return loss

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What ``to``, ``cuda`` and ``cpu`` call to move a module's tensors."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        here = torch.empty(0, device=self.weights.device)
        there = fn(here).device
        if there != here.device:
            self.problem = replace(self.problem, weights=self.weights.to(there))
            self.generator = generator(self.seed, "sampling", there)
        return self


class EnhancedInfoNCE(TwoViewLoss):
    """Similar nodes attract and dissimilar nodes repel, by how similar they are.

    ``similarity`` is one of graphkin's (``graphkin.Similarity(beta=0.7).on(data)``), an N×N matrix (dense or sparse, NumPy,
    SciPy or PyTorch), or a function from node indices [B] to similarities [B, N], which also needs ``num_nodes``. A tensor is
    used on its own device, anything else on ``device``.

    Positives are weighted at temperature ``tau_pos``, or so that ``effective_positives`` of them are in effect; negatives at
    ``tau_neg``, or so that a share ``effective_negatives`` of them is. Without any of them: 10 positives, 90 % of negatives.

    >>> loss = EnhancedInfoNCE(torch.eye(3), tau=0.5, tau_pos=1.0, tau_neg=1.0)
    >>> u = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> f"{loss(u, u):.4f}"
    '-0.7758'
    """

    def __init__(
        self,
        similarity: Any,
        tau: float = 0.4,
        tau_pos: float | None = None,
        tau_neg: float | None = None,
        pooling: str = "sum",
        *,
        effective_positives: float | None = None,
        effective_negatives: float | None = None,
        num_nodes: int | None = None,
        device: torch.device | str = "cpu",
        stored: bool = True,
        **sampling: Any,
    ) -> None:
        check_flag("stored", stored)
        measure = as_similarity(similarity, num_nodes, device)
        attract = Attract() if tau_pos is effective_positives is None else Attract(tau_pos, effective_positives)
        repel = Repel() if tau_neg is effective_negatives is None else Repel(tau_neg, effective_negatives)
        weights = NodeWeights(attract.weights(measure), repel.weights(measure), measure.num_nodes, measure.device)
        super().__init__(weights.stored() if stored else weights, tau, pooling, **sampling)


class InfoNCE(nn.Module):
    """The base objective: a node's counterpart attracts, all other nodes repel alike."""

    def __init__(self, tau: float = 0.4, *, precision: str = "float32") -> None:
        super().__init__()
        check_range("tau", tau, above=0)
        check_choice("precision", precision, PRECISIONS)
        self.tau, self.precision = tau, precision
        self._problem: Problem | None = None

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        _check_views(u, v)
        return contrast(u, v, self._problem_like(u), precision=self.precision).loss

    def _problem_like(self, u: Tensor) -> Problem:
        """The one of the last call, while embeddings keep their number, type and device."""
        if self._problem is None or not _fits(self._problem.weights, u):
            weights = NodeWeights(OwnOnly(u.dtype), AllAlike(u.dtype), len(u), u.device)
            self._problem = Problem(weights, self.tau)
        return self._problem


def _fits(weights: NodeWeights, u: Tensor) -> bool:
    return (weights.num_nodes, weights.dtype, weights.device) == (len(u), u.dtype, u.device)


def _check_views(u: Tensor, v: Tensor, nodes: int | None = None, device: torch.device | str | None = None) -> None:
    """Refuse anything but two matrices of one row a node, of as many nodes and on the device that are given."""
    if not isinstance(u, Tensor) or not isinstance(v, Tensor):
        raise GraphError(f"both views must be tensors, found {type(u).__name__} and {type(v).__name__}.")
    if u.is_nested or v.is_nested:
        raise GraphError("both views must be plain tensors, found a nested one.")
    nodes = (len(u) if u.dim() else 1) if nodes is None else nodes
    if u.shape != v.shape or u.dim() != 2 or len(u) != nodes:
        raise GraphError(
            f"both views must have shape [{nodes}, d], one row per node, found {tuple(u.shape)} and {tuple(v.shape)}."
        )
    if device is not None and u.device != torch.device(device):
        raise GraphError(
            f"the views and the similarity must be on one device, found {u.device} and {device}; "
            "move the loss with loss.to(device), or compute a similarity there with Similarity(...).on(data, device=...)."
        )

"""The objectives as modules, for anyone's training loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import GraphError, check_choice, check_flag, check_range, check_whole
from graphkin.methods.method import Attract, Repel
from graphkin.objectives.kernels import IMPLEMENTATIONS, choose, two_view_loss
from graphkin.objectives.kernels.precision import PRECISIONS, resolved
from graphkin.objectives.reference import POOLINGS
from graphkin.similarity import as_similarity
from graphkin.support.parallel import peers
from graphkin.support.randomness import generator
from graphkin.weights.node import AllAlike, Candidates, NodeWeights, OwnOnly


class TwoViewLoss(nn.Module):
    """The contrast of two views under given weights, called as ``loss(u, v)`` with rows of any length.

    ``anchors``, ``positives`` and ``negatives`` are numbers of nodes to draw in each call (None: all nodes): the anchors, V_M
    and V_N. They are drawn from a generator of the module's own, seeded with ``seed``.

    ``implementation`` and ``precision`` are those of ``kernels.two_view_loss``; ``kernel`` tells after a call
    which were taken.

    Of several processes that train together (``support/parallel.py``) each computes the part of its own anchors: the parts add
    up to the loss.
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
    ) -> None:
        super().__init__()
        check_range("tau", tau, above=0)
        check_choice("implementation", implementation, IMPLEMENTATIONS)
        check_choice("precision", precision, PRECISIONS)
        check_choice("pooling", pooling, POOLINGS)
        for name, size in (("anchors", anchors), ("positives", positives), ("negatives", negatives)):
            if size is not None:
                check_whole(name, size, at_least=1)
        self.weights, self.tau, self.pooling = weights, tau, pooling
        self.anchors, self.positives, self.negatives = anchors, positives, negatives
        self.implementation, self.precision = implementation, precision
        self.kernel: str | None = None
        self.generator = generator(seed, "sampling", weights.device)
        self.dtype = weights.block(weights.all_nodes()[:1]).own.dtype

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        nodes = self.weights.num_nodes
        if not isinstance(u, Tensor) or not isinstance(v, Tensor):
            raise GraphError(f"both views must be tensors, found {type(u).__name__} and {type(v).__name__}.")
        if u.is_nested or v.is_nested:
            raise GraphError("both views must be plain tensors, found a nested one.")
        if u.shape != v.shape or u.dim() != 2 or len(u) != nodes:
            raise GraphError(
                f"both views must have shape [{nodes}, d], one row a node, found {tuple(u.shape)} and {tuple(v.shape)}."
            )
        if u.device != torch.device(self.weights.device):
            raise GraphError(
                f"the views and the similarity must be on one device, found {u.device} and {self.weights.device}; "
                "Similarity(...).on(data, device=...) says where a similarity is computed."
            )
        anchors = None
        if self.anchors is not None and self.anchors < nodes:
            order = torch.randperm(nodes, generator=self.generator, device=self.weights.device)
            anchors = order[: self.anchors].sort().values
        candidates = None
        if self.positives is not None or self.negatives is not None:
            candidates = Candidates.draw(nodes, self.positives, self.negatives, self.generator)
        return self.contrast(u, v, self.weights, anchors, candidates)

    def contrast(
        self, u: Tensor, v: Tensor, weights: NodeWeights, anchors: Tensor | None, candidates: Candidates | None
    ) -> Tensor:
        with torch.autocast(u.device.type, enabled=False):
            u, v = (F.normalize(rows.to(self.dtype), dim=1) for rows in (u, v))
            share = 1.0
            if peers().size > 1:
                of_all = weights.all_nodes() if anchors is None else anchors
                anchors = peers().share(of_all)
                share = len(anchors) / len(of_all)
                if share == 0:
                    return (u.sum() + v.sum()) * 0
            sets = (self.pooling, anchors, candidates)
            chosen = choose(u, weights, self.tau, *sets, self.implementation)
            precision = resolved(self.precision, chosen, u)
            self.kernel = f"{chosen} {precision}"
            loss = two_view_loss(u, v, weights, self.tau, *sets, chosen, precision)
            return loss if share == 1 else loss * share


class EnhancedInfoNCE(TwoViewLoss):
    """Similar nodes attract and dissimilar nodes repel, by how similar they are.

    ``similarity`` is one of graphkin's (``graphkin.Similarity(beta=0.7).on(data)``), an N×N matrix (dense or sparse, NumPy,
    SciPy or PyTorch), or a function from node indices [B] to similarities [B, N], which also needs ``num_nodes``. A tensor is
    used where it lies, anything else on ``device``.

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

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        weights = NodeWeights(OwnOnly(u.dtype), AllAlike(u.dtype), len(u), u.device)
        loss: Tensor = TwoViewLoss(weights, self.tau, precision=self.precision)(u, v)
        return loss

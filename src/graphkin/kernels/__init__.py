"""One function, the weighted two-view contrast, and the forms it is computed in.

"reference" is the definition in :mod:`graphkin.objective`; "blocked" streams blocks of anchors; "symmetric" needs all nodes as
anchors and stored weights, and halves the work. They agree in value and gradient; "auto" takes the fastest that applies.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphkin import objective
from graphkin.errors import SettingError, check_choice, check_range
from graphkin.kernels.blocked import LossAndGradient, some_anchors
from graphkin.kernels.symmetric import all_anchors
from graphkin.weights import Candidates, NodeWeights, StoredWeights

IMPLEMENTATIONS = ("auto", "reference", "blocked", "symmetric")


def two_view_loss(
    u: Tensor,
    v: Tensor,
    weights: NodeWeights,
    tau: float,
    pooling: str = "sum",
    anchors: Tensor | None = None,
    candidates: Candidates | None = None,
    implementation: str = "auto",
) -> Tensor:
    """``objective.enhanced`` of rows of unit length, for all nodes or sampled anchors and candidates."""
    check_range("tau", tau, above=0)
    check_choice("pooling", pooling, objective.POOLINGS)
    check_choice("implementation", implementation, IMPLEMENTATIONS)
    if implementation == "reference":
        columns = None if candidates is None else candidates.columns
        return objective.enhanced(u, v, weights.block(anchors, candidates), tau, pooling, anchors, columns)
    loss: Tensor = _TwoViewLoss.apply(  # type: ignore[no-untyped-call]
        u, v, weights, tau, pooling, anchors, candidates, implementation
    )
    return loss


class _TwoViewLoss(torch.autograd.Function):
    """The kernels return the gradient with the value, so that backward only scales it."""

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        v: Tensor,
        weights: NodeWeights,
        tau: float,
        pooling: str,
        anchors: Tensor | None,
        candidates: Candidates | None,
        implementation: str,
    ) -> Tensor:
        whole = weights.matrices if isinstance(weights, StoredWeights) else None
        applies = whole is not None and pooling == "sum" and anchors is None and candidates is None
        if implementation == "symmetric" and not applies:
            raise SettingError("implementation 'symmetric' needs stored weights, 'sum' pooling and no sampling.")
        result: LossAndGradient | None = None
        if whole is not None and applies and implementation != "blocked":
            result = all_anchors(u, v, whole, tau)
        if result is None:
            rows = weights.all_nodes() if anchors is None else anchors
            result = some_anchors(u, v, weights, tau, pooling, rows, candidates)
        ctx.save_for_backward(result.grad_u, result.grad_v)
        return result.loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_u, grad_v = ctx.saved_tensors
        return grads[0] * grad_u, grads[0] * grad_v, None, None, None, None, None, None

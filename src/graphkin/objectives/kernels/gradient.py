"""A loss whose kernel returns the gradient with the value, so that backward only scales it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.function import Function, once_differentiable


def with_gradient(compute: Callable[[], tuple[Tensor, Tensor]], *views: Tensor) -> Tensor:
    """The loss that ``compute`` gives, with the gradient that it gives for each of ``views``, stacked."""
    loss: Tensor = _WithGradient.apply(compute, *views)  # type: ignore[no-untyped-call]
    return loss


class _WithGradient(Function):
    @staticmethod
    def forward(ctx: Any, compute: Callable[[], tuple[Tensor, Tensor]], *views: Tensor) -> Tensor:
        loss, gradient = compute()
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return None, *(part * grads[0] for part in gradient)

"""One function, the weighted log-sum-exp over candidates in one or two views, and the forms it is computed in.

"reference" is the definition (``reference.py``); "blocked" streams blocks of anchors on any device; "symmetric" needs
all nodes as anchors and stored weights, and halves the work; "fused" is for NVIDIA GPUs and writes nothing of size N×N. They
agree in value and gradient; "auto" takes fused where it applies, then symmetric, then blocked.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphkin.errors import SettingError, check_choice, check_range
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels.blocked import some_anchors
from graphkin.objectives.kernels.pooled import mean_positives
from graphkin.objectives.kernels.precision import PRECISIONS, products_in, resolved
from graphkin.objectives.kernels.symmetric import all_anchors
from graphkin.weights.node import Candidates, NodeWeights, StoredWeights

TRUSTED_TAU = 0.1
"""e^{−2/τ} is above 1e-9 from here on, and no sum of weights that is not zero can bring a float32 near its end"""
NO_TRITON = "the package triton with tensor descriptors (3.4 or newer), which comes with PyTorch for NVIDIA GPUs"
IMPLEMENTATIONS = ("auto", "reference", "blocked", "symmetric", "fused")


def two_view_loss(
    u: Tensor,
    v: Tensor,
    weights: NodeWeights,
    tau: float,
    pooling: str = "sum",
    anchors: Tensor | None = None,
    candidates: Candidates | None = None,
    implementation: str = "auto",
    precision: str = "float32",
) -> Tensor:
    """``objective.enhanced`` of rows of unit length, for all nodes or sampled anchors and candidates.

    ``precision`` is that of the products of embeddings: "float32", "tf32" (NVIDIA GPUs) or "bf16"; "auto" is bf16 for the fused
    kernels on larger graphs and float32 otherwise.
    """
    check_range("tau", tau, above=0)
    check_choice("pooling", pooling, objective.POOLINGS)
    check_choice("precision", precision, PRECISIONS)
    implementation = choose(u, weights, tau, pooling, anchors, candidates, implementation)
    precision = resolved(precision, implementation, u)
    if implementation == "reference":
        columns = None if candidates is None else candidates.columns
        return objective.enhanced(u, v, weights.block(anchors, candidates), tau, pooling, anchors, columns)

    def compute() -> tuple[Tensor, Tensor]:
        with products_in(precision, u.device), torch.cuda.device_of(u):
            return _computed(u.detach(), v.detach(), weights, tau, pooling, anchors, candidates, implementation, precision)

    loss: Tensor = _WithGradient.apply(compute, u, v)  # type: ignore[no-untyped-call]
    return loss


def choose(
    u: Tensor,
    weights: NodeWeights,
    tau: float,
    pooling: str = "sum",
    anchors: Tensor | None = None,
    candidates: Candidates | None = None,
    implementation: str = "auto",
) -> str:
    """The name of the form that :func:`two_view_loss` computes with."""
    check_choice("implementation", implementation, IMPLEMENTATIONS)
    if implementation in ("auto", "fused"):
        reason = _why_not_fused(u, weights, tau, candidates, interpreted=implementation == "fused")
        if reason is None:
            return "fused"
        if implementation == "fused":
            raise SettingError(f"implementation 'fused' needs {reason}.")
    if implementation in ("auto", "symmetric"):
        stored = isinstance(weights, StoredWeights)
        if stored and pooling == "sum" and anchors is None and candidates is None:
            return "symmetric"
        if implementation == "symmetric":
            raise SettingError("implementation 'symmetric' needs stored weights, 'sum' pooling and no sampling.")
    return "blocked" if implementation == "auto" else implementation


@functools.cache
def _has_triton() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("triton", "triton.tools.tensor_descriptor"))


def why_no_fused_kernels(device: torch.device) -> str | None:
    """What this device lacks for the fused kernels."""
    if device.type != "cuda":
        return f"embeddings on an NVIDIA GPU, found {device}"
    if torch.cuda.get_device_capability(device)[0] not in (9, 10):
        return "a GPU of compute capability 9 or 10 (Hopper or data-centre Blackwell: 227 KB of shared memory)"
    return None if _has_triton() else NO_TRITON


def _why_not_fused(
    u: Tensor, weights: NodeWeights, tau: float, candidates: Candidates | None, *, interpreted: bool
) -> str | None:
    """What is missing for the fused kernels; ``interpreted`` takes Triton's interpreter, which is for tests, for a device."""
    on_cpu = not u.is_cuda and interpreted and os.environ.get("TRITON_INTERPRET") == "1"
    missing = (None if _has_triton() else NO_TRITON) if on_cpu else why_no_fused_kernels(u.device)
    if missing is not None:
        return missing
    from graphkin.objectives.kernels.fused import SMALLEST_TAU, WIDEST

    if tau < SMALLEST_TAU:
        return f"tau of at least {SMALLEST_TAU}, found {tau}"
    if u.size(1) > WIDEST:
        return f"embeddings of at most {WIDEST} dimensions, found {u.size(1)}"
    if u.dtype == torch.float64:
        return "embeddings in float32, found float64"
    if candidates is not None:
        return "all nodes as candidates"
    if weights.functions is None:
        return "weights from one symmetric similarity"
    return None


def one_view_loss(z: Tensor, weights: NodeWeights, nodes: Tensor, tau: float, implementation: str = "auto") -> Tensor:
    """``objective.neighbourhood`` of rows of unit length that are ``nodes`` (in increasing order), among themselves."""
    check_range("tau", tau, above=0)
    check_choice("implementation", implementation, ("auto", "reference", "symmetric"))
    candidates = Candidates(nodes)

    def compute() -> tuple[Tensor, Tensor]:
        found = all_anchors(z.detach()[None], weights.linear(nodes, candidates), tau, trusted=tau >= TRUSTED_TAU)
        return found or _by_the_definition(z, weights, nodes, tau)

    if implementation == "reference":
        return objective.neighbourhood(z, weights.block(nodes, candidates), tau)
    loss: Tensor = _WithGradient.apply(compute, z)  # type: ignore[no-untyped-call]
    return loss


def _by_the_definition(z: Tensor, weights: NodeWeights, nodes: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        loss = objective.neighbourhood(z, weights.block(nodes, Candidates(nodes)), tau)
        (gradient,) = torch.autograd.grad(loss, z)
    return loss.detach(), gradient[None]


class _WithGradient(torch.autograd.Function):
    """A loss whose kernel returns the gradient with the value, so that backward only scales it."""

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


def _computed(
    u: Tensor,
    v: Tensor,
    weights: NodeWeights,
    tau: float,
    pooling: str,
    anchors: Tensor | None,
    candidates: Candidates | None,
    implementation: str,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """The loss and its gradient in both views."""
    if implementation == "fused":
        from graphkin.objectives.kernels.fused import all_candidates

        assert weights.functions is not None
        pooled = pooling == "mean" and weights.functions.attract
        positives = mean_positives(torch.stack([u, v]), weights, tau, anchors) if pooled else None
        return all_candidates(u, v, weights.functions, tau, anchors, precision, positives)
    if implementation == "symmetric":
        assert isinstance(weights, StoredWeights) and weights.matrices is not None
        result = all_anchors(torch.stack([u, v]), weights.matrices, tau, precision)
        if result is not None:
            return result
    rows = weights.all_nodes() if anchors is None else anchors
    return some_anchors(u, v, weights, tau, pooling, rows, candidates, precision)

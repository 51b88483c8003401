"""One function, the weighted log-sum-exp over candidates in one or two views, and the forms it is computed in.

"reference" is the definition (``objectives/reference.py``); "blocked" streams blocks of anchors on any device; "symmetric"
needs all nodes as anchors and stored weights, and halves the work; "fused" is for NVIDIA GPUs and writes nothing of size N×N.
They agree in value and gradient; "auto" takes fused where it applies and repays its compilation, then symmetric, then blocked.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphkin.errors import SettingError, check_choice, check_range
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels import blocked, symmetric
from graphkin.objectives.kernels.fused import needs as fused
from graphkin.objectives.kernels.gradient import with_gradient
from graphkin.objectives.kernels.precision import PRECISIONS, resolved
from graphkin.objectives.kernels.problem import Case, Problem
from graphkin.support.products import products_in
from graphkin.weights import Candidates, NodeWeights, StoredWeights

TRUSTED_TAU = 0.1
"""e^{−2/τ} is above 1e-9 from here on, and no sum of weights that is not zero can bring a float32 near its end"""
IMPLEMENTATIONS = ("auto", "reference", "blocked", "symmetric", "fused")
REFERENCE_BYTES_A_PAIR = 64
"""of the definition with its automatic gradient, measured"""


def two_view_loss(u: Tensor, v: Tensor, problem: Problem, implementation: str = "auto", precision: str = "float32") -> Tensor:
    """``objective.enhanced`` of rows of unit length, for all nodes or sampled anchors and candidates.

    ``precision`` is that of the products of embeddings: "float32", "tf32" (NVIDIA GPUs) or "bf16"; "auto" is bf16 for the fused
    kernels on larger graphs and float32 otherwise.
    """
    check_choice("precision", precision, PRECISIONS)
    case = problem.case(u)
    chosen = choose(case, implementation, precision)
    return loss_by(chosen, resolved(precision, chosen, case), u, v, problem)


def choose(case: Case, implementation: str = "auto", precision: str = "auto") -> str:
    """The name of the form that :func:`two_view_loss` computes with."""
    check_choice("implementation", implementation, IMPLEMENTATIONS)
    if implementation in ("auto", "fused"):
        reason = fused.why_not(case, resolved(precision, "fused", case), asked=implementation == "fused")
        if reason is None:
            return "fused"
        if implementation == "fused":
            raise SettingError(f"implementation 'fused' needs {reason}.")
    if implementation in ("auto", "symmetric"):
        if case.stored and case.pooling == "sum" and case.anchors is None and not case.own_candidates and case.both_views:
            return "symmetric"
        if implementation == "symmetric":
            raise SettingError("implementation 'symmetric' needs stored weights, 'sum' pooling, both views and no sampling.")
    return "blocked" if implementation == "auto" else implementation


def memory_needed(case: Case, implementation: str) -> int:
    """Bytes of a step of that form at the peak, besides embeddings and weights that are stored."""
    if implementation == "reference":
        return REFERENCE_BYTES_A_PAIR * (case.anchors or case.nodes) * case.nodes
    memory = {"blocked": blocked.memory, "symmetric": symmetric.memory, "fused": fused.memory}[implementation]
    return memory(case)


def loss_by(implementation: str, precision: str, u: Tensor, v: Tensor, problem: Problem) -> Tensor:
    """:func:`two_view_loss` in the form and precision that were chosen before."""
    if implementation == "reference":
        weights = problem.weights.block(problem.anchors, problem.candidates)
        return objective.enhanced(
            u, v, weights, problem.tau, problem.pooling, problem.anchors, problem.columns, both_views=problem.both_views
        )

    def compute() -> tuple[Tensor, Tensor]:
        with products_in(precision, u.device), torch.cuda.device_of(u):
            return _loss_and_gradient(implementation, precision, u.detach(), v.detach(), problem)

    return with_gradient(compute, u, v)


def _loss_and_gradient(implementation: str, precision: str, u: Tensor, v: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    if implementation == "fused":
        from graphkin.objectives.kernels.fused.loss import all_candidates

        return all_candidates(u, v, problem, precision)
    if implementation == "symmetric":
        assert isinstance(problem.weights, StoredWeights)
        result = symmetric.all_anchors(torch.stack([u, v]), problem.weights.matrices, problem.tau, precision)
        if result is not None:
            return result
    return blocked.some_anchors(u, v, problem, precision)


def one_view_loss(z: Tensor, weights: NodeWeights, nodes: Tensor, tau: float, implementation: str = "auto") -> Tensor:
    """``objective.neighbourhood`` of rows of unit length that are ``nodes`` (in increasing order), among themselves."""
    check_range("tau", tau, above=0)
    check_choice("implementation", implementation, ("auto", "reference", "symmetric"))
    candidates = Candidates(nodes)
    if implementation == "reference":
        return objective.neighbourhood(z, weights.block(nodes, candidates), tau)

    def compute() -> tuple[Tensor, Tensor]:
        linear = weights.linear(nodes, candidates)
        found = symmetric.all_anchors(z.detach()[None], linear, tau, trusted=tau >= TRUSTED_TAU)
        return found or _by_the_definition(z, weights, nodes, tau)

    return with_gradient(compute, z)


def _by_the_definition(z: Tensor, weights: NodeWeights, nodes: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        loss = objective.neighbourhood(z, weights.block(nodes, Candidates(nodes)), tau)
        (gradient,) = torch.autograd.grad(loss, z)
    return loss.detach(), gradient[None]

r"""Many logistic regressions at once, by Newton's method.

One class against the rest, with y = 1 for the class and −1 for the others, and the bias b as the weight of a constant feature:

.. math::
    \min_{w, b} \tfrac{1}{2} (‖w‖² + b²) + C \sum_i \log(1 + e^{-y_i f_i}) \qquad f_i = w·x_i + b
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

MEMORY = 2**29
"""bytes for the problems that are solved together"""
NEGLIGIBLE = 1e-13
"""A direction in which the rows have at most this share of their largest squared length moves no decision."""


def logistic_regressions(
    rows: Tensor, targets: Tensor, strengths: tuple[float, ...], *, tolerance: float = 1e-6, iterations: int = 100
) -> Tensor:
    """(w, b) [strengths, problems, d + 1] of every strength and every row of ``targets`` [problems, n], true or false.

    Newton's method on all of them together. The penalty makes the objective strongly convex, so that a gradient of at most
    ``tolerance`` times the weights bounds the relative error of the weights by ``tolerance``. The rows are rotated to their
    principal axes, which changes no solution: there the Hessian is close to diagonal, and conjugate gradients are short.
    """
    rows = with_ones(rows.double())
    spectrum, basis = _principal_axes(rows)
    rows = rows @ basis
    signs = 2 * targets.double() - 1
    problems = len(strengths) * len(targets)
    every_strength = torch.tensor(strengths, dtype=rows.dtype, device=rows.device).repeat_interleave(len(targets))
    which = torch.arange(len(targets), device=rows.device).repeat(len(strengths))
    together = max(1, MEMORY // (8 * 10 * sum(rows.shape)))
    solved = [
        _newton(rows, spectrum, signs[which[chunk]], every_strength[chunk], tolerance, iterations) @ basis.T
        for chunk in torch.arange(problems, device=rows.device).split(together)
    ]
    return torch.cat(solved).view(len(strengths), len(targets), -1)


def _newton(rows: Tensor, spectrum: Tensor, signs: Tensor, strengths: Tensor, tolerance: float, iterations: int) -> Tensor:
    """Weights [m, d] for y [m, n] and C [m]; problems leave as they converge."""
    solution = rows.new_zeros(len(signs), rows.shape[1])
    strength = strengths[:, None]
    rounding = 1e-15 * strengths * rows.norm(dim=1).sum()
    live = torch.arange(len(signs), device=rows.device)
    weights, values = solution.clone(), torch.zeros_like(signs)
    before = torch.zeros_like(strengths)
    for _ in range(iterations):
        wrong = (-signs * values).sigmoid()
        gradient = weights - strength * ((signs * wrong) @ rows)
        slope = gradient.norm(dim=1)
        going = slope > tolerance * weights.norm(dim=1) + rounding
        if not going.all():
            solution[live[~going]] = weights[~going]
            parts = (live, weights, values, signs, strength, rounding, before, wrong, gradient, slope)
            live, weights, values, signs, strength, rounding, before, wrong, gradient, slope = (t[going] for t in parts)
        if not len(live):
            return solution
        curvature = strength * wrong * (1 - wrong)
        steps = _newton_steps(rows, spectrum, curvature, gradient, (slope / before).clamp(max=0.01))
        weights, values = _backtracked(rows, signs, strength, weights, values, gradient, steps)
        before = slope
    solution[live] = weights
    return solution


def _newton_steps(rows: Tensor, spectrum: Tensor, curvature: Tensor, gradient: Tensor, accuracy: Tensor) -> Tensor:
    """−(1 + Xᵀ diag(curvature) X)⁻¹ gradient for every problem, by preconditioned conjugate gradients.

    A problem leaves when its squared residual, in the preconditioner's norm, is ``accuracy`` times the first one.
    """
    steps = torch.zeros_like(gradient)
    live = torch.arange(len(gradient), device=rows.device)
    scale = 1 / (1 + curvature.mean(dim=1, keepdim=True) * spectrum)
    step, residual = steps.clone(), -gradient
    direction = scale * residual
    size = (residual * direction).sum(1)
    goal = accuracy * size
    for _ in range(rows.shape[1]):
        image = direction + (curvature * (direction @ rows.T)) @ rows
        length = (size / (direction * image).sum(1))[:, None]
        step = step + length * direction
        residual = residual - length * image
        scaled = scale * residual
        smaller = (residual * scaled).sum(1)
        direction = scaled + (smaller / size)[:, None] * direction
        size = smaller
        going = size > goal
        if not going.all():
            steps[live[~going]] = step[~going]
            parts = (live, curvature, scale, step, residual, direction, size, goal)
            live, curvature, scale, step, residual, direction, size, goal = (t[going] for t in parts)
        if not len(live):
            return steps
    steps[live] = step
    return steps


def _backtracked(
    rows: Tensor, signs: Tensor, strength: Tensor, weights: Tensor, values: Tensor, gradient: Tensor, steps: Tensor
) -> tuple[Tensor, Tensor]:
    """Weights and f after the longest of the steps 1, 1/2, 1/4, … that lowers a problem's objective enough."""

    def objective(weights: Tensor, values: Tensor) -> Tensor:
        loss = logsigmoid(signs * values).sum(1, keepdim=True)
        return weights.square().sum(1, keepdim=True) / 2 - strength * loss

    change = steps @ rows.T
    start = objective(weights, values)
    promised = 1e-4 * (gradient * steps).sum(1, keepdim=True)
    length = torch.ones_like(strength)
    for _ in range(40):
        after = weights + length * steps, values + length * change
        too_long = ~(objective(*after) <= start * (1 + 1e-12) + length * promised)
        if not too_long.any():
            break
        length = torch.where(too_long, length / 2, length)
    return after


def _principal_axes(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Squared singular values, and orthonormal axes [d, r] that span the rows: the weights lie in their span, too.

    From the inner products of columns or of rows, whichever are fewer.
    """
    if rows.shape[1] <= rows.shape[0]:
        values, vectors = torch.linalg.eigh(rows.T @ rows)
        return values.clamp(min=0), vectors
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    kept = values > NEGLIGIBLE * values[-1]
    return values[kept], rows.T @ (vectors[:, kept] / values[kept].sqrt())


def with_ones(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)

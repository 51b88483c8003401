r"""Linear probes: how well logistic regression on fixed rows tells the classes apart (docs/math.md, section 6).

One against the rest, with y = 1 for the one class and −1 for the others, and the bias b as the weight of a constant feature:

.. math::
    \min_{w, b} \tfrac{1}{2} (‖w‖² + b²) + C \sum_i \log(1 + e^{-y_i f_i}) \qquad f_i = w·x_i + b

``probe_sklearn`` is the definition, ``probe_torch`` solves all these problems at once, ``probe`` chooses between them.
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from torch import Tensor
from torch.nn.functional import logsigmoid

from graphkin.errors import SplitError, check_whole
from graphkin.graphs.splits import Split
from graphkin.support.randomness import generator

STRENGTHS = tuple(2.0**k for k in range(-10, 10))
"""The values of C, the inverse of the penalty, among which validation accuracy chooses."""
WIDEST = 1024
"""The most features, or the most rows where features are more, that ``probe_torch`` decomposes."""
ROWS_AT_A_TIME = 2**16
"""are tested together"""
MEMORY = 2**29
"""Bytes for the problems that are solved together."""


class ProbeResult(NamedTuple):
    """Accuracies in percent, and the C that validation chose (infinite: no penalty)."""

    test: float
    val: float
    strength: float


def probe(rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split, device: torch.device | str = "cpu") -> ProbeResult:
    """Accuracies of the one-against-the-rest logistic regression whose C is best on validation.

    Several C often share the best accuracy on a few hundred nodes, from underfitted to overfitted: the lower log loss on
    validation decides between them. A class that training does not show is never predicted.
    """
    if issparse(rows) or rows.shape[1] > WIDEST:
        return probe_sklearn(rows, labels, split)
    return probe_torch(rows, labels, split, device)


def probe_sklearn(rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split) -> ProbeResult:
    """The definition of ``probe``: one fit of liblinear after the other, at its own tolerance."""
    train, val, test = _parts(labels, split)
    fits = [OneVsRestClassifier(LogisticRegression(solver="liblinear", C=strength, random_state=0)) for strength in STRENGTHS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for fit in fits:
            fit.fit(rows[train], labels[train])
    qualities = [_quality(fit.predict(rows[val]), fit.predict_proba(rows[val]), fit.classes_, labels[val]) for fit in fits]
    best = qualities.index(max(qualities))
    score = float(fits[best].score(rows[test], labels[test]))
    return ProbeResult(100 * score, 100 * qualities[best][0], STRENGTHS[best])


def probe_torch(
    rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split, device: torch.device | str = "cpu"
) -> ProbeResult:
    """``probe_sklearn``, with every C and class solved at once and to full precision.

    Sparse rows, and more features than rows where the rows are many, are left to ``probe_sklearn``.
    """
    train, val, test = _parts(labels, split)
    if issparse(rows) or rows.shape[1] > len(train) > WIDEST:
        return probe_sklearn(rows, labels, split)
    classes = np.unique(labels[train])
    positive = classes[1:] if len(classes) == 2 else classes
    targets = torch.from_numpy(labels[train] == positive[:, None])
    weights = logistic_regressions(_moved(rows[train], device), targets.to(device), STRENGTHS)
    unseen = _moved(rows[val], device)
    qualities = []
    for problems in weights:
        decisions = _decisions(unseen, problems)
        chances = expit(decisions)
        total = chances.sum(1, keepdims=True)
        np.divide(chances, total, out=chances, where=total > 0)
        qualities.append(_quality(classes[decisions.argmax(1)], chances, classes, labels[val]))
    best = qualities.index(max(qualities))
    right = 0
    for part in np.split(test, range(ROWS_AT_A_TIME, len(test), ROWS_AT_A_TIME)):
        decisions = _decisions(_moved(rows[part], device), weights[best])
        right += int((classes[decisions.argmax(1)] == labels[part]).sum())
    score = right / len(test)
    return ProbeResult(100 * score, 100 * qualities[best][0], STRENGTHS[best])


def probe_adam(
    rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split, epochs: int = 3000, every: int = 20, seed: int = 0
) -> ProbeResult:
    """Protocol "gca": softmax regression without penalty by full-batch Adam, at the epoch that is first best on validation.

    Validation is looked at ``every`` so many epochs and after the last one.
    """
    check_whole("epochs", epochs, at_least=1)
    check_whole("every", every, at_least=1)
    train, val, test = _parts(labels, split)
    classes, targets = np.unique(labels[train], return_inverse=True)
    wanted = torch.nn.functional.one_hot(torch.from_numpy(targets)).T.float()
    seen, unseen = (_with_ones(_moved(rows[part], "cpu").float()) for part in (train, val))
    columns = seen.T.contiguous()
    weights = torch.rand(len(classes), seen.shape[1], generator=generator(seed, "probe"))
    weights = ((2 * weights - 1) / math.sqrt(rows.shape[1])).requires_grad_()
    adam = torch.optim.Adam([weights], lr=0.01, fused=True)
    best, chosen = -1.0, weights.detach()
    for epoch in range(1, epochs + 1):
        with torch.no_grad():
            weights.grad = ((weights @ columns).softmax(0) - wanted) @ seen / len(train)
        adam.step()
        if epoch % every == 0 or epoch == epochs:
            predicted = classes[(unseen @ weights.detach().T).numpy().argmax(1)]
            accuracy = float((predicted == labels[val]).mean())
            if accuracy > best:
                best, chosen = accuracy, weights.detach().clone()
    final = chosen.double().numpy()
    predicted = classes[(rows[test] @ final[:, :-1].T + final[:, -1]).argmax(1)]
    return ProbeResult(100 * float((predicted == labels[test]).mean()), 100 * best, math.inf)


def logistic_regressions(
    rows: Tensor, targets: Tensor, strengths: tuple[float, ...], *, tolerance: float = 1e-6, iterations: int = 100
) -> Tensor:
    """(w, b) [strengths, problems, d + 1] of every strength and every row of ``targets`` [problems, n], true or false.

    Newton's method on all of them together. The penalty makes the objective strongly convex, so that a gradient of at most
    ``tolerance`` times the weights bounds the relative error of the weights by ``tolerance``. The rows are rotated to their
    principal axes, which changes no solution: there the Hessian is close to diagonal, and conjugate gradients are short.
    """
    rows = _with_ones(rows.double())
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
            kept = (live, weights, values, signs, strength, rounding, before, wrong, gradient, slope)
            live, weights, values, signs, strength, rounding, before, wrong, gradient, slope = (t[going] for t in kept)
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
            kept = (live, curvature, scale, step, residual, direction, size, goal)
            live, curvature, scale, step, residual, direction, size, goal = (t[going] for t in kept)
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
    """Squared singular values, and orthonormal axes [d, min(n, d)] that span the rows."""
    if rows.shape[1] > rows.shape[0]:
        _, values, axes = torch.linalg.svd(rows, full_matrices=False)
        return values.square(), axes.T
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    return values.clamp(min=0), vectors


def _decisions(rows: Tensor, weights: Tensor) -> np.ndarray:
    """f [n, classes] of the problems [classes, d + 1]; a single problem stands for two classes."""
    values = (weights[:, :-1] @ rows.T + weights[:, -1:]).T.cpu().numpy()
    return np.concatenate([-values, values], axis=1) if len(weights) == 1 else values


def _quality(predicted: np.ndarray, chances: np.ndarray, classes: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Accuracy, and minus the log loss; a class that training did not show has probability 0."""
    columns = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    likelihood = np.where(classes[columns] == labels, chances[np.arange(len(labels)), columns], 0)
    return float((predicted == labels).mean()), float(np.log(likelihood.clip(1e-12, 1)).mean())


def _parts(labels: np.ndarray, split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    train, val, test = (nodes.cpu().numpy() for nodes in (split.train, split.val, split.test))
    found = len(np.unique(labels[train]))
    if found < 2:
        raise SplitError(f"the training set must hold at least 2 classes, found {found} in {len(train)} nodes.")
    return train, val, test


def _moved(rows: np.ndarray | csr_matrix, device: torch.device | str) -> Tensor:
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return torch.from_numpy(dense.astype(np.float64, copy=False)).to(device)


def _with_ones(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)

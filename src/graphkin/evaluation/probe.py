"""Linear probes: how well logistic regression on fixed rows tells the classes apart (docs/math.md, section 6).

``probe_sklearn`` is the definition, ``probe_torch`` solves all its problems at once, ``probe`` chooses between them.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit
from torch import Tensor

from graphkin.errors import SplitError, check_whole
from graphkin.evaluation.logistic import logistic_regressions, with_ones
from graphkin.evaluation.rows import ROWS_AT_A_TIME
from graphkin.graphs.arrays import SPARSE_BELOW
from graphkin.graphs.splits import Split
from graphkin.support.randomness import generator

STRENGTHS = tuple(2.0**k for k in range(-10, 10))
"""values of C, the inverse of the penalty, among which validation accuracy chooses"""
WIDEST = 4096
"""``probe_torch`` decomposes at most so many features, or training rows where there are fewer of them"""
WIDEST_SPARSE = 1024
"""the same for sparse rows, of which liblinear sees only the entries that are not zero"""


class ProbeResult(NamedTuple):
    """Accuracies in percent, and the C that validation chose (infinite: no penalty)."""

    test: float
    val: float
    strength: float


def probe(rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split, device: torch.device | str = "cpu") -> ProbeResult:
    """Accuracies of the one-against-the-rest logistic regression whose C is best on validation.

    On a few hundred nodes several C, from underfitted to overfitted, often share the best accuracy: the lowest log loss on
    validation nodes decides. A class without training nodes is never predicted.
    """
    if _is_for_sklearn(rows, len(split.train)):
        return probe_sklearn(rows, labels, split)
    return probe_torch(rows, labels, split, device)


def validation_accuracy(
    rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split, device: torch.device | str = "cpu"
) -> float:
    """``probe(...).val``, without a look at the split's test nodes."""
    train, val, _ = _parts(labels, split)
    if _is_for_sklearn(rows, len(train)):
        return 100 * _chosen_sklearn(rows, labels, train, val).accuracy
    return 100 * _chosen_torch(rows, labels, train, val, device).accuracy


def probe_sklearn(rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split) -> ProbeResult:
    """The definition of ``probe``: one fit of liblinear after the other, at its own tolerance."""
    train, val, test = _parts(labels, split)
    chosen = _chosen_sklearn(rows, labels, train, val)
    score = float(chosen.fit.score(rows[test], labels[test]))
    return ProbeResult(100 * score, 100 * chosen.accuracy, chosen.strength)


class _Chosen(NamedTuple):
    """The classifier whose C is best on validation nodes."""

    fit: Any
    accuracy: float
    strength: float


def _is_for_sklearn(rows: np.ndarray | csr_matrix, trained_on: int) -> bool:
    widest = WIDEST if isinstance(rows, np.ndarray) or rows.nnz >= SPARSE_BELOW * math.prod(rows.shape) else WIDEST_SPARSE
    return bool(min(rows.shape[1], trained_on) > widest)


def _chosen_sklearn(rows: np.ndarray | csr_matrix, labels: np.ndarray, train: np.ndarray, val: np.ndarray) -> _Chosen:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    fits = [OneVsRestClassifier(LogisticRegression(solver="liblinear", C=strength, random_state=0)) for strength in STRENGTHS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for fit in fits:
            fit.fit(rows[train], labels[train])
    qualities = [_quality(fit.predict(rows[val]), fit.predict_proba(rows[val]), fit.classes_, labels[val]) for fit in fits]
    best = qualities.index(max(qualities))
    return _Chosen(fits[best], qualities[best][0], STRENGTHS[best])


def probe_torch(
    rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split, device: torch.device | str = "cpu"
) -> ProbeResult:
    """``probe_sklearn``, with all C and classes solved at once and to full precision."""
    train, val, test = _parts(labels, split)
    chosen = _chosen_torch(rows, labels, train, val, device)
    return ProbeResult(_accuracy(rows, labels, test, *chosen.fit), 100 * chosen.accuracy, chosen.strength)


def refitted(rows: np.ndarray | csr_matrix, labels: np.ndarray, split: Split, device: torch.device | str = "cpu") -> float:
    """Test accuracy of ``probe``'s regression, fitted again on training and validation nodes with the C that validation chose.

    A habit of others (docs/leaderboard.md), to compare with their numbers only.
    """
    train, val, test = _parts(labels, split)
    strength = probe(rows, labels, split, device).strength
    classes, weights = _solved(rows, labels, np.concatenate([train, val]), (strength,), device)
    return _accuracy(rows, labels, test, classes, weights[0])


def _accuracy(
    rows: np.ndarray | csr_matrix, labels: np.ndarray, nodes: np.ndarray, classes: np.ndarray, weights: Tensor
) -> float:
    right = 0
    for part in np.split(nodes, range(ROWS_AT_A_TIME, len(nodes), ROWS_AT_A_TIME)):
        right += int((classes[_decisions(rows[part], weights).argmax(1)] == labels[part]).sum())
    return 100 * right / len(nodes)


def _solved(
    rows: np.ndarray | csr_matrix, labels: np.ndarray, train: np.ndarray, strengths: tuple[float, ...], device: Any
) -> tuple[np.ndarray, Tensor]:
    """The classes, and the weights of each strength."""
    classes = np.unique(labels[train])
    positive = classes[1:] if len(classes) == 2 else classes
    targets = torch.from_numpy(labels[train] == positive[:, None])
    return classes, logistic_regressions(_moved(rows[train], device), targets.to(device), strengths)


def _chosen_torch(
    rows: np.ndarray | csr_matrix, labels: np.ndarray, train: np.ndarray, val: np.ndarray, device: torch.device | str
) -> _Chosen:
    """Its fit is the classes and their weights."""
    classes, weights = _solved(rows, labels, train, STRENGTHS, device)
    unseen = rows[val]
    qualities = []
    for problems in weights:
        decisions = _decisions(unseen, problems)
        chances = expit(decisions)
        total = chances.sum(1, keepdims=True)
        np.divide(chances, total, out=chances, where=total > 0)
        qualities.append(_quality(classes[decisions.argmax(1)], chances, classes, labels[val]))
    best = qualities.index(max(qualities))
    return _Chosen((classes, weights[best]), qualities[best][0], STRENGTHS[best])


def probe_adam(
    rows: np.ndarray | csr_matrix,
    labels: np.ndarray,
    split: Split,
    epochs: int = 3000,
    every: int = 20,
    seed: int = 0,
    *,
    by_test: bool = False,
) -> ProbeResult:
    """Protocol "gca": softmax regression without penalty by full-batch Adam, at the first epoch that is best on validation.

    Validation accuracy is computed once in ``every`` epochs and after the last one. ``by_test`` takes the epoch that is best on
    test nodes instead: a habit of others (docs/leaderboard.md), to compare with their numbers only.
    """
    check_whole("epochs", epochs, at_least=1)
    check_whole("every", every, at_least=1)
    train, val, test = _parts(labels, split)
    judges = test if by_test else val
    classes, targets = np.unique(labels[train], return_inverse=True)
    wanted = torch.nn.functional.one_hot(torch.from_numpy(targets)).T.float()
    seen, unseen = (with_ones(_moved(rows[part], "cpu").float()) for part in (train, judges))
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
            accuracy = float((predicted == labels[judges]).mean())
            if accuracy > best:
                best, chosen = accuracy, weights.detach().clone()
    final = chosen.double().numpy()
    predicted = classes[(rows[test] @ final[:, :-1].T + final[:, -1]).argmax(1)]
    return ProbeResult(100 * float((predicted == labels[test]).mean()), 100 * best, math.inf)


def _decisions(rows: np.ndarray | csr_matrix, weights: Tensor) -> np.ndarray:
    """f [n, classes] of the problems [classes, d + 1]; one problem decides between two classes."""
    if issparse(rows):
        solved = weights.cpu().numpy()
        values = rows @ solved[:, :-1].T + solved[:, -1]
    else:
        values = (weights[:, :-1] @ _moved(rows, weights.device).T + weights[:, -1:]).T.cpu().numpy()
    return np.concatenate([-values, values], axis=1) if len(weights) == 1 else values


def _quality(predicted: np.ndarray, chances: np.ndarray, classes: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Accuracy, and minus the log loss; a class without training nodes has probability 0."""
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

"""How protocols score rows: accuracies of probes on splits, clusters against classes, nearest nodes of the same class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.sparse
import torch

from graphkin.errors import SettingError
from graphkin.evaluation.probe import ProbeResult, probe, probe_adam
from graphkin.evaluation.rows import Rows, comparable_rows, dense_rows, few_standardised, unit_rows
from graphkin.graphs.held_out import HeldOut
from graphkin.graphs.splits import Split

Values: TypeAlias = dict[str, tuple[float, ...]]
"""each measure in percent, one value for each split or repetition"""
NEIGHBOURS = (5, 10)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is scored. The rows are a copy that a protocol may change."""

    rows: Rows
    """float64 [N, d], a NumPy array or a SciPy CSR matrix"""
    labels: np.ndarray
    """[N], -1 where unknown, and everywhere for a protocol that needs none"""
    splits: Iterable[Split]
    """drawn one by one; empty for a protocol without splits"""
    seeds: range
    """one for each repetition"""
    held_out: HeldOut | None = None
    """edges that training has not seen"""

    def labelled(self) -> tuple[Rows, np.ndarray]:
        """Rows of unit length and labels of the nodes that have one."""
        known = (self.labels >= 0).nonzero()[0]
        return unit_rows(self.rows[known]), self.labels[known]


def accuracies(splits: Iterable[Split], probed: Callable[[Split], ProbeResult]) -> Values:
    results = [probed(split) for split in splits]
    return {"accuracy": tuple(one.test for one in results), "val_accuracy": tuple(one.val for one in results)}


def logistic_regression(subject: Subject) -> Values:
    rows = comparable_rows(subject.rows)
    return accuracies(subject.splits, lambda split: probe(rows, subject.labels, split))


def adam_regression(subject: Subject) -> Values:
    rows = dense_rows(few_standardised(subject.rows))
    return accuracies(subject.splits, lambda split: probe_adam(rows, subject.labels, split, seed=subject.seeds[0]))


def clustering(subject: Subject) -> Values:
    """k-means into as many clusters as there are classes, once for each seed."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    rows, labels = subject.labelled()
    clusters = [
        KMeans(len(np.unique(labels)), n_init=5, random_state=seed % 2**32).fit_predict(rows).astype(np.int64)
        for seed in subject.seeds
    ]
    return {
        "nmi": tuple(100 * float(normalized_mutual_info_score(labels, found)) for found in clusters),
        "ari": tuple(100 * float(adjusted_rand_score(labels, found)) for found in clusters),
    }


def search(subject: Subject, block: int = 2048) -> Values:
    """Cosines in blocks, so that memory grows with N."""
    rows, labels = subject.labelled()
    if len(labels) <= max(NEIGHBOURS):
        raise SettingError(f"protocol search needs more than {max(NEIGHBOURS)} labelled nodes, found {len(labels)}.")
    matches = []
    for start in range(0, len(labels), block):
        cosines = rows[start : start + block] @ rows.T
        cosines = torch.from_numpy(cosines.toarray() if scipy.sparse.issparse(cosines) else cosines)
        own = torch.arange(len(cosines))
        cosines[own, start + own] = -2
        nearest = cosines.topk(max(NEIGHBOURS), dim=1).indices.numpy()
        matches.append(labels[nearest] == labels[start : start + block, None])
    same = np.concatenate(matches)
    return {f"sim@{k}": (100 * float(same[:, :k].mean()),) for k in NEIGHBOURS}


def leaderboard(subject: Subject) -> Values:
    """Accuracies, clusters and the five nearest nodes of the same rows."""
    splits = tuple(subject.splits)
    found: Values = {}
    for score in (logistic_regression, clustering, search):
        found |= score(replace(subject, rows=subject.rows.copy(), splits=splits))
    return {**{name: found[name] for name in ("accuracy", "val_accuracy", "nmi", "ari")}, "sim@5": found["sim@5"] * len(splits)}

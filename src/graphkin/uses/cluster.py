"""Clusters of nodes by k-means, as many as asked for or as fit best."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from graphkin.errors import SettingError, check_whole
from graphkin.evaluation.rows import ROWS_AT_A_TIME, Rows
from graphkin.uses.rows import DIMENSIONS, SAMPLE, principal, sample, unit_embeddings

MOST_TRIED = 20
JUDGED = 3_000
"""so many nodes decide on the number of clusters"""


@dataclass(frozen=True, eq=False)
class Clusters:
    """A cluster for each node. Cluster 1 is the largest."""

    numbers: np.ndarray
    """[N], from 1"""
    sizes: tuple[int, ...]
    """of cluster 1, 2, ..."""
    central: tuple[np.ndarray, ...]
    """of each cluster the nodes nearest to its centre, at most 3"""
    why: str
    """how many there are, and why, in a sentence"""
    silhouettes: dict[int, float] = field(default_factory=dict)
    """the mean silhouette of each number of clusters that was tried"""

    def __repr__(self) -> str:
        largest = ", ".join(map(str, self.sizes[:5])) + (", ..." if self.count > 5 else "")
        return f"Clusters({len(self.numbers)} nodes in {self.count}, of sizes {largest})"

    @property
    def count(self) -> int:
        return len(self.sizes)


def cluster(embeddings: Tensor | Rows, count: int | None = None, *, seed: int = 0) -> Clusters:
    """k-means on the first 50 principal components of rows of length 1.

    Without ``count``, 2 to 20 clusters are tried, and the highest mean silhouette wins. Beyond 20,000 nodes the centres come
    from a sample, and every node belongs to the nearest one.
    """
    if count is not None:
        check_whole("count", count, at_least=1)
    check_whole("seed", seed, at_least=0, at_most=2**32 - 1)
    return clusters_of(unit_embeddings(embeddings), None if count is None else int(count), int(seed))


def clusters_of(unit: np.ndarray, count: int | None = None, seed: int = 0) -> Clusters:
    """:func:`cluster` for rows of length 1."""
    chosen = sample(len(unit), SAMPLE)
    rows = principal(unit, DIMENSIONS, unit[chosen])
    learned = rows[chosen]
    different = len(np.unique(learned, axis=0))
    if count is not None and count > different:
        where = "" if len(chosen) == len(unit) else f" in a sample of {len(chosen):,} nodes"
        raise SettingError(f"count must be at most {different:,}, the number of different embeddings{where}, found {count:,}.")
    if count is not None:
        return _ordered(rows, _centres(learned, count, seed), f"{_counted(count)}, as asked for.", {})
    silhouettes = _silhouettes(learned[sample(len(learned), JUDGED)], different, seed)
    best = max(silhouettes, key=lambda tried: silhouettes[tried], default=1)
    return _ordered(rows, _centres(learned, best, seed), _why(best, silhouettes, different), silhouettes)


def _centres(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(count, n_init=4, random_state=seed).fit(rows).cluster_centers_)


def _silhouettes(rows: np.ndarray, different: int, seed: int) -> dict[int, float]:
    """The mean silhouette of each number of clusters that can be judged."""
    from sklearn.metrics import silhouette_score

    tried = {}
    for count in range(2, min(MOST_TRIED, different, len(rows) - 1, len(np.unique(rows, axis=0))) + 1):
        found = _nearest_centre(rows, _centres(rows, count, seed))
        if 1 < len(np.unique(found)) < len(rows):
            tried[count] = float(silhouette_score(rows, found))
    return tried


def _nearest_centre(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    found = np.empty(len(rows), dtype=np.int64)
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        found[first : first + ROWS_AT_A_TIME] = _distances(rows[first : first + ROWS_AT_A_TIME], centres).argmin(axis=1)
    return found


def _distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared, up to a term that is the same for all centres."""
    return np.asarray(np.square(centres).sum(axis=1) - 2 * rows @ centres.T)


def _counted(count: int) -> str:
    return f"{count:,} cluster{'s' * (count > 1)}"


def _why(count: int, silhouettes: dict[int, float], different: int) -> str:
    if not silhouettes:
        return f"{_counted(count)}: {different} different embedding{'s' * (different > 1)} are too few to compare numbers."
    first, *others = sorted(silhouettes, key=lambda tried: -silhouettes[tried])
    reason = f"the highest mean silhouette of {min(silhouettes)} to {max(silhouettes)} clusters, {silhouettes[first]:.3f}"
    return f"{_counted(count)}: {reason}" + (f" (next: {others[0]} with {silhouettes[others[0]]:.3f})." if others else ".")


def _ordered(rows: np.ndarray, centres: np.ndarray, why: str, silhouettes: dict[int, float]) -> Clusters:
    """By size, the largest first; clusters that no node is nearest to are left out."""
    found = _nearest_centre(rows, centres)
    sizes = np.bincount(found, minlength=len(centres))
    order = [number for number in np.argsort(-sizes, kind="stable") if sizes[number]]
    place = np.zeros(len(centres), dtype=np.int64)
    place[order] = np.arange(1, len(order) + 1)
    central = []
    for number in order:
        members = (found == number).nonzero()[0]
        gaps = np.square(rows[members] - centres[number]).sum(axis=1)
        central.append(members[np.argsort(gaps, kind="stable")[:3]])
    return Clusters(place[found], tuple(int(sizes[number]) for number in order), tuple(central), why, silhouettes)

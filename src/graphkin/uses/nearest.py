"""The nearest nodes of others by the cosine of rows, exactly and in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ENTRIES = 2**24
"""cosines at a time"""


@dataclass(frozen=True)
class Approximate:
    """How well an index did."""

    nearest: int
    """of each node"""
    recall: float
    """which part of them was found, by nodes that were also looked up exactly"""
    checked: int
    """how many nodes that were"""

    def __str__(self) -> str:
        return (
            f"approximate: nearest {self.nearest} of each node by an index, which finds {100 * self.recall:.1f} % of them "
            f"({self.checked} nodes checked)"
        )


@dataclass(frozen=True, eq=False)
class Similar:
    """The most similar nodes of M nodes, the best first; ties go to the lower index."""

    indices: np.ndarray
    """[M, count]"""
    cosines: np.ndarray
    """[M, count]"""
    approximate: Approximate | None = None
    """how well an index did; None: the search was exact"""

    def __repr__(self) -> str:
        nodes, count = self.indices.shape
        return f"Similar({count} nearest of each of {nodes} nodes)"


def nearest(unit: np.ndarray, nodes: np.ndarray, count: int, among: np.ndarray | None = None) -> Similar:
    """:func:`similar` for rows of length 1; ``among`` are the only nodes that count as neighbours."""
    everyone = torch.from_numpy(unit)
    allowed = np.arange(len(unit)) if among is None else among
    others = everyone if among is None else everyone[torch.from_numpy(among)]
    place = np.full(len(unit), -1)
    place[allowed] = np.arange(len(allowed))
    count = min(count, len(allowed) - (1 if (place[nodes] >= 0).any() else 0))
    indices = np.empty((len(nodes), count), dtype=np.int64)
    cosines = np.empty((len(nodes), count), dtype=np.float32)
    step = max(1, ENTRIES // len(allowed))
    for first in range(0, len(nodes) if count else 0, step):
        part = slice(first, first + step)
        block = everyone[torch.from_numpy(nodes[part])] @ others.T
        own = place[nodes[part]]
        inside = (own >= 0).nonzero()[0]
        block[torch.from_numpy(inside), torch.from_numpy(own[inside])] = -torch.inf
        chosen = _first_best(block, count)
        indices[part], cosines[part] = allowed[chosen], np.take_along_axis(block.numpy(), chosen, 1)
    return Similar(indices, cosines.clip(-1, 1))  # rounding exceeds 1


def _first_best(block: Tensor, count: int) -> np.ndarray:
    """The columns of the largest entries of each row, the largest first; of equal ones, the first."""
    least = block.topk(count, dim=1).values[:, -1:]
    rows, columns = (block >= least).nonzero(as_tuple=True)
    values = block[rows, columns].numpy()
    order = np.lexsort((columns.numpy(), -values, rows.numpy()))
    starts = np.searchsorted(rows.numpy()[order], np.arange(len(block)))
    chosen: np.ndarray = columns.numpy()[order][starts[:, None] + np.arange(count)]
    return chosen

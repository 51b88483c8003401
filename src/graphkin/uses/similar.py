"""The nodes most similar to given ones, exactly and in blocks."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import SettingError, check_whole, shown
from graphkin.evaluation.rows import Rows
from graphkin.graphs.arrays import as_array, plain_tensor
from graphkin.uses.rows import unit_embeddings

ENTRIES = 2**24
"""cosines at a time"""


@dataclass(frozen=True, eq=False)
class Similar:
    """The most similar nodes of M nodes, the best first; ties go to the lower index."""

    indices: np.ndarray
    """[M, count]"""
    cosines: np.ndarray
    """[M, count]"""

    def __repr__(self) -> str:
        nodes, count = self.indices.shape
        return f"Similar({count} nearest of each of {nodes} nodes)"


def similar(embeddings: Tensor | Rows, nodes: int | Sequence[int] | Tensor | np.ndarray, count: int = 10) -> Similar:
    """``(z @ z.T).topk(count)`` of the rows ``nodes``, without the nodes themselves, where z are rows of length 1.

    ``nodes`` are indices. There are fewer than ``count`` where the graph has fewer other nodes. A row of zeros is similar
    to none: its cosines are 0.
    """
    check_whole("count", count, at_least=1)
    unit = unit_embeddings(embeddings)
    return nearest(unit, checked_nodes(nodes, len(unit)), int(count))


def checked_nodes(nodes: Any, there: int) -> np.ndarray:
    """Indices [M] of nodes."""
    listed = [nodes] if isinstance(nodes, numbers.Integral) else nodes
    found = as_array(plain_tensor(listed, "nodes") if isinstance(listed, Tensor) else listed, "nodes")
    if found.ndim != 1 or len(found) == 0 or found.dtype.kind not in "iu":
        raise SettingError(f"nodes must be a list of whole numbers, found {shown(nodes)}.")
    outside = found[(found < 0) | (found >= there)]
    if len(outside):
        raise SettingError(f"nodes must be in 0..{there - 1}, found {outside[0]}.")
    return found.astype(np.int64)


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

"""Edges that may be missing: pairs of nodes with the highest cosine that are no edges, exactly in blocks or by an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import check_flag, check_whole
from graphkin.evaluation.rows import Rows
from graphkin.graphs.held_out import known_edges
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.training.device import device_named
from graphkin.uses.index import by_index, nearest_by_index, say_where_progress_is
from graphkin.uses.nearest import Approximate
from graphkin.uses.rows import unit_embeddings

ENTRIES = 2**25
"""cosines at a time"""
MOST_LINKS = 1_000_000
NEAREST = 32
"""of each node, where an index finds them"""


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of nodes without an edge, the most similar first; ties go to the lower indices."""

    pairs: np.ndarray
    """[count, 2], the lower index first"""
    cosines: np.ndarray
    """[count]"""
    approximate: Approximate | None = None
    """how well an index did; None: all pairs were compared"""

    def __repr__(self) -> str:
        span = f", cosines {self.cosines[0]:.4f} to {self.cosines[-1]:.4f}" if len(self.cosines) else ""
        return f"Links({len(self.pairs)} pairs{span})"


def links(
    embeddings: Tensor | Rows,
    data: GraphLike,
    count: int = 100,
    *,
    exact: bool = False,
    device: str = "auto",
    progress: Callable[[float], None] = lambda done: None,
    say: Callable[[str], None] = say_where_progress_is,
) -> Links:
    """``(z @ z.T).triu(1)[~edges].topk(count)``, where z are rows of length 1. No N×N matrix is made.

    There are fewer than ``count`` where the graph has fewer pairs without an edge. Held-out edges count as edges.

    On a CPU and beyond 200,000 nodes, only the nearest 32 of each node are compared, by an index, if usearch is installed,
    unless ``exact``; ``links(...).approximate`` then says how well it did. ``progress`` is called with the part that is done,
    ``say`` with a line where usearch is not installed.
    """
    check_whole("count", count, at_least=1, at_most=MOST_LINKS)
    check_flag("exact", exact)
    where = device_named(device)
    graph = as_graph(data)
    unit = unit_embeddings(embeddings, graph.num_nodes)
    if by_index(unit, len(unit) * (len(unit) - 1) // 2, exact or where.type != "cpu", say):
        return _among_nearest(unit, known_edges(graph).numpy(), int(count), progress)
    return _among_all(torch.from_numpy(unit).to(where), known_edges(graph).to(where), int(count), progress)


def _among_nearest(unit: np.ndarray, edges: np.ndarray, count: int, progress: Callable[[float], None]) -> Links:
    """Of the nearest nodes of each node."""
    near = nearest_by_index(unit, np.arange(len(unit)), NEAREST, progress)
    ends = np.repeat(np.arange(len(unit)), near.indices.shape[1]), near.indices.ravel()
    keys, first = np.unique(np.minimum(*ends) * len(unit) + np.maximum(*ends), return_index=True)
    free = ~np.isin(keys, edges[0] * len(unit) + edges[1])
    keys, cosines = keys[free], near.cosines.ravel()[first[free]]
    order = np.argsort(-cosines, kind="stable")[:count]
    return Links(np.stack(np.divmod(keys[order], len(unit)), axis=1), cosines[order], near.approximate)


def _among_all(unit: Tensor, edges: Tensor, count: int, progress: Callable[[float], None]) -> Links:
    where = unit.device
    starts = torch.searchsorted(edges[0].contiguous(), torch.arange(len(unit) + 1, device=where)).tolist()
    best = Best(count, where)
    first = 0
    while first < len(unit) - 1:
        last = min(first + max(1, ENTRIES // (len(unit) - first)), len(unit))
        block = unit[first:last] @ unit[first:].T
        twice = torch.ones((last - first, last - first), dtype=torch.bool, device=where).tril_()
        block[:, : last - first].masked_fill_(twice, -torch.inf)
        known = edges[:, starts[first] : starts[last]] - first
        block[known[0], known[1]] = -torch.inf
        best.add(block, first)
        progress(1 - (1 - last / len(unit)) ** 2)
        first = last
    return best.links()


class Best:
    """The largest entries of blocks that come in the order of their rows; an entry equal to an earlier one stands behind it."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.count = count
        self.values = torch.empty(0, device=device)
        self.pairs = torch.empty((0, 2), dtype=torch.long, device=device)

    def add(self, block: Tensor, first: int) -> None:
        """Entry (i, j) of a block belongs to the pair (first + i, first + j); -inf is no pair."""
        least = self.values[-1] if len(self.values) == self.count else self.values.new_tensor(-torch.inf)
        rows = (block.amax(dim=1) > least).nonzero()[:, 0]
        if not len(rows):
            return
        block = block[rows]
        better = block > least
        if int(better.sum()) > self.count:
            bound = block.flatten().topk(self.count).values[-1]
            above, equal = (block > bound).nonzero(), (block == bound).nonzero()
            found = torch.cat([above, equal[: self.count - len(above)]])
        else:
            found = better.nonzero()
        values = torch.cat([self.values, block[found[:, 0], found[:, 1]]])
        pairs = torch.cat([self.pairs, torch.stack([rows[found[:, 0]], found[:, 1]], dim=1) + first])
        for column in (1, 0):
            order = pairs[:, column].argsort(stable=True)
            values, pairs = values[order], pairs[order]
        order = values.argsort(descending=True, stable=True)[: self.count]
        self.values, self.pairs = values[order], pairs[order]

    def links(self) -> Links:
        return Links(self.pairs.cpu().numpy(), self.values.clamp(-1, 1).cpu().numpy())

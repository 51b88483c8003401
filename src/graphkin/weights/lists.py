"""The positives of every node as a short list, from which steps draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from graphkin.support.parallel import peers
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.candidates import Candidates
from graphkin.weights.node import NodeWeights
from graphkin.weights.transforms import NONE

LENGTH, LENGTH_OF_SIMILAR = 128, 64
"""positives of a node that are listed, those of the largest weights; and where similar nodes alone are compared"""
ROWS, PAIRS = {"cpu": 64, "cuda": 256}, 2**24
"""nodes, on a CPU few enough for a core's cache, and pairs of nodes that are compared at a time, whichever is less"""
PAIRS_OF_SIMILAR = 2**18
"""of nodes with their similar nodes, at a time"""


@dataclass(frozen=True)
class ShortLists:
    """Of every node the nodes of its largest w⁺, and their shares of it."""

    nodes: Tensor
    """[N, k] in int32; places that are left over hold the node itself"""
    shares: Tensor
    """[N, k], with a sum of 1, or of 0 for a node that no other attracts"""

    @staticmethod
    def of(weights: NodeWeights, length: int | None = None) -> ShortLists:
        """One pass over the weights, which never makes an N×N matrix; several processes share out its rows.

        Where ``weights.near`` names the similar nodes of a node, no others are looked at.
        """
        length = length or (LENGTH if weights.near is None else LENGTH_OF_SIMILAR)
        size = (weights.num_nodes, max(min(length, weights.num_nodes - 1), 1))
        nodes = weights.all_nodes().int()[:, None].repeat(1, size[1])
        shares = torch.zeros(size, dtype=weights.dtype, device=weights.device)
        mine = peers().share(weights.all_nodes())
        for rows, found, columns in () if weights.positive.own_only else _blocks(weights, mine):
            largest, place = found.topk(min(size[1], found.size(1)), dim=1)
            if weights.near is not None or shares.is_cuda:
                # in an order that no rounding changes: a GPU does not round alike each time, nor do several processes
                place = place.sort(dim=1).values
                largest = found.gather(1, place)
            columns, total = columns.gather(1, place), largest.sum(dim=1, keepdim=True)
            nodes[rows, : columns.size(1)] = torch.where(largest > 0, columns.int(), rows[:, None].int())
            shares[rows, : columns.size(1)] = largest / total.clamp(min=torch.finfo(largest.dtype).tiny)
        return ShortLists(peers().complete(nodes), peers().complete(shares))

    @staticmethod
    def empty(nodes: int, device: torch.device) -> ShortLists:
        """Of nodes that no other attracts."""
        return ShortLists(torch.arange(nodes, dtype=torch.int32, device=device)[:, None], torch.zeros(nodes, 1, device=device))

    def draw(self, anchors: Tensor, source: torch.Generator, own: float = 0.0, drop: float = 0.0) -> Tensor:
        """One positive of every anchor [B], without waiting for the device.

        It is the anchor itself with the chance ``own``, and one of its list by the shares otherwise. Every entry is left out
        with the chance ``drop`` before; an anchor that has none left draws itself.
        """
        shares = self.shares[anchors]
        if drop > 0:
            shares = shares * (torch.rand(shares.shape, generator=source, device=shares.device) >= drop)
        reached = shares.cumsum(dim=1)
        total = reached[:, -1]
        itself, chance = torch.rand(2, len(anchors), generator=source, device=shares.device, dtype=shares.dtype)
        goal = torch.minimum(chance * total, torch.nextafter(total, torch.zeros_like(total)))
        place = (reached <= goal[:, None]).sum(dim=1).clamp(max=reached.size(1) - 1)
        drawn = self.nodes[anchors, place].to(anchors.dtype)
        return torch.where((itself < own) | (total == 0), anchors, drawn)


def rows_at_a_time(nodes: int, device: torch.device) -> int:
    return max(min(ROWS[device.type], PAIRS // nodes), 16)


def _by_count(near: SparseMatrix, rows: Tensor) -> Iterator[Tensor]:
    """Rows with as many similar nodes together, some at a time."""
    counts, order = near.counts_of(rows).sort(stable=True)
    last = len(rows)
    while last > 0:
        first = max(last - max(PAIRS_OF_SIMILAR // max(int(counts[last - 1]), 1), 1), 0)
        yield rows[order[first:last]]
        last = first


def _blocks(weights: NodeWeights, rows: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Some of the rows, the shares of their positives, and which nodes those are."""
    if weights.near is None:
        for some in rows.split(rows_at_a_time(weights.num_nodes, rows.device)):
            yield some, *_of_all_nodes(weights, some)
    else:
        for some in _by_count(weights.near, rows):
            yield some, *_of_similar_nodes(weights, weights.near, some)


def _of_all_nodes(weights: NodeWeights, rows: Tensor) -> tuple[Tensor, Tensor]:
    shares = weights.linear(rows, repel=False).shares
    assert shares is not None
    return shares, weights.all_nodes().expand_as(shares)


def _of_similar_nodes(weights: NodeWeights, near: SparseMatrix, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The shares of every row's own similar nodes, and which they are; what is left over holds the row and no share."""
    similarity = weights.positive.similarity
    assert similarity is not None
    row, stored = near.entries(rows)
    position = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
    nodes = rows[:, None].repeat(1, max(int(near.counts_of(rows).max()), 1))
    values = torch.zeros(nodes.shape, dtype=weights.dtype, device=rows.device)
    nodes[row, position] = near.columns[stored]
    values[row, position] = similarity.at(near, rows)
    values[nodes == rows[:, None]] = 0
    no_node = Candidates(torch.arange(-nodes.size(1), 0, device=rows.device))
    attract, _ = weights.positive.log(rows, no_node, values)
    total = attract.logsumexp(dim=1, keepdim=True)
    return torch.where(total > NONE, attract - total, NONE).exp(), nodes

"""The positives of every node as a short list, from which steps draw."""

from __future__ import annotations

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
ROWS, PAIRS = 256, 2**24
"""nodes, and pairs of nodes, that are compared at a time, whichever is less"""
ROWS_OF_SIMILAR = 128
"""nodes that are compared at a time with the similar nodes of any of them"""


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
        if not weights.positive.own_only:
            mine = peers().share(weights.all_nodes())
            for rows in mine.split(rows_at_a_time(weights.num_nodes, near=weights.near is not None)):
                found, columns = _largest(weights, rows, size[1])
                nodes[rows, : columns.size(1)] = torch.where(found > 0, columns.int(), rows[:, None].int())
                shares[rows, : columns.size(1)] = found / found.sum(dim=1, keepdim=True).clamp(
                    min=torch.finfo(found.dtype).tiny
                )
        return ShortLists(peers().complete(nodes), peers().complete(shares))

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


def rows_at_a_time(nodes: int, *, near: bool = False) -> int:
    return ROWS_OF_SIMILAR if near else max(min(ROWS, PAIRS // nodes), 16)


def _largest(weights: NodeWeights, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The largest shares of every row and the nodes that have them."""
    if weights.near is not None:
        shares, nodes = _of_similar_nodes(weights, weights.near, rows)
    else:
        found = weights.linear(rows, repel=False).shares
        assert found is not None
        shares, nodes = found, weights.all_nodes().expand_as(found)
    largest, place = shares.topk(min(length, shares.size(1)), dim=1)
    return largest, nodes.gather(1, place)


def _of_similar_nodes(weights: NodeWeights, near: SparseMatrix, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The shares of every row's own similar nodes, and which they are; what is left over holds the row and no share."""
    similarity = weights.positive.similarity
    assert similarity is not None
    row, stored = near.entries(rows)
    columns, place = near.columns[stored].unique(return_inverse=True)
    position = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
    nodes = rows[:, None].repeat(1, int(position.max()) + 1 if len(row) else 1)
    values = torch.zeros(nodes.shape, dtype=weights.dtype, device=rows.device)
    nodes[row, position] = columns[place]
    values[row, position] = similarity.block(rows, columns)[row, place]
    values[nodes == rows[:, None]] = 0
    no_node = Candidates(torch.arange(-nodes.size(1), 0, device=rows.device))
    attract, _ = weights.positive.log(rows, no_node, values)
    total = attract.logsumexp(dim=1, keepdim=True)
    return torch.where(total > NONE, attract - total, NONE).exp(), nodes

"""The positives of every node as a short list, from which steps draw."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphkin.similarity import BLOCK, BLOCK_PAIRS
from graphkin.weights.candidates import Candidates
from graphkin.weights.node import NodeWeights

LENGTH = 128
"""positives of a node that are listed, those of the largest weights"""
ROWS_OF_SIMILAR = 256
"""nodes whose similar nodes are compared at a time"""


@dataclass(frozen=True)
class ShortLists:
    """Of every node the nodes of its largest w⁺, and their shares of it."""

    nodes: Tensor
    """[N, k] in int32; places that are left over hold the node itself"""
    shares: Tensor
    """[N, k], with a sum of 1, or of 0 for a node that no other attracts"""

    @staticmethod
    def of(weights: NodeWeights, length: int = LENGTH) -> ShortLists:
        """One pass over the weights, which never makes an N×N matrix.

        Where ``weights.near`` names the similar nodes of a node, no others are looked at.
        """
        size = (weights.num_nodes, max(min(length, weights.num_nodes - 1), 1))
        nodes = weights.all_nodes().int()[:, None].repeat(1, size[1])
        shares = torch.zeros(size, dtype=weights.dtype, device=weights.device)
        if not weights.positive.own_only:
            for rows in weights.all_nodes().split(rows_at_a_time(weights.num_nodes, near=weights.near is not None)):
                found, columns = _largest(weights, rows, size[1])
                nodes[rows, : columns.size(1)] = torch.where(found > 0, columns.int(), rows[:, None].int())
                shares[rows, : columns.size(1)] = found / found.sum(dim=1, keepdim=True).clamp(
                    min=torch.finfo(found.dtype).tiny
                )
        return ShortLists(nodes, shares)

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
    return ROWS_OF_SIMILAR if near else max(min(BLOCK, BLOCK_PAIRS // nodes), 16)


def _largest(weights: NodeWeights, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The largest shares of every row and the nodes that have them."""
    columns = weights.all_nodes()
    if weights.near is not None:
        _, stored = weights.near.entries(rows)
        columns = torch.cat([rows, weights.near.columns[stored]]).unique()
    shares = weights.linear(rows, Candidates(columns), repel=False).shares
    assert shares is not None
    found, place = shares.topk(min(length, len(columns)), dim=1)
    return found, columns[place]

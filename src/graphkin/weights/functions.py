"""Weights over all nodes as functions of one similarity: a few numbers a node instead of N×N weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from graphkin.similarity import NodeSimilarity, Stored
from graphkin.weights.pairwise import NegativeWeights, PositiveWeights
from graphkin.weights.transforms import NO_OVERFLOW


@dataclass(frozen=True, eq=False)
class FunctionWeights:
    r"""Weights as functions of a symmetric similarity.

    .. math:: w^+_{ij} = f_i (2^{a_i s_{ij}} - 1) 2^{-l_i} \qquad w^-_{ij} = g_i 2^{-b_i s_{ij} - m_i}

    If all nodes have one temperature and nothing overflows, a and b are the same for all nodes, l and m are 0, and f and g
    hold the normalisers.
    """

    similarity: NodeSimilarity | None
    """None for InfoNCE."""
    attract_scale: Tensor
    """a [N]."""
    attract_level: Tensor
    """l [N]."""
    attract_unit: Tensor
    """2^{−l} [N]."""
    attract_factor: Tensor
    """f [N]."""
    repel_scale: Tensor
    """b [N]."""
    repel_level: Tensor
    """m [N]."""
    repel_factor: Tensor
    """g [N]."""
    own: Tensor
    """w⁺ of the own counterpart [N]."""
    attract: bool
    """Whether there are positives besides the own counterpart."""
    repel: bool
    """Whether negatives differ in weight."""
    shared: bool
    """Whether a, b, l and m are the same for all nodes."""
    largest_unit: float
    """The largest f 2^{−l}, which multiplies the rounding error of 2^{a s} − 1."""


def are_functions(positive: PositiveWeights, negative: NegativeWeights) -> bool:
    """Whether these weights are functions of one symmetric float32 similarity, or need none. Computes nothing."""
    used = _similarities(positive, negative)
    one_for_both = all(one is used[0] and one.symmetric and one.dtype == torch.float32 for one in used)
    return positive.is_function and negative.is_function and one_for_both


def function_weights(
    positive: PositiveWeights, negative: NegativeWeights, num_nodes: int, device: torch.device | str
) -> FunctionWeights | None:
    """The weights as functions, from one pass over all pairs of nodes; None if they are not functions."""
    if not are_functions(positive, negative):
        return None
    numbers = _Numbers.of_infonce(num_nodes, device)
    used = _similarities(positive, negative)
    if not used:
        return numbers.same_for_all(None, attract=False, repel=False)
    similarity = used[0]
    largest = numbers.own.new_zeros(())
    for rows, block in _rows_in_one_buffer(similarity):
        largest = torch.maximum(largest, block.amax())
        if positive.similarity is not None:
            numbers.attract_scale[rows], numbers.attract_level[rows], numbers.own[rows] = positive.numbers(rows, block)
        if negative.similarity is not None:
            numbers.repel_scale[rows], numbers.repel_level[rows] = negative.numbers(rows, block)
    if isinstance(similarity, Stored) and isinstance(similarity.matrix, Tensor):
        similarity = similarity.stored()
    attract, repel = positive.similarity is not None, negative.similarity is not None
    if positive.one_function and negative.one_function and numbers.in_range(largest):
        return numbers.same_for_all(similarity, attract=attract, repel=repel)
    return numbers.as_they_are(similarity, attract=attract, repel=repel)


def _similarities(positive: PositiveWeights, negative: NegativeWeights) -> list[NodeSimilarity]:
    return [used for used in (positive.similarity, negative.similarity) if used is not None]


def _rows_in_one_buffer(similarity: NodeSimilarity) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of nodes and their similarity to all nodes, each written over the one before."""
    buffer: Tensor | None = None
    for rows in similarity.row_blocks():
        if buffer is None:
            buffer = torch.empty(rows.numel(), similarity.num_nodes, dtype=similarity.dtype, device=similarity.device)
        block = buffer[: rows.numel()]
        first = int(rows[0])
        similarity.strip(first, first + rows.numel(), block)
        yield rows, block


@dataclass(frozen=True)
class _Numbers:
    """The numbers of every node before they are brought into one form; all tensors are [N]."""

    attract_scale: Tensor
    attract_level: Tensor
    repel_scale: Tensor
    repel_level: Tensor
    own: Tensor

    @staticmethod
    def of_infonce(num_nodes: int, device: torch.device | str) -> _Numbers:
        zeros = torch.zeros(4, num_nodes, dtype=torch.float32, device=device)
        return _Numbers(zeros[0], zeros[1], zeros[2], zeros[3], own=torch.ones_like(zeros[0]))

    def in_range(self, largest: Tensor) -> bool:
        """Whether nothing overflows without levels, for similarities up to the largest."""
        levels = torch.stack([self.attract_level, self.repel_level])
        return bool(levels.abs().amax() < NO_OVERFLOW and (self.attract_scale * largest).amax() < NO_OVERFLOW)

    def as_they_are(self, similarity: NodeSimilarity | None, *, attract: bool, repel: bool) -> FunctionWeights:
        one = torch.ones_like(self.own)
        unit = torch.exp2(-self.attract_level)
        return FunctionWeights(
            similarity,
            attract_scale=self.attract_scale,
            attract_level=self.attract_level,
            attract_unit=unit,
            attract_factor=one,
            repel_scale=self.repel_scale,
            repel_level=self.repel_level,
            repel_factor=one,
            own=self.own,
            attract=attract,
            repel=repel,
            shared=False,
            largest_unit=float(unit.amax()),
        )

    def same_for_all(self, similarity: NodeSimilarity | None, *, attract: bool, repel: bool) -> FunctionWeights:
        """One function for all nodes, with their normalisers as factors; a node without positives has the factor 0."""
        zero, one = torch.zeros_like(self.own), torch.ones_like(self.own)
        units = torch.exp2(-torch.stack([self.attract_level, self.repel_level]))
        return FunctionWeights(
            similarity,
            attract_scale=self.attract_scale.amax().expand_as(self.own),
            attract_level=zero,
            attract_unit=one,
            attract_factor=torch.where(self.attract_scale > 0, units[0], 0),
            repel_scale=self.repel_scale,
            repel_level=zero,
            repel_factor=units[1],
            own=self.own,
            attract=attract,
            repel=repel,
            shared=True,
            largest_unit=float(units[0].amax()),
        )

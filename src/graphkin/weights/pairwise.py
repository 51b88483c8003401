"""Whom an anchor attracts and whom it repels: the weights of pairs of nodes, and those that need no temperature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.similarity import NodeSimilarity
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.candidates import Candidates
from graphkin.weights.transforms import NONE, log_indicator

EXACTLY_ZERO = 1000.0
"""A scale b at which w⁻ = 2^{−b s} of a similarity of 1 is zero in float32."""


class AttractNumbers(NamedTuple):
    """w⁺ of some nodes as a function of similarity, (2^{scale · s} − 1) 2^{−level}."""

    scale: Tensor
    level: Tensor
    own: Tensor
    """w⁺ of the node's counterpart."""


class RepelNumbers(NamedTuple):
    """w⁻ of some nodes as a function of similarity, 2^{−scale · s − level}."""

    scale: Tensor
    level: Tensor


class PositiveWeights(ABC):
    """log w⁺ for a graph."""

    similarity: NodeSimilarity | None
    """What the weights are computed from; None if from something else."""
    own_only: bool = False
    """Whether a node's counterpart is its only positive."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype: ...

    @abstractmethod
    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log w⁺ of ``rows`` over the candidates [B, C], −∞ for a node with itself, and of their counterparts [B].

        Pass the ``similarity`` of these pairs if it is known, and it is not computed again.
        """

    @property
    def is_function(self) -> bool:
        """Whether :meth:`numbers` describes the weights completely."""
        return False

    @property
    def one_function(self) -> bool:
        """Whether the functions of two nodes differ only in their normalisers."""
        return True

    def numbers(self, rows: Tensor, block: Tensor) -> AttractNumbers:
        """The weights of ``rows`` as functions, from their similarity to all nodes."""
        raise NotImplementedError

    def to(self, device: torch.device, similarity: NodeSimilarity | None) -> PositiveWeights:
        """The same weights on another device, given their ``similarity`` there."""
        return self


class NegativeWeights(ABC):
    """log w⁻ for a graph. Names shared with :class:`PositiveWeights` mean the same."""

    similarity: NodeSimilarity | None
    uniform: bool = False
    """Whether all negatives have weight 1."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype: ...

    @abstractmethod
    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> Tensor:
        """log w⁻ of ``rows`` over the candidates [B, C], −∞ for a node with itself."""

    @property
    def is_function(self) -> bool:
        return False

    @property
    def one_function(self) -> bool:
        return True

    def numbers(self, rows: Tensor, block: Tensor) -> RepelNumbers:
        raise NotImplementedError

    def to(self, device: torch.device, similarity: NodeSimilarity | None) -> NegativeWeights:
        return self


@dataclass(frozen=True)
class OwnOnly(PositiveWeights):
    """InfoNCE: a node's counterpart is its only positive."""

    dtype: torch.dtype = torch.float32
    similarity: None = field(default=None, init=False, repr=False)
    own_only = True
    is_function = True

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        size = (rows.numel(), candidates.columns.numel())
        return (
            torch.full(size, NONE, dtype=self.dtype, device=rows.device),
            torch.zeros(size[0], dtype=self.dtype, device=rows.device),
        )


@dataclass(frozen=True)
class AllAlike(NegativeWeights):
    """InfoNCE: every other node repels with weight 1."""

    dtype: torch.dtype = torch.float32
    similarity: None = field(default=None, init=False, repr=False)
    uniform = True
    is_function = True

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> Tensor:
        size = (rows.numel(), candidates.columns.numel())
        weights = candidates.counted(torch.zeros(size, dtype=self.dtype, device=rows.device))
        return weights.masked_fill(candidates.excluded_negatives(rows), NONE)


@dataclass(frozen=True)
class Linked(PositiveWeights):
    """Positives and their weights are the entries of a matrix, sparse or dense: Â^r in neighbourhood contrast.

    The node itself has the weight ``own``.
    """

    matrix: SparseMatrix | Tensor
    own: float = 0.0
    similarity: None = field(default=None, init=False, repr=False)

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix.dtype

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        chosen = self.matrix[rows] if isinstance(self.matrix, Tensor) else self.matrix.rows(rows)
        weights = candidates.counted(chosen[:, candidates.columns].log())
        excluded = candidates.excluded_positives(rows)
        return weights.masked_fill(excluded, NONE), torch.full_like(weights[:, 0], self.own).log()

    def to(self, device: torch.device, similarity: NodeSimilarity | None) -> Linked:
        return replace(self, matrix=self.matrix.to(device))


@dataclass(frozen=True)
class IndicatorAttraction(PositiveWeights):
    """w⁺ is 1 where the similarity is 1, and for the counterpart if it is a candidate. All similarities are 0 or 1."""

    similarity: NodeSimilarity
    counterpart: bool = True

    @property
    def dtype(self) -> torch.dtype:
        return self.similarity.dtype

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        similarity = similarity_of_pairs(self.similarity, rows, candidates) if similarity is None else similarity
        block = candidates.counted(log_indicator(similarity > 0, self.dtype))
        block = block.masked_fill(candidates.excluded_positives(rows), NONE)
        return block, torch.full_like(block[:, 0], 0 if self.counterpart else NONE)

    @property
    def is_function(self) -> bool:
        return self.counterpart

    def numbers(self, rows: Tensor, block: Tensor) -> AttractNumbers:
        """2¹ − 1 = 1 and 2⁰ − 1 = 0."""
        one = block.new_ones(rows.numel())
        return AttractNumbers(scale=one, level=torch.zeros_like(one), own=one)

    def to(self, device: torch.device, similarity: NodeSimilarity | None) -> IndicatorAttraction:
        return self if similarity is None else replace(self, similarity=similarity)


@dataclass(frozen=True)
class IndicatorRepulsion(NegativeWeights):
    """w⁻ is 1 where the similarity is 0. All similarities are 0 or 1."""

    similarity: NodeSimilarity
    is_function = True

    @property
    def dtype(self) -> torch.dtype:
        return self.similarity.dtype

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> Tensor:
        similarity = similarity_of_pairs(self.similarity, rows, candidates) if similarity is None else similarity
        block = candidates.counted(log_indicator(similarity == 0, self.dtype))
        return block.masked_fill(candidates.excluded_negatives(rows), NONE)

    def numbers(self, rows: Tensor, block: Tensor) -> RepelNumbers:
        scale = block.new_full((rows.numel(),), EXACTLY_ZERO)
        return RepelNumbers(scale, level=torch.zeros_like(scale))

    def to(self, device: torch.device, similarity: NodeSimilarity | None) -> IndicatorRepulsion:
        return self if similarity is None else IndicatorRepulsion(similarity)


def similarity_of_pairs(similarity: NodeSimilarity, rows: Tensor, candidates: Candidates) -> Tensor:
    everything = candidates.columns.numel() == similarity.num_nodes
    return similarity.block(rows, None if everything else candidates.columns)

"""The weights of one graph: whom its nodes attract and whom they repel, in blocks of anchors."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from graphkin.similarity import BLOCK, aligned_copy, aligned_empty, aligned_rows
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.candidates import Candidates
from graphkin.weights.functions import FunctionWeights, are_functions, function_weights
from graphkin.weights.pairwise import NegativeWeights, PositiveWeights, similarity_of_pairs
from graphkin.weights.transforms import NONE


class PairWeights(NamedTuple):
    """Logarithms of the weights of B anchors over C candidates.

    A node is never a candidate of itself: its pair holds −∞ in both matrices, and its counterpart in the other view, the
    one certain positive, has its weight in ``own``.
    """

    attract: Tensor
    """log w⁺ [B, C]."""
    repel: Tensor
    """log w⁻ [B, C]."""
    own: Tensor
    """log w⁺ of the own counterpart [B]."""


class LinearWeights(NamedTuple):
    """The weights themselves, for kernels that do not need logarithms; None stands for InfoNCE's trivial weights.

    w⁺ is split into the total over the other nodes and their shares of it. The shares stay exact even if the own counterpart
    outweighs all others beyond the range of a float.
    """

    shares: Tensor | None
    """w⁺ over the candidates, scaled to a sum of 1 (0 if a row has none) [B, C]; None: the counterpart is the only positive."""
    has_others: Tensor
    """Whether a row has positives among the candidates [B]; their Σ w⁺ may be below the smallest float."""
    mass: Tensor
    """Σ w⁺ over the candidates [B]."""
    own: Tensor
    """w⁺ of the own counterpart [B]."""
    repel: Tensor | None
    """w⁻ [B, C]; None: 1 for all pairs but the own."""


@dataclass(frozen=True)
class NodeWeights:
    """Both kinds of weights of one graph, in blocks of anchors."""

    positive: PositiveWeights
    negative: NegativeWeights
    num_nodes: int
    device: torch.device | str = "cpu"
    near: SparseMatrix | None = None
    """Similar nodes of every node, from which sampled steps draw most of their candidates."""

    @property
    def dtype(self) -> torch.dtype:
        return self.positive.dtype

    def to(self, device: torch.device | str) -> Self:
        """The same weights on another device. Weights that share a similarity still share it there."""
        device = torch.empty(0, device=device).device  # "cuda" is "cuda:0"
        used = {id(part.similarity): part.similarity for part in (self.positive, self.negative)}
        moved = {key: None if similarity is None else similarity.to(device) for key, similarity in used.items()}
        return replace(
            self,
            positive=self.positive.to(device, moved[id(self.positive.similarity)]),
            negative=self.negative.to(device, moved[id(self.negative.similarity)]),
            device=device,
            near=None if self.near is None else self.near.to(device),
        )

    def all_nodes(self) -> Tensor:
        return torch.arange(self.num_nodes, device=self.device)

    def block(self, rows: Tensor | None = None, candidates: Candidates | None = None) -> PairWeights:
        rows = self.all_nodes() if rows is None else rows
        candidates = Candidates(self.all_nodes()) if candidates is None else candidates
        shared = self._shared_similarity(rows, candidates)
        attract, own = self.positive.log(rows, candidates, shared)
        return PairWeights(attract, self.negative.log(rows, candidates, shared), own)

    def linear(self, rows: Tensor, candidates: Candidates | None = None, *, repel: bool = True) -> LinearWeights:
        """The weights of ``rows``; ``repel=False`` leaves out w⁻."""
        candidates = Candidates(self.all_nodes()) if candidates is None else candidates
        shared = self._shared_similarity(rows, candidates)
        attract, own = self.positive.log(rows, candidates, shared)
        total = attract.logsumexp(dim=1)
        has_others = total > NONE
        shares = None
        if not self.positive.own_only:
            shares = torch.where(has_others[:, None], attract - total[:, None], NONE).exp()
        all_alike = self.negative.uniform and candidates.negative is None and not candidates.stand_for_all
        repulsion = None if all_alike or not repel else self.negative.log(rows, candidates, shared).exp()
        return LinearWeights(shares, has_others, total.exp(), own.exp(), repulsion)

    def _shared_similarity(self, rows: Tensor, candidates: Candidates) -> Tensor | None:
        """The similarity of these pairs, if both kinds of weights are computed from it."""
        similarity = self.positive.similarity
        if similarity is None or similarity is not self.negative.similarity:
            return None
        return similarity_of_pairs(similarity, rows, candidates)

    @property
    def by_similarity(self) -> bool:
        """Whether the weights are computed from a similarity."""
        return self.positive.similarity is not None or self.negative.similarity is not None

    @property
    def are_functions(self) -> bool:
        """Whether :attr:`functions` is not None. Computes nothing."""
        return are_functions(self.positive, self.negative)

    @functools.cached_property
    def functions(self) -> FunctionWeights | None:
        """The weights as functions of one symmetric similarity, or None if they are not."""
        return function_weights(self.positive, self.negative, self.num_nodes, self.device) if self.are_functions else None

    def stored(self) -> StoredWeights:
        """The same weights over all candidates, computed once and stored: up to two N×N matrices."""
        whole: list[Tensor | None] = []
        for rows in self.all_nodes().split(BLOCK):
            parts = self.linear(rows)
            whole = whole or [None if part is None else _empty_like(part, self.num_nodes) for part in parts]
            for matrix, part in zip(whole, parts, strict=True):
                if matrix is not None and part is not None:
                    matrix[rows] = part
        matrices = LinearWeights._make(whole)
        return StoredWeights(self.positive, self.negative, self.num_nodes, self.device, matrices=matrices)


@dataclass(frozen=True)
class StoredWeights(NodeWeights):
    """Weights whose blocks over all candidates are read from matrices."""

    matrices: LinearWeights = field(kw_only=True)

    def to(self, device: torch.device | str) -> Self:
        moved = super().to(device)
        there = torch.device(moved.device)
        matrices = LinearWeights._make(None if whole is None else _moved(whole, there) for whole in self.matrices)
        return replace(moved, matrices=matrices)

    def linear(self, rows: Tensor, candidates: Candidates | None = None, *, repel: bool = True) -> LinearWeights:
        if candidates is not None:
            return super().linear(rows, candidates, repel=repel)
        wanted = self.matrices if repel else self.matrices._replace(repel=None)
        return LinearWeights._make(None if whole is None else _chosen(whole, rows) for whole in wanted)


def _empty_like(part: Tensor, rows: int) -> Tensor:
    return part.new_empty(rows) if part.dim() == 1 else aligned_empty(rows, part.size(1), part.dtype, part.device)


def _chosen(whole: Tensor, rows: Tensor) -> Tensor:
    return whole[rows] if whole.dim() == 1 else aligned_rows(whole, rows)


def _moved(whole: Tensor, device: torch.device) -> Tensor:
    return whole.to(device) if whole.dim() == 1 else aligned_copy(whole, device)

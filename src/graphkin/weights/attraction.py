"""Weights by how similar two nodes are, at one temperature or one for each anchor."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphkin.similarity import NodeSimilarity
from graphkin.weights.candidates import Candidates
from graphkin.weights.pairwise import (
    AttractNumbers,
    NegativeWeights,
    PositiveWeights,
    RepelNumbers,
    similarity_of_pairs,
)
from graphkin.weights.temperatures import attraction_entropy, repulsion_entropy, temperatures_of
from graphkin.weights.transforms import LOG2_E, NO_OVERFLOW, NONE, log_attraction, log_repulsion


@dataclass(frozen=True)
class Effective:
    """A temperature that is found whenever an anchor needs it, so that this many candidates are in effect."""

    count: float


@dataclass(frozen=True)
class Attraction(PositiveWeights):
    """w⁺ from similarity, with one τ_p or one for each anchor.

    ``counterpart`` says whether the own node, seen in another view, is in V_M. A row whose T is zero everywhere falls
    back to its counterpart as the only positive.
    """

    similarity: NodeSimilarity
    tau: float | Tensor | Effective
    counterpart: bool = True

    @property
    def dtype(self) -> torch.dtype:
        return self.similarity.dtype

    @property
    def one_function(self) -> bool:
        return not isinstance(self.tau, Tensor)

    @property
    def is_function(self) -> bool:
        return self.counterpart and not isinstance(self.tau, Effective)

    def to(self, device: torch.device, similarity: NodeSimilarity | None) -> Attraction:
        return self if similarity is None else replace(self, similarity=similarity, tau=_moved(self.tau, device))

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        similarity = similarity_of_pairs(self.similarity, rows, candidates) if similarity is None else similarity
        excluded = candidates.excluded_positives(rows)
        own_similarity = self.similarity.own(rows) if self.counterpart else similarity.new_zeros(rows.numel())
        tau = self._temperatures(rows, similarity, own_similarity, excluded, candidates)
        block = candidates.counted(log_attraction(similarity, tau)).masked_fill(excluded, NONE)
        own = log_attraction(own_similarity[:, None], tau)[:, 0] if self.counterpart else torch.full_like(block[:, 0], NONE)
        total = torch.cat([block, own[:, None]], dim=1).logsumexp(dim=1)
        log_members = self._members(rows, candidates, excluded).to(total).log()
        log_mean = total - log_members
        empty = total == NONE
        block = torch.where(empty[:, None], NONE, block - log_mean[:, None])
        fallback = log_members if self.counterpart else torch.full_like(own, NONE)
        return block, torch.where(empty, fallback, own - log_mean)

    def _members(self, rows: Tensor, candidates: Candidates, excluded: Tensor) -> Tensor:
        """The size of V_M for every anchor."""
        if candidates.stand_for_all:
            return torch.full_like(rows, self.similarity.num_nodes - 1 + int(self.counterpart))
        return (~excluded).sum(1) + int(self.counterpart)

    def _temperatures(
        self, rows: Tensor, similarity: Tensor, own: Tensor, excluded: Tensor, candidates: Candidates
    ) -> float | Tensor:
        if not isinstance(self.tau, Effective):
            return self.tau[rows, None] if isinstance(self.tau, Tensor) else self.tau
        others = similarity.masked_fill(excluded, 0)
        factors = candidates.factors(others)
        if self.counterpart:
            others, factors = torch.cat([others, own[:, None]], dim=1), torch.cat([factors, factors.new_ones(1)])
        return temperatures_of(others, attraction_entropy, math.log(self.tau.count), None, factors)[:, None]

    def numbers(self, rows: Tensor, block: Tensor) -> AttractNumbers:
        assert not isinstance(self.tau, Effective)
        tau = _of_rows(self.tau, rows, block)
        own = log_attraction(block[torch.arange(rows.numel(), device=rows.device), rows], tau)
        if block.amax() < NO_OVERFLOW * tau.amin():
            log_sum = torch.expm1(block / tau[:, None]).sum(dim=1).log()
        else:
            log_sum = log_attraction(block, tau[:, None]).logsumexp(dim=1)
        log_mean = log_sum - math.log(self.similarity.num_nodes)
        own = own - log_mean
        empty = log_sum == NONE
        level = torch.where(empty, 0, log_mean * LOG2_E)
        # Where all of s/τ is tiny, T is linear, and a smaller τ with a higher level says the same without overflow.
        lift = (-NO_OVERFLOW - level).clamp(min=0)
        scale = torch.where(empty, 0, LOG2_E / tau * torch.exp2(lift))
        return AttractNumbers(scale, level + lift, torch.where(empty, self.similarity.num_nodes, own.exp()))


@dataclass(frozen=True)
class Repulsion(NegativeWeights):
    """w⁻ from similarity, with one τ_n or one for each anchor."""

    similarity: NodeSimilarity
    tau: float | Tensor | Effective

    @property
    def dtype(self) -> torch.dtype:
        return self.similarity.dtype

    @property
    def one_function(self) -> bool:
        return not isinstance(self.tau, Tensor)

    @property
    def is_function(self) -> bool:
        return not isinstance(self.tau, Effective)

    def to(self, device: torch.device, similarity: NodeSimilarity | None) -> Repulsion:
        return self if similarity is None else Repulsion(similarity, _moved(self.tau, device))

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> Tensor:
        similarity = similarity_of_pairs(self.similarity, rows, candidates) if similarity is None else similarity
        excluded = candidates.excluded_negatives(rows)
        tau = self._temperatures(rows, similarity, excluded, candidates)
        block = candidates.counted(log_repulsion(similarity, tau)).masked_fill(excluded, NONE)
        members = (~excluded).sum(1).to(block)
        if candidates.stand_for_all:
            members = torch.full_like(members, self.similarity.num_nodes - 1)
        log_mean = block.logsumexp(dim=1) - members.log()
        return torch.where(excluded, NONE, block - log_mean[:, None])

    def _temperatures(self, rows: Tensor, similarity: Tensor, excluded: Tensor, candidates: Candidates) -> float | Tensor:
        if not isinstance(self.tau, Effective):
            return self.tau[rows, None] if isinstance(self.tau, Tensor) else self.tau
        factors = candidates.factors(similarity)
        return temperatures_of(similarity, repulsion_entropy, math.log(self.tau.count), excluded, factors)[:, None]

    def numbers(self, rows: Tensor, block: Tensor) -> RepelNumbers:
        assert not isinstance(self.tau, Effective)
        tau = _of_rows(self.tau, rows, block)
        logs = log_repulsion(block, tau[:, None])
        logs[torch.arange(rows.numel(), device=rows.device), rows] = NONE
        log_mean = logs.logsumexp(dim=1) - math.log(max(self.similarity.num_nodes - 1, 1))
        return RepelNumbers(LOG2_E / tau, torch.where(log_mean == NONE, 0, log_mean * LOG2_E))


def _of_rows(tau: float | Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """The temperature of every row."""
    return tau[rows].to(like) if isinstance(tau, Tensor) else like.new_full((rows.numel(),), tau)


def _moved(tau: float | Tensor | Effective, device: torch.device) -> float | Tensor | Effective:
    return tau.to(device) if isinstance(tau, Tensor) else tau

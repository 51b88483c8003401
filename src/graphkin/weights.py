r"""From similarity to weights: whom an anchor attracts and whom it repels (docs/math.md, section 3).

.. math::
    T(s) = e^{s/τ_p} - 1 \qquad D(s) = e^{-s/τ_n} \qquad
    w^+_i(j) = \frac{T(s_{ij})}{\mathrm{mean}_{k ∈ V_M} T(s_{ik})} \qquad
    w^-_i(j) = \frac{D(s_{ij})}{\mathrm{mean}_{k ∈ V_N} D(s_{ik})}

Everything is a logarithm here: s/τ reaches 10⁴ with settings in use, and float32 ends at e⁸⁸.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.errors import SettingError
from graphkin.similarity import BLOCK, NodeSimilarity
from graphkin.sparse import SparseMatrix

NONE = -math.inf
"""The logarithm of no weight at all."""


def log_attraction(similarity: Tensor, tau: Tensor | float) -> Tensor:
    """log T(s) = log(e^{s/τ} − 1), exact for small and for huge s/τ; −∞ where s = 0."""
    ratio = similarity / tau
    large = ratio + torch.log1p(-torch.exp(-ratio))
    log_tau = tau.log() if isinstance(tau, Tensor) else math.log(tau)
    near_zero = torch.where(ratio > 1e-6, torch.log(torch.expm1(ratio.clamp(max=1)) / ratio), ratio / 2)
    return torch.where(ratio > 1, large, similarity.log() - log_tau + near_zero)


def log_repulsion(similarity: Tensor, tau: Tensor | float) -> Tensor:
    """log D(s) = −s/τ."""
    return -similarity / tau


def effective_count(log_weights: Tensor) -> Tensor:
    """How many candidates share a row's weight: e to the entropy of its normalised weights."""
    log_share = log_weights.log_softmax(dim=1).clamp(min=-1e30)
    return (-(log_share.exp() * log_share).sum(dim=1)).exp()


class Candidates(NamedTuple):
    """The sampled nodes.

    ``columns`` is V_M ∪ V_N in increasing order; the masks [columns] say which of them is in which (None: all are).
    """

    columns: Tensor
    positive: Tensor | None = None
    negative: Tensor | None = None

    @staticmethod
    def draw(num_nodes: int, positives: int | None, negatives: int | None, generator: torch.Generator) -> Candidates:
        """V_M and V_N of the given sizes (None: all nodes), uniformly and independently of each other."""
        masks = []
        for name, size in (("positives", positives), ("negatives", negatives)):
            if size is not None and not 1 <= size <= num_nodes:
                raise SettingError(f"{name} must be between 1 and the number of nodes ({num_nodes}), found {size}.")
            mask = torch.ones(num_nodes, dtype=torch.bool, device=generator.device)
            if size is not None:
                order = torch.randperm(num_nodes, generator=generator, device=generator.device)
                mask[order[size:]] = False
            masks.append(mask)
        columns = (masks[0] | masks[1]).nonzero()[:, 0]
        return Candidates(columns, masks[0][columns], masks[1][columns])


class PairWeights(NamedTuple):
    """Logarithms of the weights of B anchors over C candidates.

    A node is never a candidate of itself: its pair holds −∞ in both matrices, and its counterpart in the other view, the
    one certain positive, has its weight in ``own``.
    """

    attract: Tensor
    """log w⁺ [B, C]"""
    repel: Tensor
    """log w⁻ [B, C]"""
    own: Tensor
    """log w⁺ of the own counterpart [B]"""


class PositiveWeights(ABC):
    """log w⁺ for a graph."""

    @abstractmethod
    def log(self, rows: Tensor, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """log w⁺ of ``rows`` over the candidates [B, C], −∞ for the own pair, and of their own counterparts [B]."""


class NegativeWeights(ABC):
    """log w⁻ for a graph."""

    @abstractmethod
    def log(self, rows: Tensor, candidates: Candidates) -> Tensor:
        """log w⁻ of ``rows`` over the candidates [B, C], −∞ for the own pair."""


@dataclass(frozen=True)
class OwnOnly(PositiveWeights):
    """InfoNCE: the own counterpart is the only positive."""

    dtype: torch.dtype = torch.float32

    def log(self, rows: Tensor, candidates: Candidates) -> tuple[Tensor, Tensor]:
        size = (rows.numel(), candidates.columns.numel())
        return (
            torch.full(size, NONE, dtype=self.dtype, device=rows.device),
            torch.zeros(size[0], dtype=self.dtype, device=rows.device),
        )


@dataclass(frozen=True)
class AllAlike(NegativeWeights):
    """InfoNCE: every other node repels with weight 1."""

    dtype: torch.dtype = torch.float32

    def log(self, rows: Tensor, candidates: Candidates) -> Tensor:
        weights = torch.zeros(rows.numel(), candidates.columns.numel(), dtype=self.dtype, device=rows.device)
        excluded = _excluded(rows, candidates.columns, candidates.negative)
        return weights.masked_fill(excluded, NONE)


@dataclass(frozen=True)
class Linked(PositiveWeights):
    """Neighbourhood contrast: positives and their weights are the entries of a sparse matrix, Â^r."""

    matrix: SparseMatrix

    def log(self, rows: Tensor, candidates: Candidates) -> tuple[Tensor, Tensor]:
        weights = self.matrix.rows(rows)[:, candidates.columns].log()
        excluded = _excluded(rows, candidates.columns, candidates.positive)
        return weights.masked_fill(excluded, NONE), torch.full_like(weights[:, 0], NONE)


@dataclass(frozen=True)
class Attraction(PositiveWeights):
    """w⁺ from similarity, with one τ_p or one for each anchor.

    ``counterpart`` says whether the own node, seen in another view, is in V_M. A row whose T is zero everywhere falls
    back to its counterpart as the only positive.
    """

    similarity: NodeSimilarity
    tau: float | Tensor
    counterpart: bool = True

    def log(self, rows: Tensor, candidates: Candidates) -> tuple[Tensor, Tensor]:
        tau = self.tau[rows, None] if isinstance(self.tau, Tensor) else self.tau
        block = log_attraction(_similarity_block(self.similarity, rows, candidates), tau)
        excluded = _excluded(rows, candidates.columns, candidates.positive)
        block = block.masked_fill(excluded, NONE)
        own = (
            log_attraction(self.similarity.own(rows)[:, None], tau)[:, 0]
            if self.counterpart
            else torch.full_like(block[:, 0], NONE)
        )
        members = (~excluded).sum(1) + int(self.counterpart)
        total = torch.cat([block, own[:, None]], dim=1).logsumexp(dim=1)
        log_mean = total - members.to(total).log()
        empty = total == NONE
        block = torch.where(empty[:, None], NONE, block - log_mean[:, None])
        fallback = members.to(total).log() if self.counterpart else torch.full_like(own, NONE)
        return block, torch.where(empty, fallback, own - log_mean)


@dataclass(frozen=True)
class Repulsion(NegativeWeights):
    """w⁻ from similarity, with one τ_n or one for each anchor."""

    similarity: NodeSimilarity
    tau: float | Tensor

    def log(self, rows: Tensor, candidates: Candidates) -> Tensor:
        tau = self.tau[rows, None] if isinstance(self.tau, Tensor) else self.tau
        block = log_repulsion(_similarity_block(self.similarity, rows, candidates), tau)
        excluded = _excluded(rows, candidates.columns, candidates.negative)
        block = block.masked_fill(excluded, NONE)
        members = (~excluded).sum(1).to(block)
        log_mean = block.logsumexp(dim=1) - members.log()
        return torch.where(excluded, NONE, block - log_mean[:, None])


class LinearWeights(NamedTuple):
    """The weights themselves, for kernels that have no need of logarithms; None stands for InfoNCE's trivial ones.

    w⁺ is kept as the total over the other nodes and their shares in it, which stay exact when the own counterpart outweighs
    all others beyond the range of a float.
    """

    shares: Tensor | None
    """w⁺ over the candidates, scaled to a sum of 1 (0 where a row has none) [B, C]; None: no positive but the own"""
    mass: Tensor
    """Σ w⁺ over the candidates [B]"""
    own: Tensor
    """w⁺ of the own counterpart [B]"""
    repel: Tensor | None
    """w⁻ [B, C]; None: one everywhere but for the own pair"""


@dataclass(frozen=True)
class NodeWeights:
    """Both kinds of weights of one graph, in blocks of anchors."""

    positive: PositiveWeights
    negative: NegativeWeights
    num_nodes: int
    device: torch.device | str = "cpu"

    def all_nodes(self) -> Tensor:
        return torch.arange(self.num_nodes, device=self.device)

    def block(self, rows: Tensor | None = None, candidates: Candidates | None = None) -> PairWeights:
        rows = self.all_nodes() if rows is None else rows
        candidates = Candidates(self.all_nodes()) if candidates is None else candidates
        attract, own = self.positive.log(rows, candidates)
        return PairWeights(attract, self.negative.log(rows, candidates), own)

    def linear(self, rows: Tensor, candidates: Candidates | None = None) -> LinearWeights:
        candidates = Candidates(self.all_nodes()) if candidates is None else candidates
        attract, own = self.positive.log(rows, candidates)
        total = attract.logsumexp(dim=1)
        shares = None
        if not isinstance(self.positive, OwnOnly):
            shares = torch.where(total[:, None] > NONE, attract - total[:, None], NONE).exp()
        uniform = isinstance(self.negative, AllAlike) and candidates.negative is None
        repel = None if uniform else self.negative.log(rows, candidates).exp()
        return LinearWeights(shares, total.exp(), own.exp(), repel)

    def stored(self) -> NodeWeights:
        """The same weights, with the blocks over all candidates computed once and kept: up to two N×N matrices."""
        blocks = [self.linear(rows) for rows in self.all_nodes().split(BLOCK)]
        columns = (
            None if column[0] is None else torch.cat([part for part in column if part is not None])
            for column in zip(*blocks, strict=True)
        )
        whole = LinearWeights(*columns)  # type: ignore[arg-type]
        return StoredWeights(self.positive, self.negative, self.num_nodes, self.device, whole)


@dataclass(frozen=True)
class StoredWeights(NodeWeights):
    matrices: LinearWeights | None = None

    def linear(self, rows: Tensor, candidates: Candidates | None = None) -> LinearWeights:
        if candidates is not None or self.matrices is None:
            return super().linear(rows, candidates)
        return LinearWeights(*(None if whole is None else whole[rows] for whole in self.matrices))  # type: ignore[arg-type]


def attraction_temperatures(similarity: NodeSimilarity, effective: float, *, counterpart: bool = True) -> Tensor:
    """τ_p of every anchor such that its w⁺ has the wanted effective number of positives, as t-SNE's perplexity does.

    An anchor with fewer similar nodes than wanted gets the temperature of the limit τ → ∞, weights ∝ similarity.
    """
    return _temperatures(similarity, log_attraction, effective, own_counts=counterpart)


def repulsion_temperatures(similarity: NodeSimilarity, effective: float) -> Tensor:
    """τ_n of every anchor such that the given share of its negatives stays in effect."""
    return _temperatures(similarity, log_repulsion, effective * (similarity.num_nodes - 1), own_counts=False)


def _temperatures(
    similarity: NodeSimilarity,
    log_weights: Callable[[Tensor, Tensor], Tensor],
    wanted: float,
    *,
    own_counts: bool,
    halvings: int = 24,
) -> Tensor:
    """Bisection in log τ, all anchors of a block at once: the effective count grows with τ."""
    found = []
    for rows in similarity.row_blocks():
        block = similarity.block(rows)
        own = torch.zeros_like(block, dtype=torch.bool)
        if not own_counts:
            own[torch.arange(rows.numel(), device=rows.device), rows] = True
        scale = block.masked_fill(own, 0).amax(dim=1)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        low, high = (scale * 1e-5).log(), (scale * 1e5).log()
        for _ in range(halvings):
            middle = (low + high) / 2
            weights = log_weights(block, middle.exp()[:, None]).masked_fill(own, NONE)
            enough = effective_count(weights) >= wanted
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        found.append(high.exp())
    return torch.cat(found)


def _excluded(rows: Tensor, columns: Tensor, members: Tensor | None) -> Tensor:
    """The pairs [rows, columns] that do not count: a node with itself, and what is outside the sampled set."""
    own = rows[:, None] == columns
    return own if members is None else own | ~members


def _similarity_block(similarity: NodeSimilarity, rows: Tensor, candidates: Candidates) -> Tensor:
    everything = candidates.columns.numel() == similarity.num_nodes
    return similarity.block(rows, None if everything else candidates.columns)

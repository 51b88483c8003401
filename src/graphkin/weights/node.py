r"""From similarity to weights: whom an anchor attracts and whom it repels (docs/math.md, section 3).

.. math::
    T(s) = e^{s/τ_p} - 1 \qquad D(s) = e^{-s/τ_n} \qquad
    w^+_i(j) = \frac{T(s_{ij})}{\mathrm{mean}_{k ∈ V_M} T(s_{ik})} \qquad
    w^-_i(j) = \frac{D(s_{ij})}{\mathrm{mean}_{k ∈ V_N} D(s_{ik})}

Everything is a logarithm here: s/τ reaches 10⁴ with settings in use, and float32 ends at e⁸⁸.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.errors import SettingError
from graphkin.similarity import BLOCK, NodeSimilarity, Stored, aligned_empty, aligned_rows
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.temperatures import attraction_entropy, repulsion_entropy, temperatures_of

NONE = -math.inf
"""The logarithm of no weight at all."""
LOG2_E = math.log2(math.e)


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
    With ``log_factors`` [columns] the nodes stand for all nodes of the graph, each for e^factor of them: sums over the sample
    are then estimates of sums over V (:mod:`graphkin.weights.sampling`).
    """

    columns: Tensor
    positive: Tensor | None = None
    negative: Tensor | None = None
    log_factors: Tensor | None = None

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
    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log w⁺ of ``rows`` over the candidates [B, C], −∞ for the own pair, and of their own counterparts [B].

        ``similarity`` of these pairs, where it is known, need not be computed again.
        """


class NegativeWeights(ABC):
    """log w⁻ for a graph."""

    @abstractmethod
    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> Tensor:
        """log w⁻ of ``rows`` over the candidates [B, C], −∞ for the own pair; ``similarity`` as above."""


@dataclass(frozen=True)
class OwnOnly(PositiveWeights):
    """InfoNCE: the own counterpart is the only positive."""

    dtype: torch.dtype = torch.float32

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

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> Tensor:
        size = (rows.numel(), candidates.columns.numel())
        weights = _with_factors(torch.zeros(size, dtype=self.dtype, device=rows.device), candidates)
        excluded = _excluded(rows, candidates.columns, candidates.negative)
        return weights.masked_fill(excluded, NONE)


@dataclass(frozen=True)
class Linked(PositiveWeights):
    """Neighbourhood contrast: positives and their weights are the entries of a matrix, Â^r, sparse or kept dense."""

    matrix: SparseMatrix | Tensor

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        chosen = self.matrix[rows] if isinstance(self.matrix, Tensor) else self.matrix.rows(rows)
        weights = chosen[:, candidates.columns].log()
        excluded = _excluded(rows, candidates.columns, candidates.positive)
        return weights.masked_fill(excluded, NONE), torch.full_like(weights[:, 0], NONE)


@dataclass(frozen=True)
class Effective:
    """A temperature that is found whenever an anchor needs it, so that this many candidates are in effect."""

    count: float


@dataclass(frozen=True)
class Attraction(PositiveWeights):
    """w⁺ from similarity, with one τ_p or one for each anchor.

    ``counterpart`` says whether the own node, seen in another view, is in V_M. A row whose T is zero everywhere falls
    back to its counterpart as the only positive. Without ``normalised`` the weights are T itself.
    """

    similarity: NodeSimilarity
    tau: float | Tensor | Effective
    counterpart: bool = True
    normalised: bool = True

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> tuple[Tensor, Tensor]:
        similarity = _similarity_block(self.similarity, rows, candidates) if similarity is None else similarity
        excluded = _excluded(rows, candidates.columns, candidates.positive)
        own_similarity = self.similarity.own(rows) if self.counterpart else similarity.new_zeros(rows.numel())
        tau = self._temperatures(rows, similarity, own_similarity, excluded, candidates)
        block = _with_factors(log_attraction(similarity, tau), candidates).masked_fill(excluded, NONE)
        own = log_attraction(own_similarity[:, None], tau)[:, 0] if self.counterpart else torch.full_like(block[:, 0], NONE)
        if candidates.log_factors is None:
            members = (~excluded).sum(1) + int(self.counterpart)
        else:
            members = torch.full_like(rows, self.similarity.num_nodes - 1 + int(self.counterpart))
        total = torch.cat([block, own[:, None]], dim=1).logsumexp(dim=1)
        log_mean = total - members.to(total).log() if self.normalised else torch.zeros_like(total)
        empty = total == NONE
        block = torch.where(empty[:, None], NONE, block - log_mean[:, None])
        fallback = members.to(total).log() if self.counterpart else torch.full_like(own, NONE)
        return block, torch.where(empty, fallback, own - log_mean)

    def _temperatures(
        self, rows: Tensor, similarity: Tensor, own: Tensor, excluded: Tensor, candidates: Candidates
    ) -> float | Tensor:
        if not isinstance(self.tau, Effective):
            return self.tau[rows, None] if isinstance(self.tau, Tensor) else self.tau
        others = similarity.masked_fill(excluded, 0)
        factors = _factors(candidates, others)
        if self.counterpart:
            others, factors = torch.cat([others, own[:, None]], dim=1), torch.cat([factors, factors.new_ones(1)])
        return temperatures_of(others, attraction_entropy, math.log(self.tau.count), None, factors)[:, None]

    def numbers(self, rows: Tensor, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """a and l of :class:`FunctionWeights`, and the own counterpart's weight, from the rows' similarity to all nodes."""
        assert not isinstance(self.tau, Effective)
        tau = _at(self.tau, rows, block)
        own = log_attraction(block[torch.arange(rows.numel(), device=rows.device), rows], tau)
        if block.amax() < 60 * tau.amin():
            log_sum = torch.expm1(block / tau[:, None]).sum(dim=1).log()
        else:
            log_sum = log_attraction(block, tau[:, None]).logsumexp(dim=1)
        log_mean = log_sum - math.log(self.similarity.num_nodes) if self.normalised else torch.zeros_like(log_sum)
        own = own - log_mean
        empty = log_sum == NONE
        level = torch.where(empty, 0, log_mean * LOG2_E)
        # Where all of s/τ is tiny, T is linear, and a smaller τ with a higher level says the same without overflow.
        lift = (-60 - level).clamp(min=0)
        scale = torch.where(empty, 0, LOG2_E / tau * torch.exp2(lift))
        return scale, level + lift, torch.where(empty, self.similarity.num_nodes, own.exp())


@dataclass(frozen=True)
class Repulsion(NegativeWeights):
    """w⁻ from similarity, with one τ_n or one for each anchor. Without ``normalised`` the weights are D itself."""

    similarity: NodeSimilarity
    tau: float | Tensor | Effective
    normalised: bool = True

    def numbers(self, rows: Tensor, block: Tensor) -> tuple[Tensor, Tensor]:
        """b and m of :class:`FunctionWeights`, from the rows' similarity to all nodes."""
        assert not isinstance(self.tau, Effective)
        tau = _at(self.tau, rows, block)
        logs = log_repulsion(block, tau[:, None])
        logs[torch.arange(rows.numel(), device=rows.device), rows] = NONE
        log_mean = logs.logsumexp(dim=1) - math.log(max(self.similarity.num_nodes - 1, 1))
        level = torch.where((log_mean == NONE) | (not self.normalised), 0, log_mean * LOG2_E)
        return LOG2_E / tau, level

    def log(self, rows: Tensor, candidates: Candidates, similarity: Tensor | None = None) -> Tensor:
        similarity = _similarity_block(self.similarity, rows, candidates) if similarity is None else similarity
        excluded = _excluded(rows, candidates.columns, candidates.negative)
        tau = self.tau[rows, None] if isinstance(self.tau, Tensor) else self.tau
        if isinstance(tau, Effective):
            factors = _factors(candidates, similarity)
            tau = temperatures_of(similarity, repulsion_entropy, math.log(tau.count), excluded, factors)[:, None]
        block = _with_factors(log_repulsion(similarity, tau), candidates).masked_fill(excluded, NONE)
        if not self.normalised:
            return block
        members = (~excluded).sum(1).to(block)
        if candidates.log_factors is not None:
            members = torch.full_like(members, self.similarity.num_nodes - 1)
        log_mean = block.logsumexp(dim=1) - members.log()
        return torch.where(excluded, NONE, block - log_mean[:, None])


class LinearWeights(NamedTuple):
    """The weights themselves, for kernels that have no need of logarithms; None stands for InfoNCE's trivial ones.

    w⁺ is kept as the total over the other nodes and their shares in it, which stay exact when the own counterpart outweighs
    all others beyond the range of a float.
    """

    shares: Tensor | None
    """w⁺ over the candidates, scaled to a sum of 1 (0 where a row has none) [B, C]; None: no positive but the own"""
    has_others: Tensor
    """whether a row has positives among the candidates [B]; their Σ w⁺ may be below the smallest float"""
    mass: Tensor
    """Σ w⁺ over the candidates [B]"""
    own: Tensor
    """w⁺ of the own counterpart [B]"""
    repel: Tensor | None
    """w⁻ [B, C]; None: one everywhere but for the own pair"""


class FunctionWeights(NamedTuple):
    """Weights over all nodes as functions of a symmetric similarity, by a few numbers a node instead of N×N weights.

    w⁺_ij = f_i (2^{a_i s_ij} − 1) 2^{−l_i} and w⁻_ij = g_i 2^{−b_i s_ij − m_i}. Where all nodes have one temperature and
    nothing overflows, a and b are the same for all, l and m are 0, and f and g say the rest.
    """

    similarity: NodeSimilarity | None
    """None for InfoNCE, which asks for none"""
    numbers: Tensor
    """a, l, 2^{−l}, b, m [5, N]"""
    factors: Tensor
    """f, g [2, N]"""
    own: Tensor
    """w⁺ of the own counterpart [N]"""
    attract: bool
    """whether there are positives but the own counterpart"""
    repel: bool
    """whether negatives differ in weight"""
    shared: bool
    """whether a, b, l, m are the same for all nodes"""
    largest_unit: float
    """of f 2^{−l}: by how much a rounding error of 2^{a s} − 1 counts"""


@dataclass(frozen=True)
class NodeWeights:
    """Both kinds of weights of one graph, in blocks of anchors."""

    positive: PositiveWeights
    negative: NegativeWeights
    num_nodes: int
    device: torch.device | str = "cpu"
    near: SparseMatrix | None = None
    """similar nodes of every node, from which sampled steps draw most of their candidates"""

    def all_nodes(self) -> Tensor:
        return torch.arange(self.num_nodes, device=self.device)

    def block(self, rows: Tensor | None = None, candidates: Candidates | None = None) -> PairWeights:
        rows = self.all_nodes() if rows is None else rows
        candidates = Candidates(self.all_nodes()) if candidates is None else candidates
        shared = self._shared_similarity(rows, candidates)
        attract, own = self.positive.log(rows, candidates, shared)
        return PairWeights(attract, self.negative.log(rows, candidates, shared), own)

    def linear(self, rows: Tensor, candidates: Candidates | None = None, *, repel: bool = True) -> LinearWeights:
        """The weights of ``rows``, without w⁻ if that is not wanted."""
        candidates = Candidates(self.all_nodes()) if candidates is None else candidates
        shared = self._shared_similarity(rows, candidates)
        attract, own = self.positive.log(rows, candidates, shared)
        total = attract.logsumexp(dim=1)
        has_others = total > NONE
        shares = None
        if not isinstance(self.positive, OwnOnly):
            shares = torch.where(has_others[:, None], attract - total[:, None], NONE).exp()
        uniform = isinstance(self.negative, AllAlike) and candidates.negative is None and candidates.log_factors is None
        repulsion = None if uniform or not repel else self.negative.log(rows, candidates, shared).exp()
        return LinearWeights(shares, has_others, total.exp(), own.exp(), repulsion)

    def _shared_similarity(self, rows: Tensor, candidates: Candidates) -> Tensor | None:
        """The similarity of these pairs where both kinds of weights are made of it."""
        if not isinstance(self.positive, Attraction) or not isinstance(self.negative, Repulsion):
            return None
        one, other = self.positive.similarity, self.negative.similarity
        return _similarity_block(one, rows, candidates) if one is other else None

    @functools.cached_property
    def functions(self) -> FunctionWeights | None:
        """The weights as functions of one symmetric similarity, if that is what they are."""
        attract, repel = isinstance(self.positive, Attraction), isinstance(self.negative, Repulsion)
        if not (attract or isinstance(self.positive, OwnOnly)) or not (repel or isinstance(self.negative, AllAlike)):
            return None
        used = [part.similarity for part in (self.positive, self.negative) if isinstance(part, Attraction | Repulsion)]
        if any(one is not used[0] or not one.symmetric for one in used):
            return None
        if isinstance(self.positive, Attraction) and not self.positive.counterpart:
            return None
        if any(isinstance(getattr(part, "tau", None), Effective) for part in (self.positive, self.negative)):
            return None
        if used and used[0].block(self.all_nodes()[:1]).dtype != torch.float32:
            return None
        numbers = torch.zeros(5, self.num_nodes, dtype=torch.float32, device=self.device)
        own, factors = torch.ones_like(numbers[0]), torch.ones_like(numbers[:2])
        if not used:
            return FunctionWeights(None, numbers, factors, own, attract=False, repel=False, shared=True, largest_unit=1)
        largest = numbers.new_zeros(())
        buffer: Tensor | None = None
        for rows in used[0].row_blocks():
            if buffer is None:
                buffer = used[0].block(rows[:1]).new_empty(rows.numel(), self.num_nodes)
            block = buffer[: rows.numel()]
            first = int(rows[0])
            used[0].strip(first, first + rows.numel(), block)
            largest = torch.maximum(largest, block.amax())
            if isinstance(self.positive, Attraction):
                numbers[0, rows], numbers[1, rows], own[rows] = self.positive.numbers(rows, block)
            if isinstance(self.negative, Repulsion):
                numbers[3, rows], numbers[4, rows] = self.negative.numbers(rows, block)
        similarity = used[0]
        if isinstance(similarity, Stored) and isinstance(similarity.matrix, Tensor):
            similarity = similarity.stored()
        numbers[2] = torch.exp2(-numbers[1])
        largest_unit = float(numbers[2].amax())
        one_temperature = not any(isinstance(getattr(part, "tau", None), Tensor) for part in (self.positive, self.negative))
        in_range = numbers[[1, 4]].abs().amax() < 60 and (numbers[0] * largest).amax() < 60
        shared = one_temperature and bool(in_range)
        if shared:
            factors = torch.exp2(-numbers[[1, 4]])
            factors[0] = torch.where(numbers[0] > 0, factors[0], 0)
            numbers[0] = numbers[0].amax()
            numbers[1], numbers[2], numbers[4] = 0, 1, 0
        return FunctionWeights(similarity, numbers, factors, own, attract, repel, shared, largest_unit)

    def stored(self) -> NodeWeights:
        """The same weights, with the blocks over all candidates computed once and kept: up to two N×N matrices."""
        whole: list[Tensor | None] = []
        for rows in self.all_nodes().split(BLOCK):
            parts = self.linear(rows)
            whole = whole or [None if part is None else _empty_like(part, self.num_nodes) for part in parts]
            for matrix, part in zip(whole, parts, strict=True):
                if matrix is not None and part is not None:
                    matrix[rows] = part
        matrices = LinearWeights(*whole)  # type: ignore[arg-type]
        return StoredWeights(self.positive, self.negative, self.num_nodes, self.device, matrices=matrices)


@dataclass(frozen=True)
class StoredWeights(NodeWeights):
    matrices: LinearWeights | None = None

    def linear(self, rows: Tensor, candidates: Candidates | None = None, *, repel: bool = True) -> LinearWeights:
        if candidates is not None or self.matrices is None:
            return super().linear(rows, candidates, repel=repel)
        wanted = self.matrices if repel else self.matrices._replace(repel=None)
        return LinearWeights(*(None if whole is None else _chosen(whole, rows) for whole in wanted))  # type: ignore[arg-type]


def _empty_like(part: Tensor, rows: int) -> Tensor:
    return part.new_empty(rows) if part.dim() == 1 else aligned_empty(rows, part.size(1), part.dtype, part.device)


def _chosen(whole: Tensor, rows: Tensor) -> Tensor:
    return whole[rows] if whole.dim() == 1 else aligned_rows(whole, rows)


def _at(tau: float | Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """The temperature of every row."""
    return (
        tau[rows].to(like)
        if isinstance(tau, Tensor)
        else torch.full((rows.numel(),), tau, dtype=like.dtype, device=like.device)
    )


def _excluded(rows: Tensor, columns: Tensor, members: Tensor | None) -> Tensor:
    """The pairs [rows, columns] that do not count: a node with itself, and what is outside the sampled set."""
    own = rows[:, None] == columns
    return own if members is None else own | ~members


def _factors(candidates: Candidates, like: Tensor) -> Tensor:
    """How many nodes each candidate stands for [C]."""
    if candidates.log_factors is None:
        return torch.ones_like(candidates.columns, dtype=like.dtype)
    return candidates.log_factors.to(like).exp()


def _with_factors(block: Tensor, candidates: Candidates) -> Tensor:
    return block if candidates.log_factors is None else block + candidates.log_factors.to(block)


def _similarity_block(similarity: NodeSimilarity, rows: Tensor, candidates: Candidates) -> Tensor:
    everything = candidates.columns.numel() == similarity.num_nodes
    return similarity.block(rows, None if everything else candidates.columns)

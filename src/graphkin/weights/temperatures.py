"""Temperatures from a wanted number of candidates in effect, one for every anchor (docs/math.md, section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from graphkin.similarity import NodeSimilarity
from graphkin.support.parallel import peers

ROWS = {"cpu": 64, "cuda": 1024}
"""of similarity that are looked at together: on a CPU, few enough for a core's cache"""


def attraction_temperatures(similarity: NodeSimilarity, effective: float, *, counterpart: bool = True) -> Tensor:
    """τ_p of every anchor such that its w⁺ has the wanted effective number of positives, as t-SNE's perplexity does.

    An anchor with fewer similar nodes than wanted gets the temperature of the limit τ → ∞, weights ∝ similarity.
    """
    return _all_anchors(similarity, attraction_entropy, effective, own_counts=counterpart)


def repulsion_temperatures(similarity: NodeSimilarity, effective: float) -> Tensor:
    """τ_n of every anchor such that the given share of its negatives stays in effect."""
    return _all_anchors(similarity, repulsion_entropy, effective * (similarity.num_nodes - 1), own_counts=False)


def attraction_entropy(similarity: Tensor, tau: Tensor, own: Tensor | None, factors: Tensor | None = None) -> Tensor:
    """``effective_count(log_attraction(similarity, tau)).log()`` without the pairs ``own``, in fewer passes.

    Where s/τ of a row goes beyond 60, the row is moved down to it: the −1 of T, and what it brings below zero, is nothing
    beside e^60.
    """
    ratio = similarity / tau[:, None]
    beyond = (ratio.amax(dim=1, keepdim=True) - 60).clamp_(min=0)
    return _entropy(ratio.sub_(beyond).expm1_().clamp_(min=0), own, factors)


def repulsion_entropy(similarity: Tensor, tau: Tensor, own: Tensor | None, factors: Tensor | None = None) -> Tensor:
    """``effective_count(log_repulsion(similarity, tau)).log()`` without the pairs ``own``, in fewer passes."""
    ratio = similarity / -tau[:, None]
    if own is not None:
        ratio.masked_fill_(own, -math.inf)
    return _entropy(ratio.sub_(ratio.amax(dim=1, keepdim=True)).exp_(), own, factors)


def _entropy(weights: Tensor, own: Tensor | None, factors: Tensor | None) -> Tensor:
    """Of weights ≥ 0 that are scaled to a sum of 1: log Σw − Σ w log w / Σw. Changes them.

    With ``factors`` every weight counts that many times.
    """
    if own is not None:
        weights.masked_fill_(own, 0)
    if factors is None:
        total = weights.sum(dim=1)
        spread = torch.special.xlogy(weights, weights).sum(dim=1)
    else:
        total = weights @ factors
        spread = torch.special.xlogy(weights, weights) @ factors
    return torch.where(total > 0, total.log() - spread / total, 0)


def _all_anchors(
    similarity: NodeSimilarity,
    entropy: Callable[..., Tensor],
    wanted: float,
    *,
    own_counts: bool,
) -> Tensor:
    """τ of all anchors, block by block."""
    found = torch.empty(similarity.num_nodes, dtype=similarity.dtype, device=similarity.device)
    goal = math.log(wanted)
    for rows in similarity.shared_row_blocks():
        block = similarity.block(rows)
        for some, part in zip(rows.split(ROWS[rows.device.type]), block.split(ROWS[rows.device.type]), strict=True):
            own = None
            if not own_counts:
                own = torch.zeros_like(part, dtype=torch.bool)
                own[torch.arange(some.numel(), device=some.device), some] = True
            found[some] = temperatures_of(part, entropy, goal, own)
    return peers().complete(found)


def temperatures_of(
    block: Tensor,
    entropy: Callable[..., Tensor],
    goal: float,
    own: Tensor | None,
    factors: Tensor | None = None,
    halvings: int = 6,
    chords: int = 4,
) -> Tensor:
    """τ in a bracket of its logarithm, all anchors of a block at once: the effective count grows with τ.

    Halving makes the bracket so short that the entropy is almost a line on it; where a chord then meets the goal is nearly
    right. An end that two chords do not move counts half the next time, so that both ends come in (the Illinois rule).
    """
    scale = (block if own is None else block.masked_fill(own, 0)).amax(dim=1)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    low, high = (scale * 1e-5).log(), (scale * 1e5).log()
    below, above = torch.full_like(low, -1), torch.ones_like(high)
    enough = torch.zeros_like(low, dtype=torch.bool)
    for turn in range(halvings + chords):
        middle = (low + high) / 2 if turn < halvings else _crossing(low, high, below, above)
        surplus = entropy(block, middle.exp(), own, factors) - goal
        before, enough = enough, surplus >= 0
        weight = torch.where((enough == before) & (turn > halvings), 0.5, 1.0).to(low)
        below, above = torch.where(enough, below * weight, surplus), torch.where(enough, surplus, above * weight)
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return _crossing(low, high, below, above).exp()


def _crossing(low: Tensor, high: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """Where the line from (low, below) to (high, above) is zero."""
    return low + (high - low) * (below / (below - above)).clamp(0, 1)

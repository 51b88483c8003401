"""The problem that a kernel solves, as a value, and what is known of it before any tensor exists."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphkin.errors import check_choice, check_range
from graphkin.objectives.reference import POOLINGS
from graphkin.weights import Candidates, NodeWeights, StoredWeights


@dataclass(frozen=True, eq=False)
class Problem:
    """``objective.enhanced(u, v, weights.block(anchors, candidates), tau, pooling, anchors, candidates.columns, both_views)``.

    Anchors and candidates are all nodes where they are None.
    """

    weights: NodeWeights
    tau: float
    pooling: str = "sum"
    anchors: Tensor | None = None
    candidates: Candidates | None = None
    both_views: bool = True
    """Whether an anchor is compared with the nodes of its own view, too."""

    def __post_init__(self) -> None:
        check_range("tau", self.tau, above=0)
        check_choice("pooling", self.pooling, POOLINGS)

    @property
    def rows(self) -> Tensor:
        """The anchors, or all nodes."""
        return self.weights.all_nodes() if self.anchors is None else self.anchors

    @property
    def columns(self) -> Tensor | None:
        return None if self.candidates is None else self.candidates.columns

    def sampled(self, anchors: Tensor | None, candidates: Candidates | None) -> Problem:
        """The same problem with these anchors and candidates."""
        return replace(self, anchors=anchors, candidates=candidates)

    def case(self, u: Tensor) -> Case:
        """What kind of problem this is for embeddings like ``u``."""
        return Case(
            device=u.device,
            nodes=len(u) if self.candidates is None else self.candidates.columns.numel(),
            width=u.size(1),
            dtype=u.dtype,
            tau=self.tau,
            pooling=self.pooling,
            anchors=None if self.anchors is None else self.anchors.numel(),
            own_candidates=self.candidates is not None,
            functions=self.weights.are_functions,
            stored=isinstance(self.weights, StoredWeights),
            by_similarity=self.weights.by_similarity,
            stand_for_all=self.candidates is not None and self.candidates.stand_for_all,
            both_views=self.both_views,
        )


@dataclass(frozen=True)
class Case:
    """A kind of problem: enough to choose a kernel and its precision, and to know how much memory it needs.

    It can be written down before there are weights or embeddings.
    """

    device: torch.device
    nodes: int
    """The number of candidates of an anchor."""
    width: int
    """Of the embeddings."""
    dtype: torch.dtype = torch.float32
    """Of the embeddings."""
    tau: float = 0.4
    pooling: str = "sum"
    anchors: int | None = None
    """Their number; None: all nodes."""
    own_candidates: bool = False
    """Whether candidates are drawn instead of all nodes."""
    functions: bool = True
    """Whether weights are functions of one symmetric float32 similarity, or trivial."""
    stored: bool = False
    """Whether weights are stored as N×N matrices."""
    by_similarity: bool = True
    """Whether weights are computed from a similarity; InfoNCE's are not."""
    stand_for_all: bool = False
    """Whether the drawn candidates stand for all nodes, as sampled steps draw them."""
    both_views: bool = True
    """Whether anchors are compared with the nodes of their own view, too."""

    @property
    def computes_weights(self) -> bool:
        """Whether every step computes weights from similarity."""
        return self.by_similarity and not self.stored

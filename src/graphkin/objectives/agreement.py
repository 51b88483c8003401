"""The objective of SIGNA and its "+": one pass, in which positives agree and all other pairs disagree (docs/math.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import SettingError, check_range, check_whole, shown
from graphkin.execution import Execution, MethodLike, together_on
from graphkin.graphs.graph import Graph
from graphkin.models.encoder import declares, inputs_memory_of, memory_of, width_of
from graphkin.models.layers import Projector
from graphkin.models.views import isolated, whole_graph
from graphkin.objectives.contrast.tasks import ANCHORS, faster_on_its_device
from graphkin.objectives.contrast.ways import CANDIDATES, Way, adapted, as_asked, sampling_of
from graphkin.objectives.kernels.gradient import with_gradient
from graphkin.objectives.kernels.precision import encoder_of_rows
from graphkin.objectives.kinship.tasks import rows_of
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.objectives.weighting import check_similarity, node_weights, preparing_bytes, similarity_bytes, use_edges
from graphkin.similarity import NodeSimilarity
from graphkin.support.components import SLOT, register
from graphkin.support.parallel import peers
from graphkin.support.products import products_in
from graphkin.support.randomness import generator, kept
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import AllNeighbours, Candidates, Linked, NodeWeights, Uniform, draw_candidates

SMALLEST = 1e-6
"""A score, (1 ± cos)/2, is at least this, so that equal rows may repel each other."""
PAIRS, BLOCKS = 2**24, 14
"""pairs of nodes that are compared at a time, and blocks of them in float32 that a step holds at the peak"""
NOT_SAMPLED = ("positives_sampled", "negatives_sampled")

Shares = Callable[[Tensor], tuple[Tensor, Tensor]]
"""p and q of some rows over the candidates [B, C], in memory of their own"""


def agreement(z: Tensor, p: Tensor, q: Tensor) -> Tensor:
    r"""The definition, for rows of length 1: the mean over the nodes of

    .. math:: ℓ(z_i) = -\sum_j p_{ij} \log \frac{1 + ⟨z_i,z_j⟩}{2} - \sum_j q_{ij} \log \frac{1 - ⟨z_i,z_j⟩}{2}
    """
    cosines = z @ z.T
    near, far = ((1 + sign * cosines).div(2).clamp(min=SMALLEST).log() for sign in (1, -1))
    return -(p * near + q * far).sum(dim=1).mean()


def pair_shares(attract: Tensor, own: Tensor, repel: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    r"""p and q of :func:`agreement` from weights, all without own pairs, where ``kept`` says which positives are not masked.

    .. math:: p_{ij} = \frac{m_{ij} w^+_{ij}}{w^+_{ii} + \sum_k m_{ik} w^+_{ik}}, \qquad
        q_{ij} \propto \left(1 - \frac{m_{ij} w^+_{ij}}{\max_k w^+_{ik}}\right) w^-_{ij}

    As far as a pair is positive it is not negative. The own pair, whose term is 0, has the rest of p.
    """
    positive = attract * kept
    negative = positive.div(_no_zeros(attract.amax(dim=1))).neg_().add_(1).mul_(repel)
    negative.div_(_no_zeros(negative.sum(dim=1)))
    return positive.div_(_no_zeros(positive.sum(dim=1) + own)), negative


def agreement_loss(
    z: Tensor, shares: Shares, anchors: Tensor, columns: Tensor | None = None, block: int | None = None
) -> Tensor:
    """:func:`agreement` of some anchors with some columns, in blocks of anchors, with its gradient."""

    def compute() -> tuple[Tensor, Tensor]:
        rows_of_all = z.detach()
        there = rows_of_all if columns is None else rows_of_all[columns]
        total, gradient, of_columns = z.new_zeros(()), torch.zeros_like(rows_of_all), torch.zeros_like(there)
        for rows in anchors.split(block or max(PAIRS // len(there), 1)):
            p, q = shares(rows)
            mine = rows_of_all[rows]
            cosines = mine @ there.T
            near = cosines.add_(1).div_(2)
            far = (1 - near).clamp_(min=SMALLEST)
            near.clamp_(min=SMALLEST)
            total -= near.log().mul_(p).sum() + far.log().mul_(q).sum()
            slope = q.mul_(far > SMALLEST).div_(far).sub_(p.mul_(near > SMALLEST).div_(near)).div_(2)
            gradient.index_add_(0, rows, slope @ there)
            of_columns += slope.T @ mine
        if columns is None:
            gradient += of_columns
        else:
            gradient.index_add_(0, columns, of_columns)
        scale = 1 / len(anchors)
        return total * scale, gradient.mul_(scale)[None]

    return with_gradient(compute, z)


@register("Agreement")
@dataclass(frozen=True)
class Agreement(Objective):
    """SIGNA: a node's neighbours are its positives, and each is masked with the chance ``mask_positives`` in a step.

    A positive that is masked is a negative. ``projector`` is the hidden width of the projector (None: the encoder's).
    """

    positives: Any = field(default=AllNeighbours(), metadata=SLOT)
    negatives: Any = field(default=Uniform(), metadata=SLOT)
    similarity: Any = field(default=None, metadata=SLOT)
    mask_positives: float = 0.4
    projector: int | None = 256

    views: ClassVar[int] = 0
    samples: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range("mask_positives", self.mask_positives, at_least=0, below=1)
        if self.projector is not None:
            check_whole("projector", self.projector, at_least=1, at_most=2**16)
        check_similarity(self)

    @property
    def needs_edges(self) -> bool:
        return use_edges(self)

    def check(self, method: MethodLike) -> None:
        super().check(method)
        for name in NOT_SAMPLED:
            value = getattr(method.sampling, name)
            if value is not None:
                raise SettingError(f"{name} must be none with Agreement, found {shown(value)}.")

    def ways(
        self,
        graph: Graph,
        method: MethodLike,
        device: torch.device,
        own: NodeSimilarity | None = None,
        *,
        adapt: bool = True,
    ) -> Iterator[Execution]:
        for way in adapted(graph, method, device, own) if adapt else as_asked(graph, method):
            yield execution_of(way, graph, method.configure(**way.settings), device)

    def prepare(
        self, graph: Graph, execution: Execution, similarity: NodeSimilarity | None = None, folder: Path | None = None
    ) -> NodeWeights:
        weights = node_weights(graph, execution, similarity, folder, counterpart=True)
        sampled = execution.method.sampling.samples(graph.num_nodes)
        if sampled and isinstance(weights.positive, Linked) and isinstance(weights.positive.matrix, SparseMatrix):
            return replace(weights, near=weights.positive.matrix)
        return weights.stored() if execution.stored == "weights" and not sampled else weights

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        return {"projector": Projector(width, self.projector or width, generator)}

    def task(self, setup: Setup) -> Task:
        return AgreementTask(setup)


def execution_of(way: Way, graph: Graph, method: Any, device: torch.device) -> Execution:
    nodes, sampling, width = graph.num_nodes, sampling_of(method), width_of(method.encoder, graph.num_features)
    sampled = sampling.samples(nodes)
    anchors, columns, encoded = min(sampling.anchors or nodes, nodes), nodes, nodes
    if sampled:
        anchors = min(sampling.anchors or ANCHORS, nodes)
        columns = min((sampling.candidates or CANDIDATES) + anchors * sampling.near, nodes)
        encoded = nodes if declares(method.encoder, "sees_edges") else min(anchors + columns, nodes)
    step = BLOCKS * 4 * min(anchors, max(PAIRS // columns, 1)) * columns
    step += memory_of(method.encoder, encoded, 2 * graph.num_edges + nodes, width)
    step += 4 * encoded * (3 * (method.objective.projector or width) + 8 * width)
    stored = similarity_bytes(graph, method, way.stored, weights=True)
    if way.stored == "weights" and not method.objective.positives.uses_similarity:
        stored += 4 * nodes**2
    alone = device.type == "cuda" and peers().size == 1 and declares(method.encoder, "recordable")
    return Execution(
        way.words,
        method,
        way.stored,
        "blocked",
        encoder_precision=encoder_of_rows("auto", encoded, device),
        recorded=alone and way.stored == "weights" and not sampled,
        together=together_on(device, encoded),
        needs=stored
        + inputs_memory_of(method.encoder, nodes, graph.num_features)
        + max(preparing_bytes(graph, method, way.stored, device), step),
    )


class AgreementTask(Task):
    """Encode once, project, and compare: all nodes with each other, or some anchors with some that stand for all."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.device, self.weights, self.sampling = setup.device, setup.prepared, setup.method.sampling
        self.mask: float = setup.method.objective.mask_positives
        self.x, self.nodes = faster_on_its_device(setup.x), setup.graph.num_nodes
        self.rows, self.sees_edges = rows_of(self.x), declares(setup.method.encoder, "sees_edges")
        self.view = whole_graph(setup.graph) if self.sees_edges else isolated(self.nodes, setup.device)
        self.sources = {name: generator(setup.seed, name, setup.device) for name in ("noise", "masking", "sampling")}

    def loss(self) -> Tensor:
        anchors, candidates = self._drawn()
        sampled = candidates is not None and not self.sees_edges
        some = torch.cat([anchors, candidates.columns]).unique() if sampled and candidates is not None else None
        with products_in(self.execution.encoder_precision, self.device):
            z = F.normalize(self.modules["projector"](self._encoded(some)), dim=1)
        columns = None if candidates is None else candidates.columns
        if some is None:
            return agreement_loss(z, lambda rows: self.shares(rows, candidates), anchors, columns)
        assert columns is not None
        places = torch.searchsorted(some, anchors)
        return agreement_loss(z, lambda rows: self.shares(some[rows], candidates), places, torch.searchsorted(some, columns))

    def _drawn(self) -> tuple[Tensor, Candidates | None]:
        source, near = self.sources["sampling"], self.weights.near
        sampled = self.sampling.samples(self.nodes)
        count = self.sampling.anchors or (ANCHORS if sampled else self.nodes)
        if count >= self.nodes:
            anchors = self.weights.all_nodes()
        else:
            anchors = torch.randperm(self.nodes, generator=source, device=self.device)[:count].sort().values
        if not sampled:
            return anchors, None
        return anchors, draw_candidates(self.nodes, anchors, self.sampling.candidates, source, near, self.sampling.near)

    def _encoded(self, some: Tensor | None) -> Tensor:
        encoder, noise = self.modules["encoder"], self.sources["noise"]
        if some is None:
            whole: Tensor = encoder(self.x, self.view, noise)
            return whole
        encoded: Tensor = encoder(self.rows(some), isolated(len(some), self.device), noise)
        return encoded

    def shares(self, rows: Tensor, candidates: Candidates | None = None) -> tuple[Tensor, Tensor]:
        """:func:`pair_shares` of some anchors; where candidates stand for all nodes, each counts as many as it stands for."""
        linear = self.weights.linear(rows, candidates)
        columns = self.weights.all_nodes() if candidates is None else candidates.columns
        repel = linear.repel
        if repel is None:
            repel = (rows[:, None] != columns).to(linear.own)
        attract = torch.zeros_like(repel) if linear.shares is None else linear.shares * linear.mass[:, None]
        unmasked = kept(attract.shape, self.mask, self.sources["masking"], self.device).to(attract)
        if candidates is None:
            return pair_shares(attract, linear.own, repel, unmasked)
        factors = candidates.factors(attract)
        p, _ = pair_shares(attract, linear.own, repel, unmasked)
        _, q = pair_shares(attract / factors, linear.own, repel, unmasked)
        return p, q


def _no_zeros(by: Tensor) -> Tensor:
    """What rows are divided by, so that a row of zeros stays as it is."""
    return torch.where(by > 0, by, 1)[:, None]

"""Steps of Kinship: all nodes at once, or anchors with one positive each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.graphs.arrays import Features
from graphkin.models.encoder import declares, trained_widths_of
from graphkin.models.noise import Noise, NoiseOfRows
from graphkin.models.pieces import Pieces
from graphkin.models.views import isolated, whole_graph
from graphkin.objectives.contrast.tasks import faster_on_its_device
from graphkin.objectives.kernels.kinship import Form, Shares, kinship_loss
from graphkin.objectives.objective import Setup, Task
from graphkin.support.products import products_in
from graphkin.support.randomness import chances, generator, random_key, some_of
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import NodeWeights, ShortLists

DENSE_ROWS_ABOVE = 0.1
"""share of stored values from which a CPU multiplies dense rows faster"""


class _TwoPasses(Task):
    """Encode twice with other noise, project, attract. Of several processes each encodes the rows that it holds."""

    in_one_pass = False
    """whether the rows of both are encoded together, which on a GPU takes half of the kernels"""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.objective = objective = setup.method.objective
        self.device, self.x = setup.device, _faster(setup.x)
        self.widths = trained_widths_of(setup.method.encoder, setup.graph.num_features)
        execution = setup.execution
        self.form = Form(
            objective.tau, objective.symmetric, objective.both_views, execution.precision, execution.implementation
        )
        self.sees_edges = declares(setup.method.encoder, "sees_edges")
        self.shared = self.x if isinstance(self.x, Pieces) and self.x.among.size > 1 else None
        self.sources = {
            "noise": generator(setup.seed, "noise", setup.device),
            "positives": generator(setup.seed, "positives", setup.device),
        }

    @abstractmethod
    def loss(self) -> Tensor: ...

    @abstractmethod
    def _encoded(self, nodes: Tensor, noise: Noise) -> Tensor:
        """What the encoder gives for some nodes, numbered among the rows that this process holds."""

    def _passes(self, *nodes: Tensor) -> list[list[Tensor]]:
        """One pass for each of ``nodes``: the blocks that the encoder gives for them, projected and of length 1."""
        noise, shared = self.sources["noise"], self.shared
        with products_in(self.execution.encoder_precision, self.device):
            if shared is None and self.in_one_pass:
                blocks = self._projected(self._encoded(torch.cat(nodes), noise))
                passes = zip(*(block.split([len(some) for some in nodes]) for block in blocks), strict=True)
                return [list(rows) for rows in passes]
            if shared is None:
                return [self._projected(self._encoded(some, noise)) for some in nodes]
            here = [shared.holds(some) for some in nodes]
            mine = [self._shared_pass(shared, some, held) for some, held in zip(nodes, here, strict=True)]
        whole = shared.among.gather(torch.cat(mine), sum(map(len, nodes)), torch.cat(here))
        return [list(rows.split(self.widths, dim=1)) for rows in whole.split([len(some) for some in nodes])]

    def _shared_pass(self, shared: Pieces, nodes: Tensor, here: Tensor) -> Tensor:
        noise = NoiseOfRows(self.sources["noise"], here, None if shared.lengths is None else shared.lengths[nodes])
        return torch.cat(self._projected(self._encoded(nodes[here] - shared.first, noise)), dim=1)

    def _projected(self, encoded: Tensor) -> list[Tensor]:
        """Each block of the encoder's output, projected and of length 1."""
        projector: Any = self.modules["projector"]
        projectors = projector if isinstance(projector, nn.ModuleList) else [projector]
        blocks = encoded.split(self.widths, dim=1)
        return [F.normalize(project(block), dim=1) for project, block in zip(projectors, blocks, strict=True)]

    def _contrasted(self, one: list[Tensor], other: list[Tensor], shares: Shares | None) -> Tensor:
        """The mean over the blocks."""
        losses = [kinship_loss(u, v, shares, self.form) for u, v in zip(one, other, strict=True)]
        return torch.stack(losses).mean() if len(losses) > 1 else losses[0]


class KinshipTask(_TwoPasses):
    """All nodes are anchors and candidates."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.positives = Positives(setup.prepared, self.objective.own, self.objective.drop_positives)
        self.nodes = torch.arange(setup.graph.num_nodes, device=setup.device)
        self.view = whole_graph(setup.graph) if self.sees_edges else isolated(len(self.nodes), setup.device)

    def loss(self) -> Tensor:
        u, v = self._passes(self.nodes, self.nodes)
        key = random_key(self.sources["positives"]) if self.positives.drop > 0 else None
        return self._contrasted(u, v, self.positives.in_rows(key))

    def _encoded(self, nodes: Tensor, noise: Noise) -> Tensor:
        encoded: Tensor = self.modules["encoder"](self.x, self.view, noise)
        return encoded


@dataclass(frozen=True)
class Positives:
    """How the positives of a node share its attraction."""

    weights: NodeWeights
    own: float = 0.0
    drop: float = 0.0

    def in_rows(self, key: Tensor | None = None) -> Shares | None:
        """:meth:`shares` of any rows; None: the counterparts alone."""
        return None if self.weights.positive.own_only else lambda rows: self.shares(rows, key)

    def shares(self, rows: Tensor, key: Tensor | None = None) -> Tensor:
        """Rows of ``reference.kinship_shares(weights.block(), own, kept(all nodes, key))``."""
        found = self.weights.linear(rows, repel=False)
        shares, has_others = found.shares, found.has_others
        assert shares is not None
        if key is not None:
            shares = shares * self.kept(rows, key)
            total = shares.sum(dim=1)
            has_others = total > 0
            shares = shares / torch.where(has_others, total, 1)[:, None]
        shares = shares.mul_(1 - self.own)
        shares[torch.arange(len(rows), device=rows.device), rows] = 1 - (1 - self.own) * has_others.to(shares)
        return shares

    def kept(self, rows: Tensor, key: Tensor) -> Tensor:
        """Which pairs of ``rows`` with all nodes are not dropped: whatever the blocks, the same for one key."""
        return chances(key, rows[:, None], self.weights.all_nodes()) >= self.drop


class SampledKinshipTask(_TwoPasses):
    """Some nodes are anchors. Each draws one of its positives, and those that were drawn are the candidates."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.lists: ShortLists = setup.prepared
        self.nodes, self.count = setup.graph.num_nodes, setup.method.sampling.anchors
        self.sources["sampling"] = generator(setup.seed, "sampling", setup.device)
        self.in_one_pass = on_gpu_row_by_row(setup) and not self.sees_edges
        rows = 2 * self.count if self.in_one_pass else self.count
        self.view = whole_graph(setup.graph) if self.sees_edges else isolated(rows, setup.device)
        self.rows = rows_of(self.x)

    def loss(self) -> Tensor:
        anchors = some_of(self.nodes, self.count, self.sources["sampling"])
        drop, own = self.objective.drop_positives, self.objective.own
        positives = self.lists.draw(anchors, self.sources["positives"], own, drop)
        u, v = self._passes(anchors, positives)
        return self._contrasted(u, v, None)

    def _encoded(self, nodes: Tensor, noise: Noise) -> Tensor:
        encoder = self.modules["encoder"]
        encoded: Tensor = (
            encoder(self.x, self.view, noise)[nodes] if self.sees_edges else encoder(self.rows(nodes), self.view, noise)
        )
        return encoded


def on_gpu_row_by_row(setup: Setup) -> bool:
    """Whether a GPU runs an encoder that gives a row the same whatever rows are encoded with it."""
    return setup.device.type == "cuda" and declares(setup.method.encoder, "shares_rows")


def rows_of(x: Features | Pieces, density: float | None = None) -> Callable[[Tensor], Any]:
    """A function from nodes to their rows, which never waits for a GPU; on a CPU, few stored values stay sparse.

    ``density`` is that of all rows, where these are some of them.
    """
    if isinstance(x, Pieces):
        parts = {name: rows_of(part, x.density) for name, part in x.parts.items()}
        return lambda nodes: Pieces({name: rows(nodes) for name, rows in parts.items()})
    if isinstance(x, SparseMatrix):
        if x.device.type != "cpu":
            return dense_rows_of(x)
        return x.rows if (x.density if density is None else density) > DENSE_ROWS_ABOVE else x.some_rows
    return lambda nodes: x[nodes]


def dense_rows_of(x: SparseMatrix) -> Callable[[Tensor], Tensor]:
    longest = x.longest_row
    return lambda nodes: x.short_rows(nodes, longest)


def _faster(x: Features | Pieces) -> Features | Pieces:
    if isinstance(x, Pieces):
        return x.mapped(lambda part: faster_on_its_device(part, x.density))
    return faster_on_its_device(x)

"""Steps of the two-view contrast: all nodes at once, or some that stand for all."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graphkin.graphs.arrays import Features
from graphkin.objectives.losses import TwoViewLoss
from graphkin.objectives.objective import Setup, Task
from graphkin.support.products import products_in
from graphkin.support.randomness import generator
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import NodeWeights
from graphkin.weights.sampling import SomeNodes, draw_candidates

ANCHORS = 512
"""of a sampled step, where no number is asked for"""
DENSE_ABOVE = 0.03
"""A GPU multiplies features faster as a dense matrix where more of them than this are not zero."""


class ContrastTask(Task):
    """Encode two views, project, contrast."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        method, execution = setup.method, setup.execution
        self.device, self.weights, self.sampling = setup.device, setup.prepared, method.sampling
        self.x = faster_on_its_device(setup.x)
        self.plan = method.views.plan(setup.graph)
        self.contrast = TwoViewLoss(
            self.weights,
            method.objective.tau,
            method.objective.pooling,
            anchors=self.sampling.anchors,
            positives=self.sampling.positives_sampled,
            negatives=self.sampling.negatives_sampled,
            seed=setup.seed,
            implementation=execution.implementation,
            precision=execution.precision,
            both_views=method.objective.both_views,
        )
        self.sources = {
            "views": generator(setup.seed, "views", setup.device),
            "noise": generator(setup.seed, "noise", setup.device),
            "sampling": self.contrast.generator,
        }

    def loss(self) -> Tensor:
        with products_in(self.execution.encoder_precision, self.device):
            u, v = (self._project(view) for view in (0, 1))
        loss: Tensor = self.contrast(u, v)
        return loss

    def _project(self, view: int, nodes: Tensor | None = None) -> Tensor:
        drawn = self.plan.draw(view, self.sources["views"])
        encoded: Tensor = self.modules["encoder"](self.x, drawn, self.sources["noise"])
        projected: Tensor = self.modules["projector"](encoded if nodes is None else encoded[nodes])
        return projected


class SampledTask(ContrastTask):
    """The same from some nodes that stand for all."""

    def loss(self) -> Tensor:
        weights: NodeWeights = self.weights
        nodes, source = weights.num_nodes, self.sources["sampling"]
        count = min(self.sampling.anchors or ANCHORS, nodes)
        anchors = torch.randperm(nodes, generator=source, device=weights.device)[:count].sort().values
        drawn = draw_candidates(nodes, anchors, self.sampling.candidates, source, weights.near, self.sampling.near)
        some = torch.cat([anchors, drawn.columns]).unique()
        with products_in(self.execution.encoder_precision, self.device):
            u, v = (self._project(view, some) for view in (0, 1))
        places = drawn._replace(columns=torch.searchsorted(some, drawn.columns))
        problem = replace(self.contrast.problem, weights=SomeNodes.of(weights, some))
        return self.contrast.contrast(u, v, problem.sampled(torch.searchsorted(some, anchors), places))


def faster_on_its_device(x: Features, density: float | None = None) -> Features:
    """``density`` is that of all rows, where these are some of them."""
    if isinstance(x, SparseMatrix) and x.device.type == "cuda":
        return x.to_dense() if (x.density if density is None else density) > DENSE_ABOVE else x
    return x

r"""The objective of SGRL: a target encoder scatters the nodes, and the encoder predicts where they are (docs/math.md).

No node is compared with another, so that a step costs as much as encoding twice: memory and time grow with nodes and edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import check_range, check_whole
from graphkin.models.layers import PReLU, linear
from graphkin.models.views import whole_graph
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.support.components import register
from graphkin.support.randomness import generator

TARGET = "target"


def scattering(target: Tensor) -> Tensor:
    r"""How near nodes are to their common centre: with :math:`t_i = h_i / \|h_i\|` and c the mean of all t,

    .. math:: ℓ = -\frac{1}{N} \sum_i \|t_i - c\|^2
    """
    directions = F.normalize(target, dim=1)
    return -(directions - directions.mean(dim=0)).square().sum(dim=1).mean()


def prediction(predicted: Tensor, target: Tensor) -> Tensor:
    r"""How far predictions are from the target: :math:`ℓ = -\frac{1}{N} \sum_i \cos(q_i, h_i)`."""
    return -F.cosine_similarity(predicted, target, dim=1).mean()


@register("Scattering")
@dataclass(frozen=True)
class Scattering(Objective):
    """SGRL: a predictor of ``predictor`` hidden units on smoothed embeddings, and a target encoder that scatters the nodes.

    In each step the encoder learns to predict the target, which becomes ``decay`` times itself plus the rest of the encoder,
    and then learns to scatter. What embeddings are smoothed by is a setting of the encoder (``SmoothedGCN``).
    """

    predictor: int = 1024
    decay: float = 0.99

    views: ClassVar[int] = 0
    recordable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("predictor", self.predictor, at_least=1, at_most=2**16)
        check_range("decay", self.decay, at_least=0, at_most=1)

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        inner, outer = linear(width, self.predictor, generator), linear(self.predictor, width, generator)
        return {"predictor": nn.Sequential(inner, PReLU(), outer)}

    def task(self, setup: Setup) -> Task:
        return ScatteringTask(setup)


class ScatteringTask(Task):
    """The target is trained too, and so is one of the modules until training ends."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.objective: Scattering = setup.method.objective
        self.x, self.view = setup.x, whole_graph(setup.graph)
        self.modules = nn.ModuleDict({**self.modules, TARGET: another_encoder(setup)})
        self.sources = {"noise": generator(setup.seed, "noise", setup.device)}

    def loss(self) -> Tensor:
        noise = self.sources["noise"]
        encoder: Any = self.modules["encoder"]
        hidden = encoder(self.x, self.view, noise)
        if hasattr(encoder, "smoothed"):
            hidden = encoder.smoothed(hidden, self.view.adjacency)
        target = self.modules[TARGET](self.x, self.view, noise)
        return prediction(self.modules["predictor"](hidden), target.detach()) + scattering(target)

    @torch.no_grad()
    def after_epoch(self) -> None:
        encoder, target = self.modules["encoder"], self.modules[TARGET]
        for mine, its in zip(target.parameters(), encoder.parameters(), strict=True):
            mine.lerp_(its, 1 - self.objective.decay)

    def finish(self) -> nn.ModuleDict:
        return nn.ModuleDict({name: module for name, module in self.modules.items() if name != TARGET})


def another_encoder(setup: Setup) -> nn.Module:
    """With parameters of its own, and what the encoder knows of the graph; the global random state stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator(setup.seed, "target's global state").get_state())
        built: nn.Module = setup.method.encoder.build(setup.graph.num_features, generator(setup.seed, TARGET))
    for name, value in setup.modules["encoder"].named_buffers():
        built.get_buffer(name).copy_(value)
    return built.to(setup.device)

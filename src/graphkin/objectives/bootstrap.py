r"""The objective of BGRL: each view predicts what a slowly moving copy of the encoder sees in the other (docs/math.md).

No node repels another, so that a step costs as much as encoding: memory and time grow with nodes and edges.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import check_range, check_whole
from graphkin.models.layers import PReLU, linear
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.support.components import register
from graphkin.support.randomness import generator


def bootstrap(predictions: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor]) -> Tensor:
    r"""The definition: :math:`ℓ = 2 - \frac{1}{N} \sum_i \cos(q^1_i, h^2_i) - \frac{1}{N} \sum_i \cos(q^2_i, h^1_i)`."""
    one = F.cosine_similarity(predictions[0], targets[1], dim=1).mean()
    other = F.cosine_similarity(predictions[1], targets[0], dim=1).mean()
    return 2 - one - other


@register("Bootstrap")
@dataclass(frozen=True)
class Bootstrap(Objective):
    """BGRL: a predictor of ``predictor`` hidden units, and a target encoder whose parameters follow the trained ones.

    In each step the target becomes ``decay`` times itself plus the rest of the encoder; ``decay`` rises to 1 over training,
    along half a cosine.
    """

    predictor: int = 512
    decay: float = 0.99

    recordable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("predictor", self.predictor, at_least=1, at_most=2**16)
        check_range("decay", self.decay, at_least=0, at_most=1)

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        inner, outer = linear(width, self.predictor, generator), linear(self.predictor, width, generator)
        return {"predictor": nn.Sequential(inner, PReLU(), outer)}

    def task(self, setup: Setup) -> Task:
        return BootstrapTask(setup)


class BootstrapTask(Task):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.objective: Bootstrap = setup.method.objective
        self.epochs = setup.method.optimiser.epochs
        self.x, self.plan = setup.x, setup.method.views.plan(setup.graph)
        self.target = copy.deepcopy(self.modules["encoder"]).requires_grad_(False)
        self.step = torch.zeros((), device=setup.device)
        self.sources = {name: generator(setup.seed, name, setup.device) for name in ("views", "noise")}
        self.memory = {"step": self.step, **{f"target.{name}": v for name, v in self.target.state_dict().items()}}

    def loss(self) -> Tensor:
        views = [self.plan.draw(view, self.sources["views"]) for view in (0, 1)]
        one, other = (self.modules["encoder"](self.x, view, self.sources["noise"]) for view in views)
        with torch.no_grad():
            self.target.train()
            seen, seen_other = (self.target(self.x, view, self.sources["noise"]) for view in views)
        predict = self.modules["predictor"]
        return bootstrap((predict(one), predict(other)), (seen, seen_other))

    @torch.no_grad()
    def after_epoch(self) -> None:
        self.step += 1
        share = (1 - self.objective.decay) * (1 + torch.cos(math.pi * self.step / self.epochs)) / 2
        for mine, its in zip(self.target.parameters(), self.modules["encoder"].parameters(), strict=True):
            mine.lerp_(its, share)

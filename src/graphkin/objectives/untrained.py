"""No objective: what an encoder gives without any training, such as smoothed features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.support.components import register


@register("Untrained")
@dataclass(frozen=True)
class Untrained(Objective):
    """Nothing is trained."""

    views: ClassVar[int] = 0
    trains: ClassVar[bool] = False

    @property
    def needs_edges(self) -> bool:
        return False

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        return {}

    def task(self, setup: Setup) -> Task:
        return UntrainedTask(setup)


class UntrainedTask(Task):
    def loss(self) -> Tensor:
        raise AssertionError("nothing is trained")

"""The optimiser of a method: kind, learning rate and its schedule, weight decay, epochs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from graphkin.errors import SettingError, check_choice, check_range, check_whole
from graphkin.support.adam import Adam
from graphkin.support.components import LATER, register

MOST_EPOCHS = 10**7
KINDS = ("adam", "adamw")
FEWEST_EPOCHS = 100
EPOCHS_A_FEATURE = 10
SCHEDULES = ("constant", "cosine")


@register("Optimiser")
@dataclass(frozen=True)
class Optimiser:
    """Adam or AdamW (``kind``) for a number of epochs.

    With ``epochs_by_ratio``, the number of epochs is this times the nodes per feature, N/F, but at least ``FEWEST_EPOCHS`` and
    at most ``epochs``: in long training, features that few nodes share are learned by heart. It is also at most
    ``EPOCHS_A_FEATURE`` per feature, because few features are learned quickly.

    The learning rate is "constant", or rises over ``warm_up`` epochs and then falls to zero along half a "cosine".
    """

    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    epochs: int = 200
    kind: str = field(default="adam", metadata=LATER)
    schedule: str = field(default="constant", metadata=LATER)
    warm_up: int = field(default=0, metadata=LATER)
    epochs_by_ratio: float | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        check_range("learning_rate", self.learning_rate, above=0, at_most=1e6)
        check_range("weight_decay", self.weight_decay, at_least=0, at_most=1e6)
        check_whole("epochs", self.epochs, at_least=1, at_most=MOST_EPOCHS)
        check_choice("kind", self.kind, KINDS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_whole("warm_up", self.warm_up, at_least=0)
        if self.epochs_by_ratio is not None:
            check_range("epochs_by_ratio", self.epochs_by_ratio, above=0, at_most=1e6)
        if self.warm_up and self.schedule == "constant":
            raise SettingError(f"warm_up goes with schedule='cosine', found warm_up={self.warm_up} and a constant rate.")

    def changed(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings to change: a number of epochs alone is meant as it is."""
        alone = "epochs" in settings and "epochs_by_ratio" not in settings
        return {**settings, "epochs_by_ratio": None} if alone else settings

    def epochs_on(self, nodes: int, features: int) -> int:
        """The epochs on a graph."""
        if self.epochs_by_ratio is None:
            return self.epochs
        wanted = min(self.epochs_by_ratio * nodes / features, EPOCHS_A_FEATURE * features)
        return min(self.epochs, max(FEWEST_EPOCHS, round(wanted)))

    def reason(self, nodes: int, features: int) -> str | None:
        """Why there are so many epochs on a graph, where they depend on it."""
        if self.epochs_by_ratio is None:
            return None
        epochs, each = self.epochs_on(nodes, features), self.epochs_by_ratio
        return (
            f"{epochs:,} epochs ({each:g} × {nodes / features:.1f} nodes per feature, at most {EPOCHS_A_FEATURE} × features, "
            f"and between {min(FEWEST_EPOCHS, self.epochs):,} and {self.epochs:,})"
        )

    def build(self, parameters: Iterable[nn.Parameter], device: torch.device) -> Adam:
        """On a GPU the rate of a schedule is a tensor, so that a recorded step reads what :meth:`rate` says."""
        on_gpu = device.type == "cuda"
        rate = torch.tensor(self.rate(0), device=device) if on_gpu and self.schedule != "constant" else self.learning_rate
        return Adam(parameters, rate, self.weight_decay, decoupled=self.kind == "adamw", on_gpu=on_gpu)

    def rate(self, epoch: int) -> float:
        """The learning rate of the epoch after ``epoch`` finished ones."""
        if self.schedule == "constant":
            return self.learning_rate
        if epoch < self.warm_up:
            return self.learning_rate * (epoch + 1) / self.warm_up
        progress = (epoch - self.warm_up) / max(self.epochs - self.warm_up, 1)
        return self.learning_rate * (1 + math.cos(math.pi * progress)) / 2

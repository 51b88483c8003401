"""A plan with all that its runs share, and their training."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import ModuleDict

from graphkin.graphs.graph import Graph
from graphkin.models.views import whole_graph
from graphkin.objectives.objective import Setup
from graphkin.support.memory import give_back
from graphkin.support.progress import Style
from graphkin.training.checkpoints import Checkpoint
from graphkin.training.fitted import Fitted
from graphkin.training.loop import Curve, Watch, train
from graphkin.training.modules import modules_for

if TYPE_CHECKING:
    from graphkin.training.plan import Plan


class Trained(NamedTuple):
    fitted: list[Fitted]
    stop_wanted: bool
    """Ctrl-C was pressed"""


@dataclass(frozen=True)
class Prepared:
    """A plan with all that its runs share, such as similarity and weights."""

    plan: Plan
    for_objective: Any
    x: Any
    """what the encoder takes"""
    learned: dict[str, torch.Tensor]
    """what the encoder found on the graph"""
    seconds: float
    """that preparing took"""
    seconds_of_objective: float
    """of them, those of the objective"""

    def groups(self, seeds: Sequence[int]) -> Iterator[Sequence[int]]:
        """Seeds that are trained together."""
        together = self.plan.execution.together
        return (seeds[first : first + together] for first in range(0, len(seeds), together))

    def setup(self, seed: int, graph: Graph | None = None) -> Setup:
        """What the run of a seed starts from; ``graph`` may have training labels of its own."""
        plan = self.plan
        graph = graph or plan.graph
        modules = modules_for(plan.method, graph.num_features, self._classes, seed).to(plan.device)
        for name, value in self.learned.items():
            modules["encoder"].get_buffer(name).copy_(value)
        return Setup(graph, self.x, self.for_objective, plan.execution, modules, seed, plan.device)

    def train(
        self,
        seeds: Sequence[int],
        progress: Style = "none",
        title: str = "",
        graphs: Sequence[Graph] | None = None,
        checkpoints: Sequence[Checkpoint] = (),
        watch: Watch[list[Fitted]] | None = None,
    ) -> Trained:
        """Train one group, side by side; ``graphs`` may give every seed training labels of its own.

        ``watch`` sees copies of the modules as they are after an epoch; they do not change the training.
        """
        plan, method = self.plan, self.plan.method
        graphs = graphs or [plan.graph] * len(seeds)
        tasks = [method.objective.task(self.setup(seed, graph)) for graph, seed in zip(graphs, seeds, strict=True)]

        def look(epoch: int) -> None:
            assert watch is not None
            watch.look([self._fitted(copy.deepcopy(task.modules), seed) for task, seed in zip(tasks, seeds, strict=True)])

        within = None if watch is None else Watch(watch.epochs, look)
        if method.objective.trains:
            curves = train(tasks, method, plan.device, progress, title, checkpoints, within)
            give_back()
        else:
            curves = [Curve() for _ in tasks]
        fitted = [self._fitted(task.finish(), seed, curve) for task, curve, seed in zip(tasks, curves, seeds, strict=True)]
        return Trained(fitted, curves[0].stop_wanted)

    def untrained(self, seed: int) -> Fitted:
        return self._fitted(self.setup(seed).modules, seed)

    def _fitted(self, modules: ModuleDict, seed: int, curve: Curve | None = None) -> Fitted:
        """Without a ``curve``, from the middle of training."""
        plan = self.plan
        encoder: Any = modules["encoder"]
        if hasattr(encoder, "settle"):
            encoder.settle(self.x, whole_graph(plan.graph))
        return Fitted(
            method=plan.method,
            modules=modules.cpu(),
            num_features=plan.graph.num_features,
            num_classes=self._classes,
            seed=seed,
            feature_names=plan.graph.feature_names,
            losses=() if curve is None else tuple(curve.losses),
            interrupted=curve is None or curve.interrupted,
            seconds={} if curve is None else {"prepare": self.seconds, "train": curve.seconds},
            kernel=plan.execution.kernel,
            execution=plan.execution.record(),
            own_similarity=None if plan.own is None else plan.own.digest(),
            recipe=plan.recipe,
            features=plan.features,
        )

    def embed(self, fitted: Fitted) -> torch.Tensor:
        """``fitted.embed(graph)`` on the graph of training, without computing again what the encoder takes."""
        return torch.cat(list(self.embed_in_blocks(fitted)))

    @torch.no_grad()
    def embed_in_blocks(self, fitted: Fitted) -> Iterator[torch.Tensor]:
        """The rows of :meth:`embed` in their order, some at a time."""
        encoder: Any = fitted.modules["encoder"]
        if not hasattr(encoder, "embed"):
            yield from fitted.embed_in_blocks(self.plan.graph.to(fitted.device))
            return
        home, view = fitted.device, whole_graph(self.plan.graph)
        encoder.to(self.plan.device).eval()
        blocks = encoder.embed_in_blocks(self.x, view) if hasattr(encoder, "embed_in_blocks") else [encoder.embed(self.x, view)]
        for rows in blocks:
            yield rows.to(home)
        encoder.to(home)

    @property
    def _classes(self) -> int:
        return self.plan.graph.num_classes if self.plan.method.needs_labels else 0

"""The objective of Graph-MLP and its "+": neighbours attract in one view, and labels train a classifier beside it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import SettingError, check_range, check_whole
from graphkin.execution import Execution, MethodLike, Stored, together_on
from graphkin.graphs.graph import Graph
from graphkin.models.encoder import declares, width_of
from graphkin.models.layers import linear
from graphkin.models.views import isolated
from graphkin.objectives.kernels import TRUSTED_TAU, one_view_loss
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.objectives.weighting import check_similarity, node_weights, preparing_bytes, similarity_bytes, use_edges
from graphkin.similarity import NodeSimilarity
from graphkin.support.components import SLOT, register
from graphkin.support.parallel import peers
from graphkin.support.randomness import generator
from graphkin.weights import Neighbours, NodeWeights, Uniform


@register("Supervision")
@dataclass(frozen=True)
class Supervision:
    """Graph-MLP's labels: cross entropy plus ``contrast_weight`` (λ) times the contrast, on batches with all training nodes."""

    contrast_weight: float = 1.0
    batch: int = 2000

    def __post_init__(self) -> None:
        check_range("contrast_weight", self.contrast_weight, at_least=0)
        check_whole("batch", self.batch, at_least=2)


@register("NeighbourhoodContrast")
@dataclass(frozen=True)
class NeighbourhoodContrast(Objective):
    """Eq. (individual_NC_loss) and, by similarity, Eq. (individual_en_NC_loss), with cross entropy on the training nodes."""

    positives: Any = field(default=Neighbours(), metadata=SLOT)
    negatives: Any = field(default=Uniform(), metadata=SLOT)
    similarity: Any = field(default=None, metadata=SLOT)
    supervision: Supervision = field(default=Supervision(), metadata=SLOT)
    tau: float = 0.4

    views: ClassVar[int] = 0
    needs_labels: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range("tau", self.tau, above=0)
        check_similarity(self)

    @property
    def needs_edges(self) -> bool:
        return use_edges(self)

    def check(self, method: MethodLike) -> None:
        super().check(method)
        if declares(method.encoder, "sees_edges") or hasattr(method.encoder, "inputs"):
            raise SettingError(
                "NeighbourhoodContrast takes batches of nodes, so it needs an encoder of features alone, such as MLP "
                f"(sees_edges = False and no inputs of its own), found {type(method.encoder).__name__}."
            )

    def ways(
        self,
        graph: Graph,
        method: MethodLike,
        device: torch.device,
        own: NodeSimilarity | None = None,
        *,
        adapt: bool = True,
    ) -> Iterator[Execution]:
        batch = min(self.supervision.batch, graph.num_nodes)
        width = width_of(method.encoder, graph.num_features)
        step = 4 * self.supervision.batch * (8 * width + 10 * self.supervision.batch) + 4 * graph.num_nodes * graph.num_features
        never_waits = device.type == "cuda" and self.tau >= TRUSTED_TAU and peers().size == 1
        described: list[tuple[Stored, str]] = [
            ("similarity", "batches, similarity stored"),
            ("nothing", "batches, similarity when needed"),
        ]
        for stored, words in described:
            preparing = preparing_bytes(graph, method, stored, device)
            yield Execution(
                words,
                method,
                stored,
                implementation="symmetric",
                recorded=never_waits and stored != "nothing" and declares(method.encoder, "recordable"),
                together=together_on(device, batch),
                needs=similarity_bytes(graph, method, stored, weights=False) + max(preparing, step),
            )

    def prepare(
        self, graph: Graph, execution: Execution, similarity: NodeSimilarity | None = None, folder: Path | None = None
    ) -> NodeWeights:
        return node_weights(graph, execution, similarity, folder)

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        return {"classifier": linear(width, num_classes, generator)}

    def task(self, setup: Setup) -> Task:
        return SupervisedTask(setup)


class SupervisedTask(Task):
    """Cross entropy on the training nodes plus contrast within a batch that holds them all.

    The parameters of the best validation accuracy are the ones that remain.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        graph, device = setup.graph, setup.device
        assert graph.y is not None and graph.train_mask is not None and graph.val_mask is not None
        self.objective: NeighbourhoodContrast = setup.method.objective
        self.weights: NodeWeights = setup.prepared
        self.x = setup.x if isinstance(setup.x, Tensor) else setup.x.to_dense()
        self.y = graph.y
        self.train_nodes = graph.train_mask.nonzero()[:, 0]
        self.other_nodes = (~graph.train_mask).nonzero()[:, 0]
        self.val_nodes = graph.val_mask.nonzero()[:, 0]
        self.room = max(self.objective.supervision.batch - self.train_nodes.numel(), 0)
        size = self.train_nodes.numel() + min(self.room, self.other_nodes.numel())
        self.batch_view, self.val_view = isolated(size, device), isolated(self.val_nodes.numel(), device)
        self.sources = {"batches": generator(setup.seed, "batches", device), "noise": generator(setup.seed, "noise", device)}
        self.best_accuracy = torch.tensor(-1.0, device=device)
        self.best_state = copy.deepcopy(self.modules.state_dict())
        self.memory = {"best_accuracy": self.best_accuracy, **{f"best.{name}": v for name, v in self.best_state.items()}}

    def loss(self) -> Tensor:
        nodes = self._batch()
        z = self.modules["encoder"](self.x[nodes], self.batch_view, self.sources["noise"])
        labelled = torch.searchsorted(nodes, self.train_nodes)
        cross_entropy = F.cross_entropy(self.modules["classifier"](z[labelled]), self.y[self.train_nodes])
        contrast = one_view_loss(F.normalize(z, dim=1), self.weights, nodes, self.objective.tau)
        return cross_entropy + self.objective.supervision.contrast_weight * contrast

    def _batch(self) -> Tensor:
        """All training nodes and a random rest, in increasing order."""
        order = torch.randperm(self.other_nodes.numel(), generator=self.sources["batches"], device=self.other_nodes.device)
        return torch.cat([self.train_nodes, self.other_nodes[order[: self.room]]]).sort().values

    @torch.no_grad()
    def after_epoch(self) -> None:
        self.modules.eval()
        logits = self.modules["classifier"](self.modules["encoder"](self.x[self.val_nodes], self.val_view))
        accuracy = (logits.argmax(dim=1) == self.y[self.val_nodes]).float().mean()
        better = accuracy > self.best_accuracy
        self.best_accuracy.copy_(torch.where(better, accuracy, self.best_accuracy))
        for name, value in self.modules.state_dict().items():
            self.best_state[name].copy_(torch.where(better, value, self.best_state[name]))

    def finish(self) -> nn.ModuleDict:
        self.modules.load_state_dict(self.best_state)
        return self.modules
